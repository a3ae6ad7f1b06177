"""LRU: the linear recurrent unit, a discrete diagonal recurrence that starts on a ring."""

import math

import torch
from alphabet_core.pairs import pack
from torch import Tensor, nn

from alphabet_baselines.adjoint import describe_algorithm
from alphabet_baselines.diagonal import ALGORITHMS, STATIC_SCANS, System, mix_modes
from alphabet_baselines.residual import ResidualStack

__all__ = ["ALGORITHMS", "LRU"]

# The ring on which the eigenvalues start, uniform in area: slow modes, as for the long tasks of the LRU paper.
RADIUS_MIN, RADIUS_MAX = 0.9, 0.999
PHASE_MAX = 2.0 * math.pi


class LRU(ResidualStack):
    """A stack of `depth` linear recurrent units with `state` complex modes each."""

    def __init__(self, inputs: int, width: int, depth: int, state: int, *, algorithm: str) -> None:
        super().__init__(inputs, width, (LRUMixer(width, state, algorithm) for _ in range(depth)))


class LRUMixer(nn.Module):
    """The unit z[t] = lambda z[t-1] + gamma B u[t], y = Re(C z) + D u, with lambda = exp(-exp(nu) + i exp(theta))."""

    def __init__(self, width: int, state: int, algorithm: str) -> None:
        super().__init__()
        self.algorithm = algorithm
        self.scan = STATIC_SCANS[algorithm]
        squared = torch.empty(state).uniform_(RADIUS_MIN**2, RADIUS_MAX**2)
        self.nu = nn.Parameter(torch.log(-0.5 * torch.log(squared)))
        self.theta = nn.Parameter(torch.log(PHASE_MAX * torch.rand(state).clamp(min=1e-6)))
        self.log_gamma = nn.Parameter(0.5 * torch.log1p(-squared))  # every mode starts with unit variance
        self.input = nn.Parameter(torch.randn(state, width, 2) * (2 * width) ** -0.5)
        self.output = nn.Parameter(torch.randn(width, state, 2) * state**-0.5)
        self.skip = nn.Parameter(torch.randn(width))

    def discretize(self) -> System:
        """The system of transition and normalized maps; the recurrence is discrete to begin with."""
        radius, phase = torch.exp(-self.nu.exp()), self.theta.exp()
        transition = pack(radius * phase.cos(), radius * phase.sin())
        to_modes = self.log_gamma.exp().unsqueeze(-1) * torch.view_as_complex(self.input)
        return transition, to_modes, torch.view_as_complex(self.output)

    def forward(self, features: Tensor) -> Tensor:
        return mix_modes(features, self.discretize(), self.skip, self.scan)

    def extra_repr(self) -> str:
        return describe_algorithm(self.algorithm, self.skip.device)
