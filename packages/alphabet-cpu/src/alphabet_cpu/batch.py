"""A batch as the kernels read it, and its outputs."""

import numpy as np
import torch
from alphabet_core import Sequence
from alphabet_core.fused import LAGS, MOMENTS
from torch import Tensor

from alphabet_cpu.kernels.inference import COUNTERS, Handover, count_carried, run_tiles
from alphabet_cpu.kernels.layout import Batch, Marks, Outputs, without_names
from alphabet_cpu.weights import ModelWeights
from alphabet_cpu.workers import announce_compilation, run_together

# Sequences are split in time if the threads cannot share them evenly, there are few for each, and they are this long.
SPLIT_BELOW_ROWS_PER_THREAD = 4
SPLIT_FROM_TOKENS = 4096
NO_MASK: Marks = np.empty(0, np.uint8)


def read_batch(sequence: Sequence) -> Batch:
    """The arrays of a sequence batch (B, T, C) that passed the core's contract."""
    sequences, length, _ = sequence.values.shape
    values = sequence.values.detach().contiguous().view(-1).numpy()
    if sequence.available is None and sequence.valid is None:
        pairs = np.array([[max(1.0, float(length - lag)) for lag in (0, *LAGS)]])
        return Batch(values, NO_MASK, NO_MASK, False, pairs, sequences, length)
    everything = torch.ones((sequences, length), dtype=torch.bool, device=sequence.values.device)
    valid, gate = (everything if mask is None else mask for mask in (sequence.valid, sequence.available))
    counts = [(valid[:, lag:] & valid[:, : max(0, length - lag)]).sum(dim=1) for lag in (0, *LAGS)]
    pairs = torch.stack(counts, dim=1).clamp(min=1).double().numpy()
    return Batch(values, as_marks(valid), as_marks(gate), True, pairs, sequences, length)


def run_batch(batch: Batch, weights: ModelWeights, threads: int) -> Outputs:
    """The model's outputs by so many threads, which share the sequences or, if these are few and long, their tiles."""
    sizes, arrays = weights
    sequences, (outputs, features) = batch.sequences, arrays.head.shape
    results = Outputs(
        sums=np.zeros((sequences, 2, MOMENTS, sizes.columns // 2)),
        descriptor=np.empty((sequences, 2, features // (2 * MOMENTS), MOMENTS)),
        logits=np.empty((sequences, outputs)),
    )
    split = (
        sequences % threads != 0
        and sequences < SPLIT_BELOW_ROWS_PER_THREAD * threads
        and batch.length >= SPLIT_FROM_TOKENS
    )
    handover = Handover(split, np.zeros(COUNTERS, np.int64), np.zeros((2, count_carried(sizes)), np.float32))
    arguments = without_names(sizes, arrays, batch, results, handover)
    with announce_compilation(run_tiles):
        run_together(lambda: run_tiles(*arguments), threads if split else min(threads, sequences))
    return results


def as_marks(mask: Tensor) -> Marks:
    """A boolean mask as flat bytes, for the kernels."""
    marks: Marks = mask.contiguous().view(-1).view(torch.uint8).numpy()
    return marks
