"""Root-mean-square normalization, gain only (Algorithm 1, lines 6 and 12)."""

import torch
from torch import Tensor, nn

EPSILON = 1e-6


class RMSNorm(nn.Module):
    """The norm `gain * x / sqrt(mean(x^2) + 1e-6)` over the last axis; zero stays zero."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, features: Tensor) -> Tensor:  # (..., D) -> (..., D)
        # The squares are summed in float64, where no float32 feature overflows them.
        norm = torch.linalg.vector_norm(features, dim=-1, keepdim=True, dtype=torch.float64)
        scale = torch.rsqrt(norm.square() / features.shape[-1] + EPSILON)
        return features * scale.to(features.dtype) * self.gain
