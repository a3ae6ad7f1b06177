"""A batch as the kernels read it, and its outputs."""

from typing import NamedTuple

import numpy as np
import torch
from alphabet_core import Sequence
from alphabet_core.fused import LONGEST_STEP, values_checked
from torch import Tensor

from alphabet_cpu.kernels.inference import run_tiles
from alphabet_cpu.kernels.layout import Batch, Clock, Floats, Marks, Outputs, without_names
from alphabet_cpu.kernels.memory import all_finite
from alphabet_cpu.kernels.modes import count_sums
from alphabet_cpu.kernels.tiles import COUNTERS, Handover, count_carried, count_tiles
from alphabet_cpu.weights import ModelWeights
from alphabet_cpu.workers import UNDER_WAY, announce_compilation, run_together

# Sequences are split in time if the threads cannot share them evenly and there are few for each.
SPLIT_BELOW_ROWS_PER_THREAD = 4
# A thread is woken for at least so many numbers, tokens times width: some 30 microseconds forward, about twice what
# handing work to it takes.
LEAST_PER_THREAD = 16_384
NO_MASK: Marks = np.empty(0, np.uint8)


class Pass(NamedTuple):
    """A forward pass: its outputs, and what each tile carried to the next one if that was to be kept."""

    outputs: Outputs
    carried: Floats


def read_plain_batch(values: Tensor, channels: int) -> Batch | None:
    """The arrays of values that pass the core's contract at a glance, without masks and on a regular grid, or None.

    Where this is None `read_sequence` has the last word: what it says about wrong values, and what it makes of others.
    """
    if type(values) is not Tensor or values.dtype is not torch.float32 or not values.is_cpu or values.is_nested:
        return None
    if values.layout is not torch.strided or values.dim() != 3 or values.is_neg() or not values.is_contiguous():
        return None
    sequences, length, found = values.shape
    if found != channels or sequences == 0 or length == 0:
        return None
    array: Floats = values.detach().numpy().reshape(-1)
    if values_checked() and not all_finite(array):
        return None
    return Batch(array, NO_MASK, NO_MASK, False, sequences, length, None)


def read_batch(sequence: Sequence) -> Batch:
    """The arrays of a sequence batch (B, T, C) that passed the core's contract."""
    sequences, length, _ = sequence.values.shape
    values = sequence.values.detach().contiguous().view(-1).numpy()
    clock = None if sequence.time_delta is None else tuple(read_clock(sequence.time_delta.detach()))
    if sequence.available is None and sequence.valid is None:
        return Batch(values, NO_MASK, NO_MASK, False, sequences, length, clock)
    everything = torch.ones((sequences, length), dtype=torch.bool, device=sequence.values.device)
    valid, gate = (everything if mask is None else mask for mask in (sequence.valid, sequence.available))
    return Batch(values, as_marks(valid), as_marks(gate), True, sequences, length, clock)


def read_clock(time_delta: Tensor) -> Clock:
    """The steps time_delta (B, T), in float32 or float64, as the kernels read them."""
    # 0 * h keeps an unchecked NaN or Inf visible behind the clamp.
    steps = (time_delta.clamp(max=LONGEST_STEP) + 0.0 * time_delta).float()
    return Clock(steps.contiguous().view(-1).numpy(), time_delta.double().contiguous().view(-1).numpy())


def count_threads(batch: Batch, width: int, threads: int, least: int) -> int:
    """How many of some threads a batch is worth, if one is for at least so many numbers."""
    pieces = batch.sequences * count_tiles(batch.length, clocked=batch.clock is not None)
    return max(1, min(threads, pieces, batch.sequences * batch.length * width // least))


def is_split(batch: Batch, threads: int) -> bool:
    """Whether threads share the tiles of a batch rather than its sequences."""
    return (
        batch.clock is None
        and batch.sequences % threads != 0
        and batch.sequences < SPLIT_BELOW_ROWS_PER_THREAD * threads
        and count_tiles(batch.length, clocked=False) > 1
    )


def run_batch(batch: Batch, weights: ModelWeights, threads: int, *, keep: bool = False) -> Pass:
    """The model's outputs by so many threads, which share the sequences or, if these are few and long, their tiles.

    keep: whether what the tiles carry is to be kept, as the backward pass needs it
    """
    sizes, arrays = weights
    sequences, moments, banks = batch.sequences, 1 + 2 * len(sizes.lags), 1 + sizes.cascaded
    results = Outputs(
        sums=np.zeros((sequences, banks, moments, count_sums(sizes.columns))),
        pairs=np.empty((sequences, 1 + len(sizes.lags))),
        descriptor=np.empty((sequences, banks, arrays.poles.shape[2], moments)),
        logits=np.empty((sequences, len(arrays.bias))),
    )
    threads = count_threads(batch, sizes.width, threads, LEAST_PER_THREAD)
    split = is_split(batch, threads)
    tiles = count_tiles(batch.length, clocked=batch.clock is not None)
    kept = keep and tiles > 1  # a first tile begins with nothing
    carried = np.zeros((sequences * tiles if kept else 2, count_carried(sizes)), np.float32)
    handover = Handover(split, kept, np.zeros(COUNTERS, np.int64), UNDER_WAY, carried)
    arguments = without_names(sizes, arrays, batch, results, handover)
    with announce_compilation((run_tiles, batch.clock is None)):
        run_together(lambda: run_tiles(*arguments), threads if split else min(threads, sequences))
    return Pass(results, carried)


def as_marks(mask: Tensor) -> Marks:
    """A boolean mask as flat bytes, for the kernels."""
    marks: Marks = mask.contiguous().view(-1).view(torch.uint8).numpy()
    return marks
