"""`backpropagate`: gradients of the folded weights and of the input from those of the descriptor.

The forward pass left what each tile began with. From the last tile to the first, a tile runs forward once more with
everything kept, which stays in a core's cache, and then backward, by the chain rule, row by row. What a tile carries to
the one before it: adjoint states, a few states, and sixteen rows of gradients that the lifts' taps spread over both.
"""

from typing import Any, NamedTuple

from alphabet_core.fused import LIFT_REACH

from alphabet_cpu.compiling import array_kernel, inlined, kernel
from alphabet_cpu.kernels.arithmetic import allocate, clear, copy
from alphabet_cpu.kernels.bank import drive_bwd, moments_bwd, transport_bwd
from alphabet_cpu.kernels.layout import (
    Batch,
    Doubles,
    Floats,
    Integers,
    Mask,
    Outputs,
    Sizes,
    Tokens,
    Weights,
    find_end,
    unpack,
)
from alphabet_cpu.kernels.lift import activate_bwd, clear_masked, lift_bwd, project_bwd
from alphabet_cpu.kernels.memory import claim, publish, wait_until
from alphabet_cpu.kernels.moments import descriptor_bwd
from alphabet_cpu.kernels.products import Rows, accumulate_outer, multiply_rows
from alphabet_cpu.kernels.synthesis import feedthrough_bwd
from alphabet_cpu.kernels.tiles import (
    LOOK_BACK,
    TILE,
    Handover,
    Tile,
    allocate_window,
    lead_tokens,
    run_tile,
    trail_tokens,
    view_carried,
)

SPREAD = 2 * LIFT_REACH  # rows of gradients behind a tile that the taps carry into it
# What the counters count: pieces of work that were claimed, tiles that handed on each of four things, and behind these
# for every group how many of its pieces are done.
CLAIMED, TRAIL, TRAIL_TAPS, LEAD, LEAD_TAPS, DONE = range(6)


class Gradients(NamedTuple):
    """What the backward pass begins with, and what it writes.

    descriptor (B, banks, M, 1 + 2 L): given, in float64
    packed (groups, ...): of the folded weights, laid out as they are; tile i of the batch adds to row i modulo groups
    values (B T C,): of the input, which is left out if this is empty
    """

    descriptor: Doubles
    packed: Floats
    values: Floats


class Return(NamedTuple):
    """What the threads of a backward pass share.

    split: whether threads claim tiles, in order, rather than whole sequences
    counters (DONE + groups,): zeros
    under_way: as in `Handover`
    carried: what each tile of the forward pass began with, as there
    behind (2, ...): what a tile leaves to the one before it, written and read by turns; see `Behind`
    """

    split: bool
    counters: Integers
    under_way: Integers
    carried: Floats
    behind: Floats


class Behind(NamedTuple):
    """What a tile leaves to the one before it, of the direct bank and of the cascaded one.

    adjoint (columns,): its first adjoint state
    states (history, columns): its first states
    taps (16, width): the gradients before SiLU of its first tokens
    """

    adjoint: Any
    states: Any
    taps: Any
    trail_adjoint: Any
    trail_states: Any
    trail_taps: Any


@inlined
def view_behind(flat, sizes):
    """The parts of one row of `Return.behind`."""
    states = sizes.columns
    taps = states + sizes.history * sizes.columns
    half = taps + SPREAD * sizes.width
    lead, trail = flat[:half], flat[half:]
    return Behind(lead[:states], lead[states:taps], lead[taps:], trail[:states], trail[states:taps], trail[taps:])


def count_behind(sizes: Sizes) -> int:
    """How many numbers a tile leaves to the one before it."""
    return 2 * ((1 + sizes.history) * sizes.columns + SPREAD * sizes.width)


class Turned(NamedTuple):
    """The transposes of a model's three matrices."""

    drive: Any
    trail_drive: Any
    synthesis: Any


class Scratch(NamedTuple):
    """Buffers of gradients, of as many rows as a tile has and some: (n, width), but adjoint (n, columns)."""

    adjoint: Any
    d_normed: Any
    d_stream: Any
    d_pre: Any


@array_kernel
def transpose(matrix, rows, columns):
    """The transpose (columns, rows) of a flat matrix (rows, columns); an empty one stays empty."""
    turned = allocate(matrix.size)
    if matrix.size > 0:
        for i in range(rows):
            for j in range(columns):
                turned[j * rows + i] = matrix[i * columns + j]
    return turned


