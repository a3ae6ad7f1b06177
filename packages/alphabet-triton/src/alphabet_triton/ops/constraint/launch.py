"""How the constraint's kernels are called."""

from torch import Tensor

from alphabet_triton.blocks import CONSTRAINT
from alphabet_triton.buffers import tiles
from alphabet_triton.launching import Launch, run
from alphabet_triton.ops.constraint.kernel import orthonormalize_kernel, turn_kernel


def launch_constraint(bases: list[Tensor], tangents: list[Tensor]) -> None:
    """Do what `Frame.rebase` does, in place, to one or two frames of the same size: base (D, D), tangent (D, 2M)."""
    width, columns = tangents[0].shape
    moved, term = bases[0].new_empty(len(bases), width, width), bases[0].new_empty(len(bases), 2, width, width)
    grid = (len(bases) * tiles(width, CONSTRAINT.sizes["BR"]),)
    tensors = {
        "base": bases[0], "tangent": tangents[0], "base_2": bases[-1], "tangent_2": tangents[-1],
        "moved": moved, "term": term,
    }  # fmt: skip
    for kernel in (turn_kernel, orthonormalize_kernel):
        run(Launch(kernel, grid, tensors, {"D": width, "N": columns}, CONSTRAINT))
