"""Modal moments and their radial-log conditioning: states to descriptor (Algorithm 1, lines 10 and 15)."""

import torch
from torch import Tensor

from alphabet_core.grid import Grid
from alphabet_core.pairs import pack, split


def read_moments(states: Tensor, grid: Grid, lags: tuple[int, ...]) -> Tensor:
    """The raw moments R_0 and R_lag for each lag, (B, 1 + lags, 2M) packed, of states (B, T, 2M)."""
    pairs = grid.lagged(states, (0, *lags))
    sums = correlate(states, [pair.earlier for pair in pairs])
    counts = torch.stack([pair.number for pair in pairs], dim=1)  # (B, 1 + lags, 1)
    return sums / counts.clamp(min=1)


def correlate(states: Tensor, partners: list[Tensor]) -> Tensor:
    """The sum over t of `z[t] conj(partner[t])` for each partner (B, T, 2M): (B, partners, 2M) packed."""
    re, im = split(states)
    turned = pack(im, -re)

    def inner(left: Tensor, right: Tensor) -> Tensor:
        first, second = split((left * right).sum(dim=1))
        return first + second

    return torch.stack([pack(inner(states, partner), inner(turned, partner)) for partner in partners], dim=1)


def condition(moments: Tensor) -> Tensor:
    """The descriptor (B, M, 1 + 2 lags) of a bank's raw moments (B, 1 + lags, 2M): log energy, then rlog per lag."""
    energy = split(moments[:, :1])[0].log1p()  # (B, 1, M)
    lagged = radial_log(moments[:, 1:])  # (B, lags, 2M)
    re, im = split(lagged)
    interleaved = torch.stack((re, im), dim=2).flatten(1, 2)  # (B, 2 lags, M)
    return torch.cat((energy, interleaved), dim=1).mT


def radial_log(u: Tensor) -> Tensor:
    """The radial logarithm log(1 + |u|) u / |u| of packed pairs; at zero it is 0 and its derivative the identity."""
    re, im = split(u)
    squared = re * re + im * im
    zero = squared == 0
    radius = torch.where(zero, 1.0, squared).sqrt()
    ratio = torch.where(zero, 1.0, radius.log1p() / radius)
    return u * torch.cat((ratio, ratio), dim=-1)
