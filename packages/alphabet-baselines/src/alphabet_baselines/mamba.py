"""Mamba: a selective state space, whose step, input and output maps depend on the token."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alphabet_baselines.adjoint import describe_algorithm
from alphabet_baselines.selective_scan import SELECTIVE_SCANS
from alphabet_baselines.steps import draw_log_steps

EXPANSION = 2
WIDTH_PER_RANK = 16  # the steps of all channels come from ceil(width / 16) numbers per token
ALGORITHMS = (*SELECTIVE_SCANS, "official")


class Mamba(nn.Module):
    """One Mamba block between an embedding and a norm, as in the Mamba paper's residual architecture."""

    def __init__(self, inputs: int, width: int, state: int, kernel: int, *, algorithm: str) -> None:
        super().__init__()
        self.embed = nn.Linear(inputs, width)
        self.norm = nn.LayerNorm(width)
        self.mixer: nn.Module = MambaMixer(width, state, kernel, algorithm)
        if algorithm == "official":
            from alphabet_baselines.mamba_official import to_official

            self.mixer = to_official(self.mixer)
        self.last_norm = nn.LayerNorm(width)

    def forward(self, features: Tensor, _present: Tensor | None) -> Tensor:
        features = self.embed(features)
        normed: Tensor = self.last_norm(features + self.mixer(self.norm(features)))
        return normed


class MambaMixer(nn.Module):
    """The block of Mamba: expansion, causal depthwise convolution, selective scan, gate, contraction.

    Parameters carry the names and shapes of mamba-ssm's `Mamba`, so that a state dict fits either module.
    """

    def __init__(self, width: int, state: int, kernel: int, algorithm: str = ALGORITHMS[0]) -> None:
        super().__init__()
        self.algorithm = algorithm
        self.state = state
        inner, rank = EXPANSION * width, math.ceil(width / WIDTH_PER_RANK)
        self.in_proj = nn.Linear(width, 2 * inner, bias=False)
        self.conv1d = nn.Conv1d(inner, inner, kernel, groups=inner, padding=kernel - 1)
        self.x_proj = nn.Linear(inner, rank + 2 * state, bias=False)
        self.dt_proj = nn.Linear(rank, inner)
        self.A_log = nn.Parameter(torch.arange(1.0, state + 1.0).log().repeat(inner, 1))
        self.D = nn.Parameter(torch.ones(inner))
        self.out_proj = nn.Linear(inner, width, bias=False)
        nn.init.uniform_(self.dt_proj.weight, -(rank**-0.5), rank**-0.5)
        with torch.no_grad():
            step = draw_log_steps(inner).exp()
            self.dt_proj.bias.copy_(step + torch.log(-torch.expm1(-step)))  # softplus of it is the step

    def forward(self, features: Tensor) -> Tensor:
        inputs, gate = self.in_proj(features).chunk(2, dim=-1)
        inputs = F.silu(self._convolve(inputs))
        rank = self.dt_proj.in_features
        step, to_state, from_state = self.x_proj(inputs).split((rank, self.state, self.state), dim=-1)
        step = F.softplus(self.dt_proj(step))
        mixed = SELECTIVE_SCANS[self.algorithm](inputs, step, -self.A_log.exp(), to_state, from_state)
        output: Tensor = self.out_proj(torch.addcmul(mixed, inputs, self.D) * F.silu(gate))
        return output

    def _convolve(self, inputs: Tensor) -> Tensor:
        """The causal depthwise convolution as a few shifted multiply-adds, which needs no transpose."""
        kernel = self.conv1d.weight.shape[-1]
        padded = F.pad(inputs, (0, 0, kernel - 1, 0))
        taps = self.conv1d.weight.squeeze(1).unbind(-1)  # oldest first
        total: Tensor | None = self.conv1d.bias
        assert total is not None
        for offset, tap in enumerate(taps):
            total = torch.addcmul(total, padded[:, offset : offset + inputs.shape[1]], tap)
        return total

    def extra_repr(self) -> str:
        return describe_algorithm(self.algorithm, self.D.device)
