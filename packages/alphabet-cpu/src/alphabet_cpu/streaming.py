"""A stream's memory moved on by some tokens: the tile of `inference`, at its end instead of inside a sequence.

The direct bank runs eight tokens behind the input and the cascaded bank sixteen. All arrays are the stream's own, so
that a token allocates nothing.
"""

from alphabet_cpu.arithmetic import clear, copy, multiply_rows
from alphabet_cpu.compiling import kernel
from alphabet_cpu.conditioning import condition_sums, read_head
from alphabet_cpu.inference import HISTORY, REACH, correlate, lift, project, synthesize, transport
from alphabet_cpu.layout import unpack

CHUNK = 64  # tokens at a time
ROOM = (
    CHUNK + 4 * REACH
)  # rows of every buffer: sixteen from before, a chunk, eight of zeros, and whole groups of eight
PAST = 2 * REACH + HISTORY  # tokens whose masks are still asked for


@kernel
def view_memory(memory, width, columns):
    """The parts of a stream's memory: windows of both lifts, histories of both banks, and room to work in."""
    a = ROOM * width
    b, c = 2 * a, 2 * a + HISTORY * columns
    d = c + HISTORY * columns
    e = d + a
    f = e + ROOM * columns
    g = f + ROOM * columns
    return (
        memory[:a],
        memory[a:b],
        memory[b:c],
        memory[c:d],
        memory[d:e],
        memory[e:f],
        memory[f:g],
        memory[g : g + ROOM],
    )


def count_memory(width: int, columns: int) -> int:
    """How many floats that are."""
    return 3 * ROOM * width + 2 * (HISTORY + ROOM) * columns + ROOM


@kernel
def advance(before, new, final, sizes, packed, memory, marks, sums):
    """Run both banks as far as the look-ahead allows over `new` tokens, after `before`; to the very end if `final`."""
    _, features, width, columns = sizes
    _, taps_1, drive_1, transition_1, synthesis, through, taps_2, drive_2, transition_2 = unpack(packed, sizes)
    window, stream, direct, cascaded, lifted, drive, states, scale = view_memory(memory, width, columns)
    valid, gate = marks[0], marks[1]
    history, lead, tokens = HISTORY * columns, 2 * REACH, before + new

    start = max(0, before - REACH)
    stop = tokens if final else max(0, tokens - REACH)
    count, mark = stop - start, PAST + start - before
    if final:
        clear(window, (lead + new) * width, (lead + new + REACH) * width)
    if count > 0:
        lift(window, lead + start - before, count, width, features, taps_1, lifted, lifted, False, scale, mark, valid,
             True)  # fmt: skip
        multiply_rows(lifted, 0, width, drive_1, columns, drive, 0, count)
        copy(direct, 0, states, 0, history)
        transport(drive, scale, count, columns, transition_1, states, mark, gate, True)
        correlate(states, count, columns, mark, start, valid, True, sums[0])
        copy(states, count * columns, direct, 0, history)
        multiply_rows(states, history, columns, synthesis, width, stream, lead * width, count)
        synthesize(lifted, scale, count, width, through, stream, lead, mark, valid, True)

    done = max(0, start - REACH)
    ready = tokens if final else max(0, stop - REACH)
    if final:
        clear(stream, (lead + count) * width, (lead + count + REACH) * width)
    if ready > done:
        mark = PAST + done - before
        lift(stream, lead + done - start, ready - done, width, features, taps_2, lifted, lifted, False, scale, mark,
             valid, True)  # fmt: skip
        multiply_rows(lifted, 0, width, drive_2, columns, drive, 0, ready - done)
        copy(cascaded, 0, states, 0, history)
        transport(drive, scale, ready - done, columns, transition_2, states, mark, valid, True)
        correlate(states, ready - done, columns, mark, done, valid, True, sums[1])
        copy(states, (ready - done) * columns, cascaded, 0, history)
    copy(window, new * width, window, 0, lead * width)
    copy(stream, count * width, stream, 0, lead * width)


@kernel
def feed_tokens(values, valid, gate, before, sizes, packed, memory, marks, sums, pairs):
    """Append tokens values (n C,) with their masks (n,), or (1,) for all of them; returns how many there are now."""
    channels, _, width, columns = sizes
    matrix = packed[: channels * width]
    window = view_memory(memory, width, columns)[0]
    length = values.size // channels
    for start in range(0, length, CHUNK):
        new = min(CHUNK, length - start)
        for i in range(new):
            marks[0, PAST + i] = valid[(start + i) % valid.size]
            marks[1, PAST + i] = gate[(start + i) % gate.size]
            if marks[0, PAST + i] != 0:
                pairs[0] += 1
                for lag in range(1, len(pairs)):
                    pairs[lag] += marks[0, PAST + i - (1 << (lag - 1))]
        chunk = values[start * channels : (start + new) * channels]
        project(chunk, 0, new, channels, 0, new, marks[0, PAST:], True, matrix, width, window[2 * REACH * width :])
        advance(before + start, new, False, sizes, packed, memory, marks, sums)
        for i in range(PAST):
            marks[0, i], marks[1, i] = marks[0, new + i], marks[1, new + i]
    return before + length


@kernel
def finish(before, sizes, packed, memory, marks, sums, pairs, head, bias, descriptor, logits):
    """Descriptor and logits of all tokens so far; uses up the memory and the sums that it is given."""
    advance(before, 0, True, sizes, packed, memory, marks, sums)
    condition_sums(sums, pairs, descriptor)
    read_head(descriptor, head, bias, logits)
