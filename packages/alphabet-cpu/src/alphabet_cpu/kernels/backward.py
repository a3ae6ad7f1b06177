"""`backpropagate`: gradients of the folded weights and of the input from those of the descriptor.

Each sequence runs forward once more with everything kept, which stays in a core's cache, and then backward, by the
chain rule, row by row.
"""

from typing import NamedTuple

from alphabet_core.fused import LIFT_REACH, MOMENTS

from alphabet_cpu.compiling import kernel
from alphabet_cpu.kernels.arithmetic import allocate, clear
from alphabet_cpu.kernels.layout import Batch, Doubles, Floats, Mask, Sizes, Tokens, unpack
from alphabet_cpu.kernels.lift import Lifted, clear_masked, lift, lift_bwd, project, project_bwd
from alphabet_cpu.kernels.memory import claim
from alphabet_cpu.kernels.moments import descriptor_bwd
from alphabet_cpu.kernels.products import Rows, accumulate_outer, multiply_rows
from alphabet_cpu.kernels.scan import HISTORY, BankMasks, KeptBank, scan, scan_bwd
from alphabet_cpu.kernels.synthesis import feedthrough_bwd, synthesize


class Gradients(NamedTuple):
    """What the backward pass begins with, and what it writes.

    descriptor (B, 2, M, 7): given, in float64
    packed (groups, ...): of the folded weights, laid out as they are; each group of sequences adds to its own row
    values (B T C,): of the input, which is left out if this is empty
    """

    descriptor: Doubles
    packed: Floats
    values: Floats


@kernel
def transpose(matrix, rows, columns):
    """The transpose (columns, rows) of a flat matrix (rows, columns)."""
    turned = allocate(rows * columns)
    for i in range(rows):
        for j in range(columns):
            turned[j * rows + i] = matrix[i * columns + j]
    return turned


@kernel
def allocate_bank(count, sizes):
    """Buffers of zeros for what a bank keeps of so many tokens."""
    features, gates = allocate(count * sizes.width), allocate(count * sizes.width)
    return KeptBank(Lifted(features, gates, allocate(count)), allocate((HISTORY + count) * sizes.columns))


