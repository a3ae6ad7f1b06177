"""Pooling: a trajectory summarized in one vector, which the linear head of every family reads."""

import torch
from torch import Tensor

from alphabet_baselines.tokens import Tokens


def pool_mean(features: Tensor, tokens: Tokens) -> Tensor:
    """The mean over present tokens, zero where there is none: (B, T, width) -> (B, width)."""
    if tokens.present is None or tokens.lengths is None:
        return features.mean(dim=1)
    total = torch.where(tokens.present.unsqueeze(-1), features, 0.0).sum(dim=1)
    return total / tokens.lengths.clamp(min=1).unsqueeze(-1)


def pool_max(features: Tensor, tokens: Tokens) -> Tensor:
    """The largest value over present tokens, channel by channel, zero where there is none: (B, width)."""
    if tokens.present is None or tokens.lengths is None:
        return features.amax(dim=1)
    highest = torch.where(tokens.present.unsqueeze(-1), features, -torch.inf).amax(dim=1)
    return torch.where(tokens.lengths.unsqueeze(-1) > 0, highest, 0.0)


def pool_last(features: Tensor, tokens: Tokens) -> Tensor:
    """The features of the last present token, zero where there is none: (B, T, width) -> (B, width)."""
    if tokens.lengths is None:
        return features[:, -1]
    index = (tokens.lengths - 1).clamp(min=0).view(-1, 1, 1).expand(-1, 1, features.shape[-1])
    return torch.where(tokens.lengths.unsqueeze(-1) > 0, features.gather(1, index).squeeze(1), 0.0)


POOLS = {"mean": pool_mean, "max": pool_max, "last": pool_last}
# What the families' own literature reads: the mean; beside it the maximum; for gated recurrences also the last state.
MEAN, MEAN_MAX, MEAN_MAX_LAST = ("mean",), ("mean", "max"), ("mean", "max", "last")
