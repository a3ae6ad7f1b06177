"""How the kernel of all sums is called."""

from collections.abc import Mapping

from torch import Tensor

from alphabet_triton.blocks import TOTALS
from alphabet_triton.buffers import TAPS, tiles
from alphabet_triton.launching import Launch, run
from alphabet_triton.ops.totals.kernel import COORDINATES, totals_kernel


def launch_totals(parts: Mapping[str, Tensor], found: Mapping[str, Tensor], channels: int) -> None:
    """Write to `found` the sums of `parts` over programs and sequences.

    parts: edge_rows (P, D, 6 + C), reader_rows (R, D, 7), products (3, B, 2M, D), d_transition and d_transition_2
    (B, 2M), d_logits (.., B, K), of which the first is read, descriptor (B, 2, M, 7), losses (B,)
    found: d_project, d_taps, d_bias, d_taps_2, d_bias_2, d_head, d_head_bias, d_through (D,), d_matrices (3, 2M, D),
    d_transitions (2, 2M), the mean loss, and steps (L,), to which one is added
    """
    _, batch, rows, width = parts["products"].shape
    modes, outputs, block = rows // 2, len(found["d_head_bias"]), TOTALS.sizes["BN"]
    columns = [width * (TAPS + 1 + channels), width * (TAPS + 2), *3 * [rows * width], *2 * [rows], 1]
    columns.append(outputs * (COORDINATES.value * modes + 1))
    scalars = {
        "P": len(parts["edge_rows"]), "R": len(parts["reader_rows"]), "B": batch, "C": channels, "D": width,
        "M": modes, "K": outputs, "L": len(found["steps"]),
    }  # fmt: skip
    grid = (sum(tiles(count, block) for count in columns),)
    run(Launch(totals_kernel, grid, {**parts, **found}, scalars, TOTALS))
