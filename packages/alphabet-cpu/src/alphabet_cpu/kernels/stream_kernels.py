"""A stream's memory moved on by some tokens: the tile of `inference`, at the end of what is known instead of inside.

The direct bank runs eight tokens behind the input and the cascaded bank sixteen. All arrays are the stream's own, so
that a token allocates nothing.
"""

from typing import Any, NamedTuple

from alphabet_core.fused import LAGS, LIFT_REACH

from alphabet_cpu.compiling import array_kernel
from alphabet_cpu.kernels.arithmetic import clear, copy
from alphabet_cpu.kernels.layout import Doubles, Floats, Marks, Mask, Sizes, Tokens, Weights, unpack
from alphabet_cpu.kernels.lift import Lifted, lift, project
from alphabet_cpu.kernels.moments import condition_sums, correlate, read_head
from alphabet_cpu.kernels.products import Rows, multiply_rows
from alphabet_cpu.kernels.scan import scan
from alphabet_cpu.kernels.synthesis import synthesize

CHUNK = 64  # tokens at a time
HISTORY = max(LAGS)  # earlier states of either bank
LEAD = 2 * LIFT_REACH  # rows of earlier tokens with which the windows begin
BUFFER_ROWS = LEAD + CHUNK + 2 * LIFT_REACH  # earlier tokens, a chunk, eight zeros, and whole groups of eight
PAST = LEAD + HISTORY  # earlier tokens whose masks are still read


class StreamState(NamedTuple):
    """A stream: the model's weights, and all that it remembers.

    packed: the folded weights
    memory: see `StreamMemory`
    marks (2, PAST + CHUNK): of the last tokens and of a chunk, whether they are valid and whether the gate lets them in
    sums (2, 7, modes), pairs (4,): the moments so far and how many pairs of tokens they are of, in float64
    """

    sizes: Sizes
    packed: Floats
    memory: Floats
    marks: Marks
    sums: Doubles
    pairs: Doubles


class StreamMemory(NamedTuple):
    """The parts of a stream's memory.

    window, stream (BUFFER_ROWS, width): what the lifts of the direct and of the cascaded bank read
    direct, cascaded (4, columns): the banks' last states
    lifted, drive, states: buffers that keep nothing from token to token
    """

    window: Any
    stream: Any
    direct: Any
    cascaded: Any
    lifted: Lifted
    drive: Any
    states: Any


@array_kernel
def view_memory(memory, sizes):
    """The parts of a flat memory of `count_memory` numbers."""
    rows, drives, history = BUFFER_ROWS * sizes.width, BUFFER_ROWS * sizes.columns, HISTORY * sizes.columns
    direct = 2 * rows
    cascaded = direct + history
    lifted = cascaded + history
    drive = lifted + rows
    states = drive + drives
    scale = states + drives
    features = memory[lifted:drive]
    return StreamMemory(
        memory[:rows],
        memory[rows:direct],
        memory[direct:cascaded],
        memory[cascaded:lifted],
        Lifted(features, features, memory[scale : scale + BUFFER_ROWS]),  # the gates are not kept
        memory[drive:states],
        memory[states:scale],
    )


def count_memory(sizes: Sizes) -> int:
    """How many numbers the memory of a stream has, buffers included."""
    return 3 * BUFFER_ROWS * sizes.width + 2 * (HISTORY + BUFFER_ROWS) * sizes.columns + BUFFER_ROWS


