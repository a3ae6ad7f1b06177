"""Mamba's selective scan on a CPU: compiled kernels behind torch's autograd."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from alphabet_baselines.compiling import Array, as_array, check_shape, join_channels, run_sequences, split_channels
from alphabet_baselines.selective_kernels import BLOCK, scan_sequences, scan_sequences_bwd


class CompiledScan(torch.autograd.Function):
    """The selective scan of tensors on a CPU, float32 or float64. No state outlives a block of channels."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, step: Tensor, rate: Tensor, to_state: Tensor, from_state: Tensor) -> Tensor:
        (sequences, length, channels), states = inputs.shape, rate.shape[-1]
        check_shape("step", step, inputs.shape, inputs.dtype)
        check_shape("rate", rate, (channels, states), inputs.dtype)
        check_shape("to_state", to_state, (sequences, length, states), inputs.dtype)
        check_shape("from_state", from_state, to_state.shape, inputs.dtype)
        ctx.save_for_backward(inputs, step, rate, to_state, from_state)
        rates, own = _as_arrays(inputs, step, rate, to_state, from_state)
        outputs = np.empty_like(own[0])
        run_sequences(scan_sequences, [rates], [*own, outputs], 10 * inputs.numel() * states)
        return join_channels(outputs, channels)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        inputs, step, rate, to_state, from_state = ctx.saved_tensors
        rates, own = _as_arrays(inputs, step, rate, to_state, from_state)
        d_inputs, d_step, d_to, d_from = np.empty_like(own[0]), np.empty_like(own[1]), *map(np.zeros_like, own[2:])
        d_rate = np.zeros((inputs.shape[0], *rates.shape), rates.dtype)
        own += [split_channels(grad, BLOCK), d_inputs, d_step, d_rate, d_to, d_from]
        run_sequences(scan_sequences_bwd, [rates], own, 30 * grad.numel() * rate.shape[1])
        channels = inputs.shape[2]
        return (
            join_channels(d_inputs, channels),
            join_channels(d_step, channels),
            torch.from_numpy(d_rate).sum(dim=0).transpose(1, 2).flatten(0, 1)[:channels],
            torch.from_numpy(d_to),
            torch.from_numpy(d_from),
        )


def _as_arrays(
    inputs: Tensor, step: Tensor, rate: Tensor, to_state: Tensor, from_state: Tensor
) -> tuple[Array, list[Array]]:
    """What the kernels read: rates by block and state, then what each sequence has of its own, channels in blocks."""
    rates = np.ascontiguousarray(np.moveaxis(split_channels(rate.t(), BLOCK), 0, 1))
    channels = [split_channels(each, BLOCK) for each in (inputs, step)]
    return rates, [*channels, *(as_array(each) for each in (to_state, from_state))]
