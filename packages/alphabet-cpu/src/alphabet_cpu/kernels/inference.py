"""`run_tiles`: the whole model in one pass over each sequence, in tiles of 128 tokens.

The second lift looks eight tokens ahead, so the cascaded bank runs eight tokens behind the direct one. A few rows are
carried from tile to tile, and nothing grows with the length.
"""

from typing import Any, NamedTuple

from alphabet_core.fused import LIFT_REACH

from alphabet_cpu.compiling import kernel
from alphabet_cpu.kernels.arithmetic import allocate, clear, copy
from alphabet_cpu.kernels.frames import drive_modes, return_modes
from alphabet_cpu.kernels.layout import (
    Batch,
    Floats,
    Integers,
    Mask,
    Outputs,
    Sizes,
    Tokens,
    Weights,
    unpack,
)
from alphabet_cpu.kernels.lift import Lifted, lift, project
from alphabet_cpu.kernels.memory import claim, publish, wait_until
from alphabet_cpu.kernels.moments import condition_sums, correlate, read_head
from alphabet_cpu.kernels.scan import HISTORY, scan
from alphabet_cpu.kernels.synthesis import synthesize

TILE = 128
LOOK_BACK = 2 * LIFT_REACH  # rows of the stream before a tile that its cascaded bank still reads
# What the counters count: pieces of work that were claimed, and tiles that handed on each of three things.
CLAIMED, DIRECT, STREAM, CASCADED, COUNTERS = range(5)


class Handover(NamedTuple):
    """What the threads of one call share.

    split: whether threads claim tiles, in order, rather than whole sequences
    counters (4,): zeros
    carried (2, ...): what a tile leaves to the next, written and read by turns; see `Carried`
    """

    split: bool
    counters: Integers
    carried: Floats


class Carried(NamedTuple):
    """What a tile leaves to the next: the last four states of either bank, and sixteen rows of the stream."""

    direct: Any
    cascaded: Any
    stream: Any


@kernel
def view_carried(flat, sizes):
    """The parts of one row of `Handover.carried`."""
    history = HISTORY * sizes.columns
    return Carried(flat[:history], flat[history : 2 * history], flat[2 * history :])


def count_carried(sizes: Sizes) -> int:
    """How many numbers a tile leaves to the next."""
    return 2 * HISTORY * sizes.columns + LOOK_BACK * sizes.width


@kernel
def run_tiles(sizes, weights, batch, outputs, handover):
    """Write moment sums, descriptors and logits of the sequences or, if split, tiles that this thread claims.

    A split sequence's tiles run on several threads, and hand on what they carry in order, as the counters tell. Most of
    the work does not wait for that.
    """
    sizes, weights, batch = Sizes(*sizes), Weights(*weights), Batch(*batch)
    outputs, handover = Outputs(*outputs), Handover(*handover)
    folded = unpack(weights.packed, sizes)
    direct, cascaded = folded.direct, folded.cascaded
    valid, gate = Mask(batch.valid, batch.masked), Mask(batch.gate, batch.masked)
    length, width, columns, pairs = batch.length, sizes.width, sizes.columns, batch.pairs
    split, counters, carried = handover.split, handover.counters, handover.carried
    sums, descriptor, logits = outputs.sums, outputs.descriptor, outputs.logits

    projected = allocate((TILE + 3 * LIFT_REACH) * width)  # from eight tokens before the tile on
    features = allocate((TILE + LIFT_REACH) * width)
    lifted = Lifted(features, features, allocate(TILE + LIFT_REACH))  # the gates are not kept
    stream = allocate((TILE + 3 * LIFT_REACH) * width)  # from sixteen tokens before the tile on
    drive = allocate((TILE + LIFT_REACH) * columns)
    states = allocate((HISTORY + TILE + LIFT_REACH) * columns)
    if not split:
        carried = allocate(carried.size).reshape(carried.shape)
    history, look_back = HISTORY * columns, LOOK_BACK * width
    tiles = -(-length // TILE)
    while True:
        piece = claim(counters, CLAIMED)
        row, tile = (piece // tiles, piece % tiles) if split else (piece, 0)
        if row >= batch.sequences:
            break
        while True:
            before, after = view_carried(carried[(tile + 1) % 2], sizes), view_carried(carried[tile % 2], sizes)
            start = tile * TILE
            stop = min(start + TILE, length)
            is_last = stop == length
            tokens = Tokens(row * length + start, start, stop - start)
            around = Tokens(tokens.first - LIFT_REACH, start - LIFT_REACH, tokens.count + 2 * LIFT_REACH)
            project(batch.values, around, length, sizes, folded.project, valid, projected)
            lift(projected, LIFT_REACH, tokens, sizes, direct.taps, valid, lifted, False)
            drive_modes(features, direct.drive, drive, tokens.count, sizes)
            if split:
                wait_until(counters, DIRECT, piece)
            copy(before.direct, 0, states, 0, history)
            if tile == 0:
                clear(states, 0, history)
            scan(drive, lifted.scale, tokens, columns, direct.transition, gate, states)
            correlate(states, tokens, columns, valid, sums[row, 0])
            copy(states, tokens.count * columns, after.direct, 0, history)
            if split:
                publish(counters, DIRECT, piece + 1)

            return_modes(states, history, folded.synthesis, stream, look_back, tokens.count, sizes)
            synthesize(lifted, tokens, width, folded.through, valid, stream, LOOK_BACK)
            if split:
                wait_until(counters, STREAM, piece)
            copy(before.stream, 0, stream, 0, look_back)
            if tile == 0:
                clear(stream, 0, look_back)
            copy(stream, tokens.count * width, after.stream, 0, look_back)
            if split:
                publish(counters, STREAM, piece + 1)

            # The cascaded bank goes as far as the stream behind its tokens is known.
            done, ready = max(0, start - LIFT_REACH), stop - LIFT_REACH
            if is_last:
                ready = length
                clear(stream, (LOOK_BACK + tokens.count) * width, (LOOK_BACK + LIFT_REACH + tokens.count) * width)
            tokens = Tokens(row * length + done, done, ready - done)
            lift(stream, LOOK_BACK + done - start, tokens, sizes, cascaded.taps, valid, lifted, False)
            drive_modes(features, cascaded.drive, drive, tokens.count, sizes)
            if split:
                wait_until(counters, CASCADED, piece)
            copy(before.cascaded, 0, states, 0, history)
            if tile == 0:
                clear(states, 0, history)
            scan(drive, lifted.scale, tokens, columns, cascaded.transition, valid, states)
            correlate(states, tokens, columns, valid, sums[row, 1])
            copy(states, tokens.count * columns, after.cascaded, 0, history)
            if is_last:
                condition_sums(sums[row], pairs[row if pairs.shape[0] > 1 else 0], descriptor[row])
                read_head(descriptor[row], weights.head, weights.bias, logits[row])
            if split:
                publish(counters, CASCADED, piece + 1)
            if split or is_last:
                break
            tile += 1
