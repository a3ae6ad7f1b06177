"""S5: one multi-input, multi-output diagonal state space per layer, by a parallel scan."""

import numpy as np
import torch
from alphabet_core.pairs import pack
from alphabet_core.poles import zero_order_hold
from torch import Tensor, nn

from alphabet_baselines.adjoint import describe_algorithm
from alphabet_baselines.diagonal import ALGORITHMS, STATIC_SCANS, System, mix_modes
from alphabet_baselines.residual import ResidualStack
from alphabet_baselines.steps import draw_log_steps

__all__ = ["ALGORITHMS", "S5"]


class S5(ResidualStack):
    """A stack of `depth` layers with a state of `state` real dimensions, which are state / 2 conjugate pairs."""

    def __init__(self, inputs: int, width: int, depth: int, state: int, *, algorithm: str) -> None:
        super().__init__(inputs, width, (S5Mixer(width, state, algorithm) for _ in range(depth)))


class S5Mixer(nn.Module):
    """One state space for all channels, dx/dt = lambda x + B u, y = 2 Re(C x) + D u, held over a step per mode."""

    def __init__(self, width: int, state: int, algorithm: str) -> None:
        super().__init__()
        self.algorithm = algorithm
        self.scan = STATIC_SCANS[algorithm]
        poles, basis = diagonalize_hippo(state)  # (P / 2,), (P, P / 2)
        self.log_decay = nn.Parameter(torch.log(-poles.real))
        self.frequency = nn.Parameter(poles.imag.clone())
        self.log_step = nn.Parameter(draw_log_steps(state // 2))
        to_modes = basis.mH @ (torch.randn(state, width) * width**-0.5).to(basis.dtype)
        from_modes = (torch.randn(width, state) * state**-0.5).to(basis.dtype) @ basis
        self.input = nn.Parameter(torch.view_as_real(to_modes).clone())  # (P / 2, width, 2)
        self.output = nn.Parameter(torch.view_as_real(from_modes).clone())  # (width, P / 2, 2)
        self.skip = nn.Parameter(torch.randn(width))

    def discretize(self) -> System:
        """The discretized system: the zero-order hold of every mode over its own step."""
        decay, frequency = self.log_decay.exp().unsqueeze(-1), self.frequency.unsqueeze(-1)
        transition, gain = zero_order_hold(decay, frequency, self.log_step.exp())  # (P / 2, 2) each: real, imaginary
        to_modes = torch.view_as_complex(gain.contiguous()).unsqueeze(-1) * torch.view_as_complex(self.input)
        return pack(*transition.unbind(-1)), to_modes, 2.0 * torch.view_as_complex(self.output)

    def forward(self, features: Tensor) -> Tensor:
        return mix_modes(features, self.discretize(), self.skip, self.scan)

    def extra_repr(self) -> str:
        return describe_algorithm(self.algorithm, self.skip.device)


def diagonalize_hippo(state: int) -> tuple[Tensor, Tensor]:
    """The eigenvalues (P / 2,) with positive imaginary part, and eigenvectors (P, P / 2), of the normal HiPPO matrix.

    It is -1/2 plus a skew-symmetric matrix, hence unitarily diagonalizable with every decay rate at one half.
    """
    root = np.sqrt(np.arange(state) + 0.5)
    skew = np.sign(np.subtract.outer(np.arange(state), np.arange(state))) * np.outer(root, root)
    frequency, basis = np.linalg.eigh(1j * skew)  # ascending, in pairs of either sign
    order = np.arange(state // 2, state)
    dtype = torch.get_default_dtype().to_complex()
    return torch.tensor(-0.5 + 1j * frequency[order], dtype=dtype), torch.tensor(basis[:, order], dtype=dtype)
