"""The recurrence in chunks, as plain loops in float64, is the reference's recurrence with the reference's moments."""

import pytest
import torch
from alphabet_core import scan_sequential
from alphabet_core.fused import LAGS
from alphabet_triton.ops.chunk.definition import scan_in_chunks, sum_moments_of_chunks


def make_scan(length, seed=0):
    """Poles (M,) from the fastest to the slowest decay, and a drive (B, T, M), complex."""
    generator = torch.Generator().manual_seed(seed)
    decay = torch.tensor([2.0, 0.1, 1e-3], dtype=torch.float64)
    pole = torch.exp(torch.complex(-decay, torch.tensor([3.0, 0.4, 0.01], dtype=torch.float64)))
    return pole, torch.randn(2, length, 3, dtype=torch.complex128, generator=generator)


def pack(pairs):
    return torch.cat([pairs.real, pairs.imag], -1)


@pytest.mark.parametrize("chunk", [1, 4, 8])
@pytest.mark.parametrize("length", [1, 7, 8, 9, 70])
def test_states_by_chunks_are_the_references(length, chunk):
    pole, drive = make_scan(length)
    expected = scan_sequential(pack(pole), pack(drive))
    torch.testing.assert_close(pack(scan_in_chunks(drive, pole, chunk)), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("length", [1, 3, 9, 70])
def test_moments_by_chunks_are_the_references(length):
    pole, drive = make_scan(length)
    states = scan_in_chunks(drive, pole, 8)
    valid = torch.rand(2, length, generator=torch.Generator().manual_seed(1)) < 0.7
    rows = [(states.abs().square() * valid.unsqueeze(-1)).sum(1)]
    for lag in LAGS:
        pairs = states[:, lag:] * states[:, : max(0, length - lag)].conj()
        pairs = pairs * (valid[:, lag:] & valid[:, : max(0, length - lag)]).unsqueeze(-1)
        rows += [pairs.sum(1).real, pairs.sum(1).imag]
    found = sum_moments_of_chunks(states, valid, 8).sum(1)
    torch.testing.assert_close(found, torch.stack(rows, 1), rtol=1e-13, atol=1e-13)
