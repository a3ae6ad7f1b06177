"""Mamba's selective scan by several exact algorithms.

`scan(inputs (B, T, E), step (B, T, E), rate (E, N), to_state (B, T, N), from_state (B, T, N)) -> (B, T, E)` computes
h[t] = exp(step[t] rate) h[t-1] + step[t] inputs[t] to_state[t] and y[t] = sum over N of from_state[t] h[t].
"""

from collections.abc import Callable

import torch
from alphabet_core.scan import scan_associative, scan_chunked
from torch import Tensor

SelectiveScan = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def selective_sequential(inputs: Tensor, step: Tensor, rate: Tensor, to_state: Tensor, from_state: Tensor) -> Tensor:
    """The definition, token by token; the state (B, E, N) stays in a cache and nothing larger exists."""
    driven = step * inputs
    state = inputs.new_zeros(inputs.shape[0], *rate.shape)
    outputs = []
    for t in range(inputs.shape[1]):
        transition = torch.exp(step[:, t].unsqueeze(-1) * rate)
        state = torch.addcmul(driven[:, t].unsqueeze(-1) * to_state[:, t].unsqueeze(1), transition, state)
        outputs.append(torch.bmm(state, from_state[:, t].unsqueeze(-1)).squeeze(-1))
    return torch.stack(outputs, dim=1)


def _selective(scan: Callable[..., Tensor]) -> SelectiveScan:
    """The same through all transitions and states at once, (B, T, E N) each, and one of the core's scans."""

    def selective(inputs: Tensor, step: Tensor, rate: Tensor, to_state: Tensor, from_state: Tensor) -> Tensor:
        transition = torch.exp(step.unsqueeze(-1) * rate)
        drive = (step * inputs).unsqueeze(-1) * to_state.unsqueeze(2)
        states = scan(transition.flatten(2), drive.flatten(2), product=torch.mul).view_as(drive)
        return (states @ from_state.unsqueeze(-1)).squeeze(-1)

    return selective


SELECTIVE_SCANS: dict[str, SelectiveScan] = {
    "sequential": selective_sequential,
    "chunked": _selective(scan_chunked),
    "associative": _selective(scan_associative),
}
