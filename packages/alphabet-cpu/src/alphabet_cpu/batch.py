"""A batch as the kernels read it, and what is done with the moments that they sum."""

from dataclasses import dataclass

import numpy as np
import torch
from alphabet_core import Sequence
from numpy.typing import NDArray
from torch import Tensor, nn

from alphabet_cpu.conditioning import condition_sums
from alphabet_cpu.inference import HISTORY, MOMENTS, sum_moments
from alphabet_cpu.path import LAGS
from alphabet_cpu.weights import Array
from alphabet_cpu.workers import compile_aloud, run_slices

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


def sum_batch(batch: Batch, width: int, weights: tuple[Array, ...], threads: int) -> Doubles:
    """Moment sums (B, 2, 7, modes in whole lanes) in float64."""
    rows, length, channels = batch.shape
    modes = weights[3].size // 2
    sums = np.zeros(rows * 2 * MOMENTS * modes)

    def work(first: int, last: int) -> None:
        sum_moments(batch.values, batch.valid, batch.gate, batch.masked, first, last, length, channels, width, weights,
                    sums)  # fmt: skip

    with compile_aloud(sum_moments):
        run_slices(lambda _, first, last: work(first, last), rows, threads)
    return sums.reshape(rows, 2, MOMENTS, modes)


def describe_sums(sums: Doubles, pairs: Doubles, modes: int) -> Doubles:
    """Moment sums to the descriptor (B, 2, M, 7) in float64."""
    descriptor = np.empty((*sums.shape[:2], modes, MOMENTS))
    condition_sums(sums, pairs, descriptor)
    return descriptor


def read_head(head: nn.Module, descriptor: Doubles) -> Doubles:
    """The affine head's logits (B, K) in float64."""
    assert isinstance(head, nn.Linear)
    weight, bias = (parameter.detach().numpy().astype(np.float64) for parameter in (head.weight, head.bias))
    logits: Doubles = descriptor.reshape(len(descriptor), -1) @ weight.T + bias
    return logits


def _bytes(mask: Tensor) -> Mask:
    array: Mask = mask.contiguous().view(-1).view(torch.uint8).numpy()
    return array
