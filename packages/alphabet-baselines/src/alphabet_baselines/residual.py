"""What S4D, S5 and LRU share around their recurrences: embedding, norms, GELU, gate, residual."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class ResidualStack(nn.Module):
    """An embedding, one block per mixer (B, T, width) -> (B, T, width), and a norm."""

    def __init__(self, inputs: int, width: int, mixers: Iterable[nn.Module]) -> None:
        super().__init__()
        self.embed = nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(Block(width, mixer) for mixer in mixers)
        self.norm = nn.LayerNorm(width)

    def forward(self, features: Tensor, _present: Tensor | None) -> Tensor:
        features = self.embed(features)
        for block in self.blocks:
            features = block(features)
        normed: Tensor = self.norm(features)
        return normed


class Block(nn.Module):
    """The residual block x + y sigmoid(W y) with y = GELU(mixer(norm(x))); only the mixer looks back in time."""

    def __init__(self, width: int, mixer: nn.Module) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mixer = mixer
        self.gate = nn.Linear(width, width)

    def forward(self, features: Tensor) -> Tensor:
        mixed = F.gelu(self.mixer(self.norm(features)))
        return torch.addcmul(features, mixed, torch.sigmoid(self.gate(mixed)))
