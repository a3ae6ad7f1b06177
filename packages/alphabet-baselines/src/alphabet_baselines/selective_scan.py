"""Mamba's selective scan by several exact algorithms.

`scan(inputs (B, T, E), step (B, T, E), rate (E, N), to_state (B, T, N), from_state (B, T, N)) -> (B, T, E)` computes
h[t] = exp(step[t] rate) h[t-1] + step[t] inputs[t] to_state[t] and y[t] = sum over N of from_state[t] h[t].
"""

from collections.abc import Callable
from typing import Any

import torch
from alphabet_core.scan import scan_associative, scan_chunked
from torch import Tensor
from torch.autograd.function import once_differentiable

from alphabet_baselines.adjoint import is_compiled

SelectiveScan = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def selective_sequential(inputs: Tensor, step: Tensor, rate: Tensor, to_state: Tensor, from_state: Tensor) -> Tensor:
    """The outputs (B, T, E) by the definition, token by token; nothing larger than one state (B, E, N) is kept."""
    driven = step * inputs
    state = inputs.new_zeros(inputs.shape[0], *rate.shape)
    outputs = []
    for t in range(inputs.shape[1]):
        transition = torch.exp(step[:, t].unsqueeze(-1) * rate)
        state = torch.addcmul(driven[:, t].unsqueeze(-1) * to_state[:, t].unsqueeze(1), transition, state)
        outputs.append(torch.bmm(state, from_state[:, t].unsqueeze(-1)).squeeze(-1))
    return torch.stack(outputs, dim=1)


def selective_adjoint(inputs: Tensor, step: Tensor, rate: Tensor, to_state: Tensor, from_state: Tensor) -> Tensor:
    """The outputs of the same loop with a hand-derived backward, a reverse loop; on a CPU numba compiles both."""
    if is_compiled(inputs.device):
        from alphabet_baselines.selective_cpu import CompiledScan

        compiled: Tensor = CompiledScan.apply(inputs, step, rate, to_state, from_state)  # type: ignore[no-untyped-call]
        return compiled
    if not torch.is_grad_enabled():
        return selective_sequential(inputs, step, rate, to_state, from_state)
    outputs: Tensor = AdjointScan.apply(inputs, step, rate, to_state, from_state)  # type: ignore[no-untyped-call]
    return outputs


class AdjointScan(torch.autograd.Function):
    """The loop in torch's operations, on any device; states are kept.

    Adjoint state g[t] = from_state[t] dy[t] + exp(step[t+1] rate) g[t+1], with g = 0 past the end. Then
    d(drive)[t] = g[t] and d(step rate)[t] = g[t] exp(step[t] rate) h[t-1]; the rest is the chain rule.
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, step: Tensor, rate: Tensor, to_state: Tensor, from_state: Tensor) -> Tensor:
        length = inputs.shape[1]
        driven = step * inputs
        states = inputs.new_zeros(length + 1, inputs.shape[0], *rate.shape)  # states[t + 1] is h[t]
        outputs = torch.empty_like(inputs)
        for t in range(length):
            transition = torch.exp(step[:, t].unsqueeze(-1) * rate)
            drive = driven[:, t].unsqueeze(-1) * to_state[:, t].unsqueeze(1)
            torch.addcmul(drive, transition, states[t], out=states[t + 1])
            outputs[:, t] = torch.bmm(states[t + 1], from_state[:, t].unsqueeze(-1)).squeeze(-1)
        ctx.save_for_backward(inputs, step, rate, to_state, from_state, driven, states)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        inputs, step, rate, to_state, from_state, driven, states = ctx.saved_tensors
        d_driven, d_step = torch.empty_like(step), torch.empty_like(step)
        d_to, d_from = torch.empty_like(to_state), torch.empty_like(from_state)
        d_rate, carry = torch.zeros_like(states[0]), torch.zeros_like(states[0])
        for t in reversed(range(inputs.shape[1])):
            moved, dy = step[:, t].unsqueeze(-1), grad[:, t]
            adjoint = torch.addcmul(carry, dy.unsqueeze(-1), from_state[:, t].unsqueeze(1))
            d_from[:, t] = torch.bmm(dy.unsqueeze(1), states[t + 1]).squeeze(1)
            d_to[:, t] = torch.bmm(driven[:, t].unsqueeze(1), adjoint).squeeze(1)
            d_driven[:, t] = torch.bmm(adjoint, to_state[:, t].unsqueeze(-1)).squeeze(-1)
            carry = adjoint.mul_(torch.exp(moved * rate))
            exponent = carry * states[t]
            d_rate.addcmul_(exponent, moved)
            d_step[:, t] = exponent.mul_(rate).sum(dim=-1)
        return d_driven * step, d_step.addcmul_(d_driven, inputs), d_rate.sum(dim=0), d_to, d_from


def _selective(scan: Callable[..., Tensor]) -> SelectiveScan:
    """The same through all transitions and states at once, (B, T, E N) each, and one of the core's scans."""

    def selective(inputs: Tensor, step: Tensor, rate: Tensor, to_state: Tensor, from_state: Tensor) -> Tensor:
        transition = torch.exp(step.unsqueeze(-1) * rate)
        drive = (step * inputs).unsqueeze(-1) * to_state.unsqueeze(2)
        states = scan(transition.flatten(2), drive.flatten(2), product=torch.mul).view_as(drive)
        return (states @ from_state.unsqueeze(-1)).squeeze(-1)

    return selective


SELECTIVE_SCANS: dict[str, SelectiveScan] = {
    "adjoint": selective_adjoint,
    "sequential": selective_sequential,
    "chunked": _selective(scan_chunked),
    "associative": _selective(scan_associative),
}