@array_kernel
def advance(before, new, is_end, state):
    """Run both banks over the `new` tokens of the window as far as the look-ahead allows; to the end if `is_end`.

    before: how many tokens the stream had
    """
    sizes, marks, sums = state.sizes, state.marks, state.sums
    width, columns, history = sizes.width, sizes.columns, HISTORY * sizes.columns
    folded, memory = unpack(state.packed, sizes), view_memory(state.memory, sizes)
    window, stream, lifted, drive, states = memory.window, memory.stream, memory.lifted, memory.drive, memory.states
    lifted_rows, drive_rows = Rows(lifted.features, 0, width), Rows(drive, 0, columns)
    valid, gate = Mask(marks[0], True), Mask(marks[1], True)
    known = before + new

    start = max(0, before - LIFT_REACH)
    stop = known if is_end else max(0, known - LIFT_REACH)
    count = stop - start
    if is_end:
        clear(window, (LEAD + new) * width, (LEAD + new + LIFT_REACH) * width)
    if count > 0:
        tokens = Tokens(PAST + start - before, start, count)
        lift(None, window, LEAD + start - before, tokens, sizes, folded.direct.taps, valid, lifted, False)
        multiply_rows(lifted_rows, folded.direct.drive, drive_rows, count)
        copy(memory.direct, 0, states, 0, history)
        scan(None, drive, lifted.scale, tokens, sizes, folded.direct.transition, gate, states)
        correlate(None, states, tokens, sizes, valid, drive, sums[0])
        copy(states, count * columns, memory.direct, 0, history)
        multiply_rows(Rows(states, history, columns), folded.synthesis, Rows(stream, LEAD * width, width), count)
        synthesize(lifted, tokens, width, folded.through, valid, stream, LEAD)

    done = max(0, start - LIFT_REACH)
    ready = known if is_end else max(0, stop - LIFT_REACH)
    if is_end:
        clear(stream, (LEAD + count) * width, (LEAD + count + LIFT_REACH) * width)
    if ready > done:
        tokens = Tokens(PAST + done - before, done, ready - done)
        lift(None, stream, LEAD + done - start, tokens, sizes, folded.cascaded.taps, valid, lifted, False)
        multiply_rows(lifted_rows, folded.cascaded.drive, drive_rows, tokens.count)
        copy(memory.cascaded, 0, states, 0, history)
        scan(None, drive, lifted.scale, tokens, sizes, folded.cascaded.transition, valid, states)
        correlate(None, states, tokens, sizes, valid, drive, sums[1])
        copy(states, tokens.count * columns, memory.cascaded, 0, history)
    copy(window, new * width, window, 0, LEAD * width)
    copy(stream, count * width, stream, 0, LEAD * width)


@array_kernel
def name_state(state):
    """A stream's state with its names, from the plain tuple that the host passes."""
    sizes, packed, memory, marks, sums, pairs = state
    return StreamState(Sizes(*sizes), packed, memory, marks, sums, pairs)


@array_kernel
def feed_tokens(values, valid, gate, before, state):
    """Append tokens values (n C,) with their masks (n,), or (1,) for all of them; return how many the stream has then.

    before: how many it had
    """
    state = name_state(state)
    sizes, marks, pairs = state.sizes, state.marks, state.pairs
    channels, width = sizes.channels, sizes.width
    matrix = unpack(state.packed, sizes).project
    window = view_memory(state.memory, sizes).window[LEAD * width :]
    length = values.size // channels
    for start in range(0, length, CHUNK):
        new = min(CHUNK, length - start)
        for i in range(new):
            marks[0, PAST + i] = valid[(start + i) % valid.size]
            marks[1, PAST + i] = gate[(start + i) % gate.size]
            if marks[0, PAST + i] != 0:
                pairs[0] += 1
                for k in range(len(LAGS)):
                    pairs[1 + k] += marks[0, PAST + i - LAGS[k]]
        chunk = values[start * channels : (start + new) * channels]
        project(chunk, Tokens(0, 0, new), new, sizes, matrix, Mask(marks[0, PAST:], True), window)
        advance(before + start, new, False, state)
        for i in range(PAST):
            marks[0, i], marks[1, i] = marks[0, new + i], marks[1, new + i]
    return before + length


@array_kernel
def finish(before, state, weights, descriptor, logits):
    """Write descriptor (2, M, 7) and logits (K,) of all tokens so far; uses up the memory and the sums of the state."""
    state, weights = name_state(state), Weights(*weights)
    advance(before, 0, True, state)
    condition_sums(state.sums, state.pairs, descriptor)
    read_head(descriptor, weights.head, weights.bias, logits)
