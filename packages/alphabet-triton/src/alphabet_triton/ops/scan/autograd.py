"""`scan` as a torch operator, and its backward as another."""

from typing import Any

import torch
from alphabet_core.fused import MOMENTS
from torch import Tensor

from alphabet_triton.ops.registering import gradient_of, operator
from alphabet_triton.ops.scan.launch import launch_scan, launch_scan_backward


@operator("scan")
def scan(
    drive: Tensor, transition: Tensor, valid: Tensor | None, gate: Tensor | None, length: int
) -> tuple[Tensor, Tensor, Tensor]:
    """States (B, 2M, T), moment sums (B, 7, M) and counts (B, 4) of their pairs, for a gated drive (B, 2M, T)."""
    return launch_scan(drive, transition, valid, gate, length, store=True, count=True)


scan_backward = operator("scan_backward")(launch_scan_backward)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, transition, valid, gate, ctx.length = inputs
    ctx.save_for_backward(output[0], transition, valid, gate)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, d_states: Tensor | None, d_sums: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
    states, transition, *_rest = ctx.saved_tensors
    shape = (len(states), MOMENTS, len(transition) // 2)
    d_sums = gradient_of(d_sums, *shape, like=states, dtype=torch.float64)
    d_states = None if d_states is None else d_states.contiguous()
    found = scan_backward(*ctx.saved_tensors, ctx.length, d_sums, d_states)
    return (*found, None, None, None)


scan.register_autograd(_backward, setup_context=_save)