@kernel
def backpropagate(sizes, packed, batch, sums, gradients, counter):
    """Write the gradients of the groups of sequences that this thread claims.

    There are as many groups as `gradients.packed` has rows, so that it does not matter which thread claims which.
    sums (B, 2, 7, modes): the moment sums of the forward pass; counter (1,): zero at first, shared by the threads
    """
    sizes, batch, gradients = Sizes(*sizes), Batch(*batch), Gradients(*gradients)
    folded, values, length, pairs = unpack(packed, sizes), batch.values, batch.length, batch.pairs
    width, features, columns = sizes.width, sizes.features, sizes.columns
    valid, gate = Mask(batch.valid, batch.masked), Mask(batch.gate, batch.masked)
    direct_masks, cascaded_masks = BankMasks(valid, gate), BankMasks(valid, valid)
    turned_direct_drive = transpose(folded.direct.drive, width, columns)
    turned_cascaded_drive = transpose(folded.cascaded.drive, width, columns)
    turned_synthesis = transpose(folded.synthesis, columns, width)

    modes, groups, history = columns // 2, len(gradients.packed), HISTORY * columns
    count = length + LIFT_REACH
    end, reach = (HISTORY + length) * columns, LIFT_REACH * width
    projected, stream = allocate((count + 2 * LIFT_REACH) * width), allocate((count + 2 * LIFT_REACH) * width)
    direct, cascaded = allocate_bank(count, sizes), allocate_bank(count, sizes)
    direct_rows, cascaded_rows = Rows(direct.lifted.features, 0, width), Rows(cascaded.lifted.features, 0, width)
    direct_states, stream_rows = Rows(direct.states, history, columns), Rows(stream, reach, width)
    drive, d_pre = allocate(count * columns), allocate((count + 2 * LIFT_REACH) * width)
    d_normed, d_stream = allocate(count * width), allocate(count * width)
    drive_rows, d_normed_rows, d_stream_rows = (
        Rows(drive, 0, columns),
        Rows(d_normed, 0, width),
        Rows(d_stream, 0, width),
    )
    d_sums = allocate(2 * MOMENTS * modes)
    d_direct_sums, d_cascaded_sums = d_sums[: MOMENTS * modes], d_sums[MOMENTS * modes :]
    while True:
        group = claim(counter, 0)
        if group >= groups:
            break
        d_folded = unpack(gradients.packed[group], sizes)
        for row in range(group * batch.sequences // groups, (group + 1) * batch.sequences // groups):
            tokens = Tokens(row * length, 0, length)
            around = Tokens(tokens.first - LIFT_REACH, -LIFT_REACH, length + 2 * LIFT_REACH)
            descriptor_bwd(sums[row], pairs[row if pairs.shape[0] > 1 else 0], gradients.descriptor[row],
                           d_sums.reshape(2, MOMENTS, modes))  # fmt: skip
            # Forward, everything kept.
            project(values, around, length, sizes, folded.project, valid, projected)
            lift(projected, LIFT_REACH, tokens, sizes, folded.direct.taps, valid, direct.lifted, True)
            multiply_rows(direct_rows, folded.direct.drive, drive_rows, length)
            scan(drive, direct.lifted.scale, tokens, columns, folded.direct.transition, gate, direct.states)
            multiply_rows(direct_states, folded.synthesis, stream_rows, length)
            synthesize(direct.lifted, tokens, width, folded.through, valid, stream, LIFT_REACH)
            clear(stream, (LIFT_REACH + length) * width, (2 * LIFT_REACH + length) * width)
            lift(stream, LIFT_REACH, tokens, sizes, folded.cascaded.taps, valid, cascaded.lifted, True)
            multiply_rows(cascaded_rows, folded.cascaded.drive, drive_rows, length)
            scan(drive, cascaded.lifted.scale, tokens, columns, folded.cascaded.transition, valid, cascaded.states)
            clear(direct.states, end, end + history)
            clear(cascaded.states, end, end + history)

            # The cascaded bank; `drive` becomes its adjoint states.
            scan_bwd(cascaded, tokens, columns, folded.cascaded.transition, cascaded_masks, d_cascaded_sums, drive,
                     True, d_folded.cascaded.transition)  # fmt: skip
            multiply_rows(drive_rows, turned_cascaded_drive, d_normed_rows, length)
            accumulate_outer(cascaded_rows, drive_rows, length, d_folded.cascaded.drive)
            lift_bwd(d_normed, d_stream, True, cascaded.lifted, stream_rows, length, features, folded.cascaded.taps,
                     d_folded.cascaded.taps, d_pre)  # fmt: skip
            if valid.given:
                clear_masked(d_stream, 0, width, tokens, valid)

            # The synthesis; `drive` becomes the gradient of the direct bank's states.
            multiply_rows(d_stream_rows, turned_synthesis, drive_rows, length)
            accumulate_outer(direct_states, d_stream_rows, length, d_folded.synthesis)

            # The direct bank.
            scan_bwd(direct, tokens, columns, folded.direct.transition, direct_masks, d_direct_sums, drive, False,
                     d_folded.direct.transition)  # fmt: skip
            multiply_rows(drive_rows, turned_direct_drive, d_normed_rows, length)
            accumulate_outer(direct_rows, drive_rows, length, d_folded.direct.drive)
            feedthrough_bwd(d_stream, direct.lifted, length, width, folded.through, d_folded.through, d_normed)
            lift_bwd(d_normed, d_stream, False, direct.lifted, Rows(projected, reach, width), length, features,
                     folded.direct.taps, d_folded.direct.taps, d_pre)  # fmt: skip
            project_bwd(d_stream, values, tokens, sizes, valid, folded.project, d_folded.project, gradients.values)
