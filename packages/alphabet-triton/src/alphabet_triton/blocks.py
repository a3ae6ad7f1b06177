"""Block sizes by shape, in literal tables: chosen for compiling without spills (docs/gpu.md), never by timing."""

from alphabet_triton.launching import Blocks

# Keys are numbers of features, rounded up to a power of two. The last entry of a table is also for wider models, whose
# features come in parts of BD. BN is the block of the drive's rows, or of the states that are synthesized.
EDGE = {
    16: Blocks({"BT": 32, "BD": 16, "BM": 16}, warps=4),
    32: Blocks({"BT": 32, "BD": 32, "BM": 16}, warps=4),
    64: Blocks({"BT": 32, "BD": 64, "BM": 16}, warps=4),
    128: Blocks({"BT": 32, "BD": 128, "BM": 16}, warps=4),
    256: Blocks({"BT": 32, "BD": 64, "BM": 16}, warps=8, stages=1),
}
# ptxas takes all 255 registers whatever the number of warps: with fewer of them more programs are resident.
READER = {
    16: Blocks({"BT": 32, "BD": 16, "BM": 16, "BC": 16}, warps=2, stages=1),
    32: Blocks({"BT": 32, "BD": 32, "BM": 16, "BC": 16}, warps=2, stages=1),
    64: Blocks({"BT": 32, "BD": 64, "BM": 16, "BC": 16}, warps=4, stages=1),
    128: Blocks({"BT": 32, "BD": 32, "BM": 16, "BC": 8}, warps=4, stages=1),
    256: Blocks({"BT": 32, "BD": 64, "BM": 16, "BC": 16}, warps=8, stages=1),
}
# With masks, width 128 spills in these by Triton 3.5.1: the reader on sm_90, the edge there and on sm_80.
EDGE_MASKED = EDGE | {128: Blocks({"BT": 32, "BD": 64, "BM": 16}, warps=4, stages=1)}
READER_MASKED = READER | {128: READER[256]}
NORM_BWD = {
    16: Blocks({"BT": 64, "BD": 16, "BN": 16}, warps=4),
    32: Blocks({"BT": 64, "BD": 32, "BN": 16}, warps=4),
    64: Blocks({"BT": 32, "BD": 64, "BN": 32}, warps=4),
    128: Blocks({"BT": 32, "BD": 128, "BN": 32}, warps=8),
    256: Blocks({"BT": 32, "BD": 64, "BN": 32}, warps=4),
}
EDGE_BWD = {
    16: Blocks({"BT": 64, "BD": 16}, warps=4),
    32: Blocks({"BT": 64, "BD": 32}, warps=8),
    64: Blocks({"BT": 32, "BD": 64}, warps=8),
}
# With the gradient of the values eight warps spill on sm_89; without it four do on sm_90, by Triton 3.5.1.
EDGE_BWD_VALUES = EDGE_BWD | {
    32: Blocks({"BT": 64, "BD": 32}, warps=4),
    64: Blocks({"BT": 32, "BD": 64}, warps=4),
}
READER_BWD = {
    16: Blocks({"BT": 128, "BD": 16, "BN": 16}, warps=4),
    32: Blocks({"BT": 64, "BD": 32, "BN": 16}, warps=8),
    64: Blocks({"BT": 32, "BD": 64, "BN": 32}, warps=8),
    128: Blocks({"BT": 32, "BD": 128, "BN": 16}, warps=8),
    256: Blocks({"BT": 32, "BD": 64, "BN": 32}, warps=8),
}
# One warp: every warp of a program would do the poles' arithmetic for itself.
FOLD = {16: Blocks({"BD": 16, "BM": 4}, warps=1), 32: Blocks({"BD": 32, "BM": 4}, warps=1)}
FOLD_BWD = Blocks({"BD": 32, "BM": 16, "BR": 16, "BC": 32}, warps=8)
CONSTRAINT = Blocks({"BR": 16, "BC": 32}, warps=8)
ADAMW = Blocks({"BN": 1024}, warps=4)
TOTALS = Blocks({"BP": 16, "BN": 64}, warps=8)
OUTER_BWD = Blocks({"BT": 32, "BL": 32, "BR": 32}, warps=4)
# Keys are the most modes that a program holds. Three or more share programs of eight: no number of warps compiled
# programs of four without a spill on every architecture, and of eight, only sixteen did on sm_90.
SCAN_BWD = {2: Blocks({"BT": 128, "BM": 2}, warps=4), 8: Blocks({"BT": 128, "BM": 8}, warps=16)}


def round_up(size: int) -> int:
    """The smallest power of two that is at least `size`."""
    return 1 << (int(size) - 1).bit_length()  # while torch traces, sizes are symbolic


def feature_blocks(table: dict[int, Blocks], features: int) -> Blocks:
    """The entry of a table for models with so many features."""
    return table[min(max(16, round_up(features)), max(table))]


def scan_blocks(table: dict[int, Blocks], modes: int) -> Blocks:
    """The entry of a scan's table for banks with so many modes."""
    return table[2 if modes <= 2 else 8]


def head_blocks(features: int) -> Blocks:
    """Blocks of the head: the chunk of edge and reader, and the poles (BN), outputs (BK) and coordinates at once.

    With eight outputs at once ptxas aims at five programs on a multiprocessor of sm_89, and spills.
    """
    chunk = feature_blocks(EDGE, features).sizes["BT"]
    return Blocks({"BT": chunk, "BM": 16, "BC": 16, "BN": 32, "BK": 16, "BJ": 128}, warps=4)


def head_bwd_blocks(modes: int, outputs: int, most: int = 128) -> Blocks:
    """Blocks of the head's backward: at most so many poles of both banks, and as many outputs as fit beside them."""
    poles = min(round_up(2 * modes), most)
    return Blocks({"BN": poles, "BK": min(round_up(outputs), max(1, 128 // poles))}, warps=1)


def loss_blocks(modes: int, outputs: int) -> Blocks:
    """Blocks of the loss's kernel: the head's, and BS logits at a time for the loss; with 128 poles it spills."""
    head = head_bwd_blocks(modes, outputs, most=64)
    return Blocks({**head.sizes, "BS": 128}, warps=head.warps)