@array_kernel
def backpropagate(sizes, weights, batch, outputs, gradients, handover):
    """Write the gradients of the sequences or, if split, tiles that this thread claims.

    Tiles add to fixed groups of gradients in a fixed order, so that it does not matter which thread claims which.
    """
    sizes, weights, batch = Sizes(*sizes), Weights(*weights), Batch(*batch)
    outputs, gradients, handover = Outputs(*outputs), Gradients(*gradients), Return(*handover)
    claim(handover.under_way, 0)
    folded, width, columns, behind = unpack(weights.packed, sizes), sizes.width, sizes.columns, handover.behind
    cascaded = folded.cascaded if sizes.cascaded else folded.direct
    turned = Turned(
        transpose(folded.direct.drive, width, columns),
        transpose(cascaded.drive, width, columns),
        transpose(folded.synthesis, columns, width),
    )
    rows = (TILE if batch.clock is None else batch.length) + 4 * LIFT_REACH
    scratch = Scratch(
        allocate(rows * columns), allocate(rows * width), allocate(rows * width), allocate((rows + SPREAD) * width)
    )
    if not handover.split:
        behind = allocate(behind.size).reshape(behind.shape)
    unused, d_sums = allocate(handover.carried.shape[1]), allocate(outputs.sums[0].size).reshape(outputs.sums[0].shape)
    window = allocate_window(batch, sizes, weights.poles, True)
    backpropagate_claimed(
        sizes, weights, batch, outputs, gradients, handover, window, turned, scratch, behind, unused, d_sums
    )


