"""A batch as the kernels read it, and what is done with the moments that they sum."""

from dataclasses import dataclass

import numpy as np
import torch
from alphabet_core import Sequence
from numpy.typing import NDArray
from torch import Tensor, nn

from alphabet_cpu.conditioning import MOMENTS
from alphabet_cpu.inference import HISTORY, sum_moments
from alphabet_cpu.path import LAGS
from alphabet_cpu.weights import Array, Weights
from alphabet_cpu.workers import compile_aloud, run_together

Mask = NDArray[np.uint8]
Doubles = NDArray[np.float64]
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
        nothing = np.empty(0, np.uint8)
        pairs = np.array([[max(1.0, length - lag) for lag in (0, *LAGS)]])
        return Batch((batch, length, channels), values, nothing, nothing, False, pairs)
    everything = torch.ones((batch, length), dtype=torch.bool)
    valid, gate = (everything if mask is None else mask for mask in (sequence.valid, sequence.available))
    counts = [(valid[:, lag:] & valid[:, : max(0, length - lag)]).sum(dim=1) for lag in (0, *LAGS)]
    pairs = torch.stack(counts, dim=1).clamp(min=1).double().numpy()
    return Batch((batch, length, channels), values, _bytes(valid), _bytes(gate), True, pairs)


@dataclass(frozen=True)
class Moments:
    """Moment sums (B, 2, 7, modes in whole lanes) and the descriptor (B, 2, M, 7) that they condition to, float64."""

    sums: Doubles
    descriptor: Doubles


def sum_batch(batch: Batch, modes: int, weights: Weights, threads: int) -> Moments:
    """Both of a batch, its sequences shared by so many threads."""
    rows, length, _ = batch.shape
    moments = Moments(np.zeros((rows, 2, MOMENTS, weights.sizes[3] // 2)), np.empty((rows, 2, modes, MOMENTS)))
    counter = np.zeros(1, np.int64)

    def work() -> None:
        sum_moments(batch.values, batch.valid, batch.gate, batch.masked, counter, rows, length, weights.sizes,
                    weights.packed, batch.pairs, moments.sums, moments.descriptor)  # fmt: skip

    with compile_aloud(sum_moments):
        run_together(work, min(threads, rows))
    return moments


def read_head(head: nn.Module, descriptor: Doubles) -> Doubles:
    """The affine head's logits (B, K) in float64."""
    assert isinstance(head, nn.Linear)
    weight, bias = (parameter.detach().numpy().astype(np.float64) for parameter in (head.weight, head.bias))
    logits: Doubles = descriptor.reshape(len(descriptor), -1) @ weight.T + bias
    return logits


def _bytes(mask: Tensor) -> Mask:
    array: Mask = mask.contiguous().view(-1).view(torch.uint8).numpy()
    return array
