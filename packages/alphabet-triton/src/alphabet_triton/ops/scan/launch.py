"""How the scan's kernels are called."""

from torch import Tensor

from alphabet_triton.blocks import scan_blocks
from alphabet_triton.launching import Launch
from alphabet_triton.ops.scan.kernel import scan_bwd_kernel, scan_fwd_kernel
from alphabet_triton.shapes import Masks, Shape

DIRECT, CASCADED = 0, 1


def _sizes(shape: Shape, bank: int) -> dict[str, int]:
    return {"T": shape.length, "TS": shape.stride, "M": shape.modes, "bank": bank}


def _grid(shape: Shape, block: int) -> tuple[int, int]:
    return -(-shape.modes // block), shape.batch


def scan_forward(
    shape: Shape, masks: Masks, bank: int, drive: Tensor, transition: Tensor, out: dict[str, Tensor], *, store: bool
) -> Launch:
    """Into out: sums and counts of one bank, and its states if they are to be stored; pairs are counted once."""
    blocks = scan_blocks(shape.modes)
    return Launch(
        scan_fwd_kernel,
        _grid(shape, blocks.sizes["BM"]),
        {"drive": drive, "transition": transition, "valid": masks.valid, **out},
        _sizes(shape, bank),
        blocks,
        {"MASKED": masks.given, "STORE": store, "COUNT": bank == DIRECT},
    )


def scan_backward(
    shape: Shape, masks: Masks, bank: int, saved: dict[str, Tensor], grads: dict[str, Tensor], out: dict[str, Tensor]
) -> Launch:
    """saved: states, transition; grads: d_sums and, of the direct bank, d_states; into out: d_drive, d_transition."""
    blocks = scan_blocks(shape.modes)
    gate = masks.gate if bank == DIRECT else masks.valid
    return Launch(
        scan_bwd_kernel,
        _grid(shape, blocks.sizes["BM"]),
        {**saved, "valid": masks.valid, "gate": gate, **grads, **out},
        _sizes(shape, bank),
        blocks,
        {"MASKED": masks.given, "ALONE": bank == CASCADED},
    )
