"""`run_tiles`: all outputs of a batch in one pass over each sequence, tile by tile."""

from alphabet_cpu.compiling import array_kernel, kernel
from alphabet_cpu.kernels.arithmetic import allocate
from alphabet_cpu.kernels.layout import Batch, Mask, Outputs, Sizes, Tokens, Weights, find_end, unpack
from alphabet_cpu.kernels.memory import claim, publish, wait_until
from alphabet_cpu.kernels.moments import condition_sums, count_pairs, read_head
from alphabet_cpu.kernels.tiles import (
    CASCADED,
    CLAIMED,
    DIRECT,
    STREAM,
    TILE,
    Handover,
    Tile,
    allocate_window,
    run_tile,
    view_carried,
)


@array_kernel
def run_tiles(sizes, weights, batch, outputs, handover):
    """Write moment sums, descriptors and logits of the sequences or, if split, tiles that this thread claims.

    A split sequence's tiles run on several threads, and hand on what they carry in order, as the counters tell. Most of
    the work does not wait for that. Nothing runs over the padding behind a sequence's last valid token.
    """
    sizes, weights, batch = Sizes(*sizes), Weights(*weights), Batch(*batch)
    outputs, handover = Outputs(*outputs), Handover(*handover)
    claim(handover.under_way, 0)
    carried = handover.carried
    if not handover.split and not handover.kept:
        carried = allocate(carried.size).reshape(carried.shape)
    window = allocate_window(batch, sizes, weights.poles, False)
    run_claimed(sizes, weights, batch, outputs, handover, window, carried)


@kernel
def run_claimed(sizes, weights, batch, outputs, handover, window, carried):
    """Run what this thread claims, in a window of its own; no references are counted from tile to tile."""
    folded, length, valid = unpack(weights.packed, sizes), batch.length, Mask(batch.valid, batch.masked)
    capacity = TILE if batch.clock is None else length
    tiles, split, counters = -(-length // capacity), handover.split, handover.counters
    while True:
        claimed = claim(counters, CLAIMED)
        row, number = (claimed // tiles, claimed % tiles) if split else (claimed, 0)
        if row >= batch.sequences:
            break
        end = find_end(valid, row, length)
        while True:
            piece, start = row * tiles + number, number * capacity
            if number == 0 or start < end:
                tile = Tile(row, start, min(start + capacity, end), end, piece)
                before = view_carried(carried[(piece - 1) % len(carried)], sizes)
                after = view_carried(carried[piece % len(carried)], sizes)
                run_tile(tile, sizes, folded, batch, window, before, after, handover, False, outputs.sums[row])
                if tile.stop == end:
                    whole = Tokens(row * length, 0, end)
                    count_pairs(window.lookups, whole, sizes.lags, valid, outputs.pairs[row])
                    condition_sums(outputs.sums[row], outputs.pairs[row], outputs.descriptor[row])
                    read_head(outputs.descriptor[row], weights.head, weights.bias, outputs.logits[row])
            elif split:  # padding: the tile behind must not wait for this one
                wait_until(counters, DIRECT, piece)
                publish(counters, DIRECT, piece + 1)
                if sizes.cascaded:
                    wait_until(counters, STREAM, piece)
                    publish(counters, STREAM, piece + 1)
                    wait_until(counters, CASCADED, piece)
            if split and sizes.cascaded:
                publish(counters, CASCADED, piece + 1)
            number += 1
            if split or number * capacity >= end:
                break
