"""The local lift: a centred depthwise convolution, bias and SiLU (Algorithm 1, lines 5 and 12)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alphabet_core.grid import LIFT_OFFSETS, Grid


class Lift(nn.Module):
    """The SiLU of a five-tap depthwise correlation of a masked trajectory, at offsets -8, -4, 0, 4, 8."""

    def __init__(self, width: int) -> None:
        super().__init__()
        # Starts as varied filters that lean towards the identity. The evidence is in docs/initial-values.md.
        centre = torch.tensor([float(offset == 0) for offset in LIFT_OFFSETS])
        self.kernel = nn.Parameter(0.3 * centre + 0.26 * torch.randn(width, len(LIFT_OFFSETS)))
        self.bias = nn.Parameter(0.26 * torch.randn(width))

    def forward(self, features: Tensor, grid: Grid) -> Tensor:  # (B, T, D) -> (B, T, D)
        return self.activate(grid.convolve(features, self.kernel))

    def activate(self, convolved: Tensor) -> Tensor:
        """The SiLU of convolved features plus the bias: the pointwise half of the lift."""
        return F.silu(convolved + self.bias)
