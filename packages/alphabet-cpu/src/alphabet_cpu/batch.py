"""A batch as the kernels read it, and what they make of it."""

from dataclasses import dataclass

import numpy as np
import torch
from alphabet_core import Sequence
from alphabet_core.fused import LAGS
from numpy.typing import NDArray
from torch import Tensor

from alphabet_cpu.conditioning import MOMENTS
from alphabet_cpu.inference import HISTORY, REACH, run_tiles
from alphabet_cpu.weights import Array, Weights
from alphabet_cpu.workers import compile_aloud, run_together

Mask = NDArray[np.uint8]
Doubles = NDArray[np.float64]
# Sequences are split in time if there are few, not the same number for each thread, and they are this long.
MANY, LONG = 4, 4096
NOTHING: Mask = np.empty(0, np.uint8)
assert max(LAGS) == HISTORY


@dataclass(frozen=True)
class Batch:
    """Flat arrays of a checked sequence batch; pairs (B or 1, 1 + lags) counts the valid pairs of each lag."""

    shape: tuple[int, int, int]
    values: Array
    valid: Mask
    gate: Mask
    masked: bool
    pairs: Doubles


def read_batch(sequence: Sequence) -> Batch:
    """The arrays of a sequence that passed the core's contract."""
    batch, length, channels = sequence.values.shape
    values = sequence.values.detach().contiguous().view(-1).numpy()
    if sequence.available is None and sequence.valid is None:
        pairs = np.array([[max(1.0, float(length - lag)) for lag in (0, *LAGS)]])
        return Batch((batch, length, channels), values, NOTHING, NOTHING, False, pairs)
    everything = torch.ones((batch, length), dtype=torch.bool)
    valid, gate = (everything if mask is None else mask for mask in (sequence.valid, sequence.available))
    counts = [(valid[:, lag:] & valid[:, : max(0, length - lag)]).sum(dim=1) for lag in (0, *LAGS)]
    pairs = torch.stack(counts, dim=1).clamp(min=1).double().numpy()
    return Batch((batch, length, channels), values, as_bytes(valid), as_bytes(gate), True, pairs)


@dataclass(frozen=True)
class Outputs:
    """Moment sums (B, 2, 7, modes in whole lanes), descriptor (B, 2, M, 7) and logits (B, K) in float64."""

    sums: Doubles
    descriptor: Doubles
    logits: Doubles


def run_batch(batch: Batch, weights: Weights, threads: int) -> Outputs:
    """The model's outputs by so many threads, which share the sequences or, if these are few and long, their tiles."""
    rows, length, _ = batch.shape
    outputs = Outputs(
        sums=np.zeros((rows, 2, MOMENTS, weights.sizes[3] // 2)),
        descriptor=np.empty((rows, 2, weights.modes, MOMENTS)),
        logits=np.empty((rows, len(weights.bias))),
    )
    _, _, width, columns = weights.sizes
    carried = np.zeros((2, 2 * HISTORY * columns + 2 * REACH * width), np.float32)
    counters = np.zeros(4, np.int64)
    split = rows % threads != 0 and rows < MANY * threads and length >= LONG

    def work() -> None:
        run_tiles(batch.values, batch.valid, batch.gate, batch.masked, counters, split, rows, length, weights.sizes,
                  weights.packed, weights.head, weights.bias, batch.pairs, outputs.sums, outputs.descriptor,
                  outputs.logits, carried)  # fmt: skip

    with compile_aloud(run_tiles):
        run_together(work, threads if split else min(threads, rows))
    return outputs


def as_bytes(mask: Tensor) -> Mask:
    """A mask, flat, for the kernels."""
    array: Mask = mask.contiguous().view(-1).view(torch.uint8).numpy()
    return array