@kernel
def backpropagate_claimed(
    sizes, weights, batch, outputs, gradients, handover, window, turned, scratch, behind, unused, d_sums
):
    """Run what this thread claims, in buffers of its own; no references are counted from tile to tile."""
    folded, length, valid = unpack(weights.packed, sizes), batch.length, Mask(batch.valid, batch.masked)
    capacity = TILE if batch.clock is None else length
    tiles, split, counters, carried = -(-length // capacity), handover.split, handover.counters, handover.carried
    alone = Handover(False, True, counters, handover.under_way, carried)
    nowhere, groups = view_carried(unused, sizes), len(gradients.packed)
    while True:
        claimed = claim(counters, CLAIMED)
        row, turn = (claimed // tiles, claimed % tiles) if split else (claimed, 0)
        if row >= batch.sequences:
            break
        end = find_end(valid, row, length)
        descriptor_bwd(outputs.sums[row], outputs.pairs[row], gradients.descriptor[row], d_sums)
        while turn < tiles:
            number, order = tiles - 1 - turn, row * tiles + turn
            start, group, ahead = number * capacity, order % groups, order // groups
            mine, later = view_behind(behind[order % 2], sizes), view_behind(behind[(order + 1) % 2], sizes)
            tile = Tile(row, start, min(start + capacity, end), end, row * tiles + number)
            d_folded = unpack(gradients.packed[group], sizes)
            if start < end:
                before = view_carried(carried[(tile.piece - 1) % len(carried)], sizes)
                run_tile(tile, sizes, folded, batch, window, before, nowhere, alone, True, outputs.sums[row])
            wait_until(counters, DONE + group, ahead)
            tile_bwd(tile, order, sizes, folded, turned, batch, window, scratch, d_sums, later, mine, split, counters,
                     d_folded, gradients.values)  # fmt: skip
            publish(counters, DONE + group, ahead + 1)
            turn += 1
            if split:
                break


@inlined
def tile_bwd(
    tile, order, sizes, folded, turned, batch, window, scratch, d_sums, later, mine, split, counters, d_folded, d_values
):
    """Add a tile's gradients to `d_folded` and the input's, given its window; nothing of a tile that is all padding.

    later, mine: what the tile behind left, and what this one leaves; where split, in the order of the tiles
    """
    valid, gate = Mask(batch.valid, batch.masked), Mask(batch.gate, batch.masked)
    width, columns, length, lookups = sizes.width, sizes.columns, batch.length, window.lookups
    modes_sums, empty = d_sums.shape[1] * d_sums.shape[2], tile.start >= tile.end
    d_flat, first_row = d_sums.reshape(-1), LIFT_REACH if tile.start == 0 else 0
    adjoint, d_normed, d_stream, d_pre = scratch.adjoint, scratch.d_normed, scratch.d_stream, scratch.d_pre
    is_last, lead = tile.stop == tile.end, lead_tokens(tile, length)
    if empty:
        is_last, lead = True, Tokens(lead.first, 0, 0)

    if sizes.cascaded:
        kept, tokens = window.cascaded, trail_tokens(tile, length)
        if empty:
            tokens = lead
        clear(adjoint, 0, tokens.count * columns)
        if split:
            wait_until(counters, TRAIL, order)
        receive(later.trail_adjoint, mine.trail_adjoint, is_last)
        receive(later.trail_states, mine.trail_states, is_last)
        if not empty:
            moments_bwd(lookups, tokens, tile.end, sizes, valid, kept, d_flat[modes_sums:], mine.trail_states, adjoint)
            transport_bwd(lookups, tokens, sizes, folded.cascaded, valid, kept, mine.trail_adjoint, adjoint,
                          d_folded.cascaded.transition)  # fmt: skip
        if split:
            publish(counters, TRAIL, order + 1)
        if not empty:
            drive_bwd(tokens, sizes, kept, turned.trail_drive, adjoint, d_folded.cascaded.drive, d_normed)
            activate_bwd(d_normed, d_stream, True, kept.lifted, tokens.count, sizes, d_pre, first_row)
        if split:
            wait_until(counters, TRAIL_TAPS, order)
        hand_on_taps(d_pre, first_row, tokens.count, width, later.trail_taps, mine.trail_taps, is_last)
        if split:
            publish(counters, TRAIL_TAPS, order + 1)
        if not empty:
            stream_rows = Rows(window.stream, LOOK_BACK * width, width)
            lift_bwd(lookups, d_pre, first_row, stream_rows, lead.count, folded.cascaded.taps, d_folded.cascaded.taps,
                     d_stream)  # fmt: skip
            if valid.given:
                clear_masked(d_stream, 0, width, lead, valid)

    kept = window.direct
    clear(adjoint, 0, lead.count * columns)
    if sizes.synthesis:
        states, d_rows = Rows(kept.states, sizes.history * columns, columns), Rows(d_stream, 0, width)
        multiply_rows(d_rows, turned.synthesis, Rows(adjoint, 0, columns), lead.count)
        accumulate_outer(states, d_rows, lead.count, d_folded.synthesis)
    if split:
        wait_until(counters, LEAD, order)
    receive(later.adjoint, mine.adjoint, is_last)
    receive(later.states, mine.states, is_last)
    if not empty:
        moments_bwd(lookups, lead, tile.end, sizes, valid, kept, d_flat[:modes_sums], mine.states, adjoint)
        transport_bwd(lookups, lead, sizes, folded.direct, gate, kept, mine.adjoint, adjoint,
                      d_folded.direct.transition)  # fmt: skip
    if split:
        publish(counters, LEAD, order + 1)
    if not empty:
        drive_bwd(lead, sizes, kept, turned.drive, adjoint, d_folded.direct.drive, d_normed)
        if sizes.synthesis:
            feedthrough_bwd(d_stream, kept.lifted, lead.count, width, folded.through, d_folded.through, d_normed)
        activate_bwd(d_normed, d_stream, not sizes.cascaded, kept.lifted, lead.count, sizes, d_pre, first_row)
    if split:
        wait_until(counters, LEAD_TAPS, order)
    hand_on_taps(d_pre, first_row, lead.count, width, later.taps, mine.taps, is_last)
    if split:
        publish(counters, LEAD_TAPS, order + 1)
    if empty:
        return
    # All gradients are known that the taps carry to the tokens from here on, eight of which are of the tile behind.
    begin = 0 if tile.start == 0 else tile.start + LIFT_REACH
    tokens = Tokens(tile.row * length + begin, begin, max(0, min(tile.stop + LIFT_REACH, tile.end) - begin))
    source = Rows(window.projected, (LIFT_REACH + begin - tile.start) * width, width)
    lift_bwd(lookups, d_pre, first_row, source, tokens.count, folded.direct.taps, d_folded.direct.taps, d_stream)
    project_bwd(d_stream, batch.values, tokens, sizes, valid, folded.project, d_folded.project, d_values)


@inlined
def receive(later, mine, is_last):
    """Copy what the tile behind left, zero behind the last tile."""
    copy(later, 0, mine, 0, mine.size)
    if is_last:
        clear(mine, 0, mine.size)


@kernel
def hand_on_taps(d_pre, first_row, rows, width, later, mine, is_last):
    """Put sixteen rows behind those of a tile, zero behind the last one, and write the first sixteen of all of them."""
    if first_row > 0:
        clear(d_pre, 0, first_row * width)
    at = (first_row + rows) * width
    copy(later, 0, d_pre, at, SPREAD * width)
    if is_last:
        clear(d_pre, at, at + SPREAD * width)
    copy(d_pre, first_row * width, mine, 0, SPREAD * width)
