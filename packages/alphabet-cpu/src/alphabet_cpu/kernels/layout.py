"""Named tuples: what kernels take, and what lies where in the packed weights. Numba compiles named tuples as they are.

It recognizes the type of a plain tuple in a fraction of a microsecond but takes some four for a named one. So the host
calls a kernel with `without_names(...)`, and the kernel's first line puts the names back on.
"""

from typing import Any, NamedTuple

import numpy as np
from alphabet_core.fused import LIFT_OFFSETS
from numpy.typing import NDArray

from alphabet_cpu.compiling import kernel

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Integers = NDArray[np.int64]
Marks = NDArray[np.uint8]

TAPS = len(LIFT_OFFSETS)


def without_names(*arguments: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...]:
    """The arguments as plain tuples, for a call from outside of compiled code."""
    return tuple(map(tuple, arguments))


class Sizes(NamedTuple):
    """The sizes that kernels go by.

    channels, features: C and D of the model
    width, columns: D, and the real and imaginary parts of M modes, both rounded up to whole lanes
    paired: whether every mode is driven by two features of its own, which lie as its two parts do; then there is
        nothing to multiply with a matrix
    """

    channels: int
    features: int
    width: int
    columns: int
    paired: bool = False


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

    def parts(self) -> tuple[Any, ...]:
        """The nine arrays in the order in which they are packed."""
        return self.project, *self.direct, self.synthesis, self.through, *self.cascaded


class Weights(NamedTuple):
    """A model's weights in the form that kernels read: folded, packed into one array, and the head beside it.

    packed: the folded weights one after the other, which `unpack` takes apart
    head (K, 14 M), bias (K,): the affine head as it is
    """

    packed: Floats
    head: Floats
    bias: Floats


class Batch(NamedTuple):
    """A batch of sequences that passed the core's contract.

    values (B T C,): float32, flat
    valid, gate (B T,): whether a token counts, and whether it may enter the direct bank; both empty unless `masked`
    pairs (B or 1, 1 + lags): how many pairs of valid tokens each lag has, at least one, in float64
    """

    values: Floats
    valid: Marks
    gate: Marks
    masked: bool
    pairs: Doubles
    sequences: int
    length: int


class Outputs(NamedTuple):
    """Moment sums (B, 2, 7, modes in whole lanes), descriptor (B, 2, M, 7) and logits (B, K), all in float64."""

    sums: Doubles
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


@kernel
def is_masked(mask, token):
    """Whether a token is masked."""
    return mask.given and mask.marks[token] == 0


@kernel
def count_drive(sizes):
    """How many numbers lead from a bank's features to its drive."""
    return sizes.columns * (2 if sizes.paired else sizes.width)


@kernel
def view_bank(packed, start, sizes):
    """One bank's weights, which begin at `start` of the packed array."""
    drive = start + (TAPS + 1) * sizes.width
    transition = drive + count_drive(sizes)
    return BankWeights(packed[start:drive], packed[drive:transition], packed[transition : transition + sizes.columns])


@kernel
def unpack(packed, sizes):
    """Views of the packed weights, or of gradients that are packed alike; each is a whole number of lanes."""
    bank = (TAPS + 1) * sizes.width + count_drive(sizes) + sizes.columns
    direct = sizes.channels * sizes.width
    synthesis = direct + bank
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
    return (sizes.channels + 2 * (TAPS + 1) + 1) * width + (3 * width + 2) * columns
