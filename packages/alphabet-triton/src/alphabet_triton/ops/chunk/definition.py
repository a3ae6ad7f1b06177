"""The recurrence and its moments in chunks of time, as plain loops: what the kernels compute, in any precision.

With l[t] the state that a chunk would have if it began at zero, p the pole and c the state before the chunk,
z[t] = l[t] + p^(k+1) c at the chunk's token k. Chunks of n tokens end, alone, at e[j] = l[(j+1) n - 1], and

    c[j] = sum over i < j of (p^n)^(j-1-i) e[i],

a weighted sum that needs no states but those ends. So all chunks are computed at once, and no sum is longer than a
chunk or the number of chunks.
"""

import torch
from alphabet_core.fused import LAGS, MOMENTS
from torch import Tensor


def scan_alone(drive: Tensor, pole: Tensor, chunk: int) -> tuple[Tensor, Tensor]:
    """States (B, T, M) of chunks that begin at zero, and the chunks' last states (B, chunks, M), all complex."""
    states, ends = torch.zeros_like(drive), []
    for start in range(0, drive.shape[1], chunk):
        state = torch.zeros_like(drive[:, 0])
        for k in range(chunk):
            state = pole * state
            if start + k < drive.shape[1]:
                state = state + drive[:, start + k]
                states[:, start + k] = state
        ends.append(state)
    return states, torch.stack(ends, 1)


def carry_into(ends: Tensor, pole: Tensor, chunk: int) -> Tensor:
    """The states (B, chunks, M) before every chunk, of the ends (B, chunks, M) of chunks that began at zero."""
    carries = torch.zeros_like(ends)
    for j in range(ends.shape[1]):
        for i in range(j):
            carries[:, j] += pole ** (chunk * (j - 1 - i)) * ends[:, i]
    return carries


def scan_in_chunks(drive: Tensor, pole: Tensor, chunk: int) -> Tensor:
    """The states (B, T, M) of z[t] = pole z[t-1] + drive[t], z[-1] = 0, for complex drive (B, T, M) and pole (M,)."""
    states, ends = scan_alone(drive, pole, chunk)
    carries = carry_into(ends, pole, chunk)
    for t in range(drive.shape[1]):
        states[:, t] += pole ** (t % chunk + 1) * carries[:, t // chunk]
    return states


def sum_moments_of_chunks(states: Tensor, valid: Tensor, chunk: int) -> Tensor:
    """Each chunk's share (B, chunks, 7, M) of the sums of z[t] conj(z[t-lag]) over valid pairs, t in the chunk.

    States of tokens that are not valid are taken as zero, so that no sum has to look at masks.
    """
    batch, length, modes = states.shape
    states = torch.where(valid.unsqueeze(-1), states, 0.0)
    sums = states.real.new_zeros(batch, -(-length // chunk), MOMENTS, modes)
    for t in range(length):
        share = sums[:, t // chunk]
        share[:, 0] += states[:, t].abs().square()
        for row, lag in zip(range(1, MOMENTS, 2), LAGS, strict=True):
            if t >= lag:
                pair = states[:, t] * states[:, t - lag].conj()
                share[:, row] += pair.real
                share[:, row + 1] += pair.imag
    return sums
