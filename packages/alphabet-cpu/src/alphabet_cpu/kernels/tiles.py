"""`run_tile`: the whole model over one tile of a sequence, forward.

The second lift looks eight tokens ahead, so the cascaded bank runs eight tokens behind the direct one. A few rows are
carried from tile to tile, and nothing else grows with the length. A sequence on an irregular grid is one tile.
"""

from typing import Any, NamedTuple

from alphabet_core.fused import LIFT_REACH

from alphabet_cpu.compiling import array_kernel, inlined
from alphabet_cpu.kernels.arithmetic import allocate, clear, copy
from alphabet_cpu.kernels.bank import KeptBank, allocate_bank, drive_bank, tabulate_bank, transport
from alphabet_cpu.kernels.clock import allocate_lookups, locate
from alphabet_cpu.kernels.frames import return_modes
from alphabet_cpu.kernels.layout import Floats, Integers, Mask, Sizes, Tokens
from alphabet_cpu.kernels.lift import project
from alphabet_cpu.kernels.memory import publish, wait_until
from alphabet_cpu.kernels.moments import correlate
from alphabet_cpu.kernels.synthesis import synthesize

TILE = 128
LOOK_BACK = 2 * LIFT_REACH  # rows of the stream before a tile that its cascaded bank still reads
# What the counters count: pieces of work that were claimed, and tiles that handed on each of three things.
CLAIMED, DIRECT, STREAM, CASCADED, COUNTERS = range(5)


class Handover(NamedTuple):
    """What the threads of one call share.

    split: whether threads claim tiles, in order, rather than whole sequences
    kept: whether every tile has a row of its own in what is carried; else each thread carries for itself, unless split
    counters: zeros
    under_way: a counter that each thread raises when it begins, for threads that look for work
    carried (2 or B tiles, ...): what a tile leaves to the next, see `Carried`; two are written and read by turns
    """

    split: bool
    kept: bool
    counters: Integers
    under_way: Integers
    carried: Floats


class Carried(NamedTuple):
    """What a tile leaves to the next: the last states of either bank, and sixteen rows of the stream."""

    direct: Any
    cascaded: Any
    stream: Any


class Tile(NamedTuple):
    """Tokens start ... stop of a sequence, which has `end` of them; `piece` is the tile's number in its batch."""

    row: Any
    start: Any
    stop: Any
    end: Any
    piece: Any


class Window(NamedTuple):
    """What is computed of one tile.

    projected, stream (24 + n, width): what the lifts read, from eight and from sixteen tokens before the tile on
    direct, cascaded: the banks; they may share buffers
    lookups: of an irregular grid, else None; partners: a buffer for the states that they find
    """

    projected: Any
    stream: Any
    direct: KeptBank
    cascaded: KeptBank
    lookups: Any
    partners: Any


@inlined
def view_carried(flat, sizes):
    """The parts of one row of `Handover.carried`."""
    history = sizes.history * sizes.columns
    return Carried(flat[:history], flat[history : 2 * history], flat[2 * history :])


def count_carried(sizes: Sizes) -> int:
    """How many numbers a tile leaves to the next."""
    return 2 * sizes.history * sizes.columns + LOOK_BACK * sizes.width


def count_tiles(length: int, *, clocked: bool) -> int:
    """How many tiles sequences of this length have."""
    return 1 if clocked else -(-length // TILE)


@array_kernel
def allocate_window(batch, sizes, poles, keep):
    """The buffers for tiles of a batch; if everything is to be kept each bank has its own."""
    capacity = TILE if batch.clock is None else batch.length
    rows, last = capacity + 3 * LIFT_REACH, len(poles) - 1
    lookups = allocate_lookups(batch.clock, capacity, sizes.lags)
    direct = allocate_bank(lookups, capacity, sizes, poles[0], keep)
    cascaded = direct
    if keep:
        cascaded = allocate_bank(lookups, capacity, sizes, poles[last], keep)
    else:
        table = tabulate_bank(lookups, poles[last], sizes.columns)
        cascaded = KeptBank(direct.lifted, direct.drive, direct.states, direct.holds, table)
    partners = direct.drive if lookups is None else allocate((capacity + 2 * LIFT_REACH) * sizes.columns)
    return Window(allocate(rows * sizes.width), allocate(rows * sizes.width), direct, cascaded, lookups, partners)


@inlined
def lead_tokens(tile, length):
    """The tokens that a tile's direct bank runs over."""
    return Tokens(tile.row * length + tile.start, tile.start, tile.stop - tile.start)


@inlined
def trail_tokens(tile, length):
    """The tokens that its cascaded bank runs over: as far as the stream behind them is known."""
    done, ready = max(0, tile.start - LIFT_REACH), tile.stop if tile.stop == tile.end else tile.stop - LIFT_REACH
    return Tokens(tile.row * length + done, done, ready - done)


@inlined
def run_tile(tile, sizes, folded, batch, window, before, after, handover, keep, sums):
    """Run both banks over a tile, from what the tile before carried on; write what this one carries.

    sums (banks, 1 + 2 L, modes): where moments are added
    keep: whether the backward pass follows; then gates are kept, and no moments are added
    """
    split, counters, piece = handover.split, handover.counters, tile.piece
    valid, gate = Mask(batch.valid, batch.masked), Mask(batch.gate, batch.masked)
    width, length, columns = sizes.width, batch.length, sizes.columns
    lookups, direct, cascaded, stream = window.lookups, window.direct, window.cascaded, window.stream

    tokens = lead_tokens(tile, length)
    locate(lookups, tokens, sizes.lags, valid)
    around = Tokens(tokens.first - LIFT_REACH, tile.start - LIFT_REACH, tokens.count + 2 * LIFT_REACH)
    project(batch.values, around, tile.end, sizes, folded.project, valid, window.projected)
    drive_bank(lookups, window.projected, LIFT_REACH, tokens, sizes, folded.direct, valid, direct, keep)
    if split:
        wait_until(counters, DIRECT, piece)
    transport(tokens, sizes, folded.direct, gate, direct, before.direct, after.direct)
    if not keep:
        correlate(lookups, direct.states, tokens, sizes, valid, window.partners, sums[0])
    if split:
        publish(counters, DIRECT, piece + 1)
    if not sizes.cascaded:
        return

    look_back = LOOK_BACK * width
    if sizes.synthesis:
        history = sizes.history * columns
        return_modes(direct.states, history, folded.synthesis, stream, look_back, tokens.count, sizes)
        synthesize(direct.lifted, tokens, width, folded.through, valid, stream, LOOK_BACK)
    else:
        copy(direct.lifted.features, 0, stream, look_back, tokens.count * width)
    if split:
        wait_until(counters, STREAM, piece)
    copy(before.stream, 0, stream, 0, look_back)
    if tile.start == 0:
        clear(stream, 0, look_back)
    copy(stream, tokens.count * width, after.stream, 0, look_back)
    if split:
        publish(counters, STREAM, piece + 1)
    if tile.stop == tile.end:
        clear(stream, (LOOK_BACK + tokens.count) * width, (LOOK_BACK + LIFT_REACH + tokens.count) * width)

    tokens = trail_tokens(tile, length)
    centre = LOOK_BACK + tokens.time - tile.start
    drive_bank(lookups, stream, centre, tokens, sizes, folded.cascaded, valid, cascaded, keep)
    if split:
        wait_until(counters, CASCADED, piece)
    transport(tokens, sizes, folded.cascaded, valid, cascaded, before.cascaded, after.cascaded)
    if not keep:
        correlate(lookups, cascaded.states, tokens, sizes, valid, window.partners, sums[1])
