"""Named tuples: what kernels take, and what lies where in the packed weights. Numba compiles named tuples as they are.

It recognizes the type of a plain tuple in a fraction of a microsecond but takes some four for a named one. So the host
calls a kernel with `without_names(...)`, and the kernel's first line puts the names back on.
"""

from typing import Any, NamedTuple

import numpy as np
from alphabet_core.fused import LIFT_OFFSETS
from numpy.typing import NDArray

from alphabet_cpu.compiling import inlined, kernel

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Integers = NDArray[np.int64]
Marks = NDArray[np.uint8]

TAPS = len(LIFT_OFFSETS)


def without_names(*arguments: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...]:
    """The arguments as plain tuples, for a call from outside of compiled code."""
    return tuple(map(tuple, arguments))


class Sizes(NamedTuple):
    """The sizes and the structure that kernels go by.

    channels, features: C and D of the model
    width: D rounded up to whole lanes; columns: a row of states, see `modes`
    lags (L,), history: the lags of the moments, and how many earlier states they look back at; at least one
    cascaded, synthesis: whether the second bank exists, and whether it reads what the first one's states give
    paired: whether every mode is driven by two features of its own, which lie as its two parts do; then there is
        nothing to multiply with a matrix
    narrow: None, unless a row of states is narrow
    """

    channels: int
    features: int
    width: int
    columns: int
    lags: Integers
    history: int
    cascaded: bool = True
    synthesis: bool = True
    paired: bool = False
    narrow: bool | None = None


class BankWeights(NamedTuple):
    """One bank's folded weights, flat.

    taps (6, width): the lift's five taps and its bias
    drive (width, columns): from lifted features to what enters the recurrence; (2, columns) if features are paired:
        what a part takes of its own feature, and of its partner's
    transition (columns,): what the states are multiplied with from token to token
    """

    taps: Any
    drive: Any
    transition: Any


class FoldedWeights(NamedTuple):
    """The folded weights of both banks and of what is around them, flat; or their gradients, in the same shapes.

    project (channels, width): from values to features
    synthesis (columns, width), through (width,): from states, and from normed features, to the cascaded bank's input;
        if features are paired the synthesis is (width,)
    """

    project: Any
    direct: BankWeights
    synthesis: Any
    through: Any
    cascaded: BankWeights


class Weights(NamedTuple):
    """A model's weights in the form that kernels read: folded, packed into one array, and what is beside it.

    packed: the folded weights one after the other, which `unpack` takes apart
    poles (banks, 2, M): the parameters of decays and of frequencies, which only irregular steps need
    head (K, banks M (1 + 2 L)), bias (K,): the affine head as it is; without rows where torch computes another head
    """

    packed: Floats
    poles: Floats
    head: Floats
    bias: Floats


class Clock(NamedTuple):
    """The steps of a batch on an irregular grid.

    steps (B T,): the time before each token, in float32, as long as the poles may wait
    elapsed (B T,): the same as it was given, in float64
    """

    steps: Floats
    elapsed: Doubles


class Batch(NamedTuple):
    """A batch of sequences that passed the core's contract.

    values (B T C,): float32, flat
    valid, gate (B T,): whether a token counts, and whether it may enter the direct bank; both empty unless `masked`
    clock: the plain tuple of a `Clock`, or None on a regular grid; kernels are compiled for either
    """

    values: Floats
    valid: Marks
    gate: Marks
    masked: bool
    sequences: int
    length: int
    clock: tuple[Any, ...] | None


class Outputs(NamedTuple):
    """What a forward pass writes, in float64 but for the last.

    sums (B, banks, 1 + 2 L, modes in whole lanes), pairs (B, 1 + L): moment sums, and how many pairs they are of
    descriptor (B, banks, M, 1 + 2 L), logits (B, K)
    """

    sums: Doubles
    pairs: Doubles
    descriptor: Doubles
    logits: Doubles


class Mask(NamedTuple):
    """Marks of tokens, zero where one is masked; unless `given` there are none, and no token is masked."""

    marks: Any
    given: Any


class Tokens(NamedTuple):
    """Consecutive tokens of one sequence.

    first: the first one's index in the batch's flat arrays
    time: its position in the sequence
    """

    first: Any
    time: Any
    count: Any


@inlined
def is_masked(mask, token):
    """Whether a token is masked."""
    return mask.given and mask.marks[token] == 0


@inlined
def count_drive(sizes):
    """How many numbers lead from a bank's features to its drive."""
    return sizes.columns * (2 if sizes.paired else sizes.width)


@inlined
def view_bank(packed, start, sizes):
    """One bank's weights, which begin at `start` of the packed array."""
    drive = start + (TAPS + 1) * sizes.width
    transition = drive + count_drive(sizes)
    return BankWeights(packed[start:drive], packed[drive:transition], packed[transition : transition + sizes.columns])


@kernel
def find_end(valid, row, length):
    """One more than the last valid token of a sequence: all behind it is padding, on which nothing depends."""
    end = length
    while end > 0 and is_masked(valid, row * length + end - 1):
        end -= 1
    return end


@inlined
def unpack(packed, sizes):
    """Views of the packed weights, or of gradients that are packed alike; each is a whole number of lanes.

    What the model leaves out has no numbers.
    """
    bank = (TAPS + 1) * sizes.width + count_drive(sizes) + sizes.columns
    direct = sizes.channels * sizes.width
    synthesis = direct + bank
    through, cascaded = synthesis, synthesis
    if sizes.synthesis:
        through = synthesis + sizes.width * (1 if sizes.paired else sizes.columns)
        cascaded = through + sizes.width
    return FoldedWeights(
        packed[:direct],
        view_bank(packed, direct, sizes),
        packed[synthesis:through],
        packed[through:cascaded],
        view_bank(packed, cascaded, sizes),
    )


def count_packed(sizes: Sizes) -> int:
    """How many numbers the packed weights of a model are whose features are not paired."""
    width, columns = sizes.width, sizes.columns
    bank = (TAPS + 1) * width + (width + 1) * columns
    return sizes.channels * width + bank * (1 + sizes.cascaded) + (columns + 1) * width * sizes.synthesis
