"""Transformer: a pre-norm encoder with bidirectional multi-head attention and sinusoidal positions."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ALGORITHMS = ("sdpa", "softmax")
EXPANSION = 2


class Transformer(nn.Module):
    """A stack of `depth` blocks of attention with `heads` heads and a feed-forward layer, from embedding to norm."""

    def __init__(self, inputs: int, width: int, depth: int, heads: int, *, algorithm: str) -> None:
        super().__init__()
        self.embed = nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(Block(width, heads, algorithm) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, features: Tensor, present: Tensor | None) -> Tensor:
        features = self.embed(features)
        features = features + positions(features)
        for block in self.blocks:
            features = block(features, present)
        normed: Tensor = self.norm(features)
        return normed


class Block(nn.Module):
    """A block of attention, then a feed-forward layer, each behind a norm and beside a residual."""

    def __init__(self, width: int, heads: int, algorithm: str) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads, algorithm)
        self.forward_norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, EXPANSION * width)
        self.contract = nn.Linear(EXPANSION * width, width)

    def forward(self, features: Tensor, present: Tensor | None) -> Tensor:
        features = features + self.attention(self.attention_norm(features), present)
        output: Tensor = features + self.contract(F.gelu(self.expand(self.forward_norm(features))))
        return output


class Attention(nn.Module):
    """Attention of every token to every present token. A head has width / heads dimensions, rounded up."""

    def __init__(self, width: int, heads: int, algorithm: str) -> None:
        super().__init__()
        self.heads = heads
        self.algorithm = algorithm
        inner = heads * math.ceil(width / heads)
        # Without biases: the softmax cancels that of the keys, and that of the values is a constant.
        self.project = nn.Linear(width, 3 * inner, bias=False)
        self.output = nn.Linear(inner, width, bias=False)

    def forward(self, features: Tensor, present: Tensor | None) -> Tensor:
        query, key, value = self.project(features).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mask = None
        if present is not None:
            # A sequence without a token would leave the softmax nothing; its first, zero token is never pooled.
            mask = (present | (torch.arange(present.shape[1], device=present.device) == 0)).view(len(present), 1, 1, -1)
        attend = F.scaled_dot_product_attention if self.algorithm == "sdpa" else softmax_attention
        mixed = attend(query, key, value, mask)  # (B, heads, T, head width)
        output: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return output

    def extra_repr(self) -> str:
        return f"heads={self.heads}, algorithm={self.algorithm}"


def softmax_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Attention by its definition, softmax(Q K^T / sqrt(head width)) V, with the whole T x T matrix in memory."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(dim=-1) @ value


def positions(features: Tensor) -> Tensor:
    """Sines and cosines (T, width) of each token's index, at rates that fall geometrically from 1 to 1 / 10,000."""
    length, width = features.shape[1:]
    half = math.ceil(width / 2)
    rate = torch.exp(torch.arange(half, dtype=features.dtype, device=features.device) * (-math.log(10_000.0) / half))
    angle = torch.arange(length, dtype=features.dtype, device=features.device).unsqueeze(1) * rate
    return torch.cat((angle.sin(), angle.cos()), dim=-1)[:, :width]
