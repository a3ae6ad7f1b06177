"""How the fold's kernels are called."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from alphabet_triton.blocks import FOLD, FOLD_BWD, feature_blocks
from alphabet_triton.buffers import POWERS, contiguous, tiles
from alphabet_triton.launching import Launch, run
from alphabet_triton.ops.fold.backward import fold_bwd_kernel
from alphabet_triton.ops.fold.kernel import POLE_ROWS, fold_fwd_kernel


@dataclass(frozen=True)
class Foldable:
    """What is folded: of either bank base (D, S), whose first 2M columns are the frame, poles (M,) and norm gain (D,).

    synthesis_scale, feedthrough (D,): the synthesis
    """

    base: Tensor
    raw_decay: Tensor
    raw_frequency: Tensor
    gain: Tensor
    base_2: Tensor
    raw_decay_2: Tensor
    raw_frequency_2: Tensor
    gain_2: Tensor
    synthesis_scale: Tensor
    feedthrough: Tensor

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that both kernels take."""
        sizes = {"D": len(self.gain), "M": len(self.raw_decay)}
        return {**sizes, "S": self.base.shape[1], "S_2": self.base_2.shape[1]}


@dataclass(frozen=True)
class Factors:
    """The factors of both banks: matrices (2M, D), transitions (2M, 11), synthesis (D, 2M) and through (D,).

    A transition's columns are the pole's powers 1, 2, 4, ..; poles (2, 6, M): derivatives that the backward reads
    """

    matrix: Tensor
    transition: Tensor
    matrix_2: Tensor
    transition_2: Tensor
    synthesis: Tensor
    through: Tensor
    poles: Tensor


def launch_fold(given: Foldable) -> Factors:
    """The factors of both banks."""
    given = Foldable(*contiguous(*vars(given).values()))
    width, modes, like = len(given.gain), len(given.raw_decay), given.gain
    shapes = 2 * ((2 * modes, width), (2 * modes, POWERS)) + ((width, 2 * modes), (width,), (2, POLE_ROWS.value, modes))
    factors = Factors(*(like.new_empty(shape) for shape in shapes))
    blocks = feature_blocks(FOLD, width)
    grid = (2 * tiles(modes, blocks.sizes["BM"]),)
    run(Launch(fold_fwd_kernel, grid, {**vars(given), **vars(factors)}, given.sizes, blocks))
    return factors


def launch_fold_backward(
    given: Foldable, factors: Factors, gradients: Mapping[str, Tensor], found: Mapping[str, Tensor]
) -> None:
    """Write to `found` what the gradients of the factors give.

    gradients: d_matrices (3, 2M, D), of both matrices and of the synthesis, its axes exchanged, d_transitions (2, 2M)
    and d_through (D,); found: d_tangent (D, 2M), d_decay, d_frequency (M,) and d_gain (D,) of both banks, the cascaded
    one's with a `_2`, d_synthesis_scale and d_feedthrough (D,)
    """
    read = ("base", "gain", "base_2", "gain_2", "synthesis_scale", "feedthrough")
    tensors = dict(zip(read, contiguous(*(getattr(given, name) for name in read)), strict=True))
    factored = {name: getattr(factors, name) for name in ("transition", "transition_2", "poles")}
    sizes, blocks = given.sizes, FOLD_BWD.sizes
    tasks = tiles(sizes["D"], blocks["BR"]) * tiles(2 * sizes["M"], blocks["BC"])
    tasks += tiles(sizes["M"], blocks["BM"]) + tiles(sizes["D"], blocks["BD"])
    run(Launch(fold_bwd_kernel, (2 * tasks,), {**tensors, **factored, **gradients, **found}, sizes, FOLD_BWD))
