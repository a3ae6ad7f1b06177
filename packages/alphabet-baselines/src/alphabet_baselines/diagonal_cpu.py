"""The recurrences of S4D, S5 and LRU on a CPU: compiled kernels behind torch's autograd, float32 or float64."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from alphabet_baselines.compiling import Array, as_array, check_shape, join_channels, run_sequences, split_channels
from alphabet_baselines.diagonal_kernels import (
    BLOCK,
    ROW,
    scan_channels,
    scan_channels_bwd,
    scan_modes,
    scan_modes_bwd,
)


class CompiledModes(torch.autograd.Function):
    """The states (B, T, 2M) of packed modes from a transition (2M,) and their drive (B, T, 2M), from zero."""

    @staticmethod
    def forward(ctx: Any, transition: Tensor, drive: Tensor) -> Tensor:
        check_shape("drive", drive, (*drive.shape[:2], *transition.shape), transition.dtype)
        states = torch.empty(drive.shape, dtype=drive.dtype)
        system, arrays = _as_double(transition), [as_array(drive), states.numpy()]
        run_sequences(scan_modes, [system], arrays, 4 * drive.numel())
        ctx.save_for_backward(transition, states)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        transition, states = ctx.saved_tensors
        d_drive = torch.empty(states.shape, dtype=states.dtype)
        d_transition = np.zeros((states.shape[0], states.shape[2]))
        arrays = [as_array(states), as_array(grad), d_drive.numpy(), d_transition]
        run_sequences(scan_modes_bwd, [_as_double(transition)], arrays, 8 * grad.numel())
        return torch.from_numpy(d_transition).sum(dim=0).to(transition.dtype), d_drive


class CompiledChannels(torch.autograd.Function):
    """The outputs (B, T, C) of channels with modes of their own, from inputs (B, T, C) and two packed (C, 2N).

    y[t] = sum over modes of Re(weight z[t]) with z[t] = transition z[t-1] + u[t].
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, transition: Tensor, weight: Tensor) -> Tensor:
        check_shape("transition", transition, (inputs.shape[2], transition.shape[1]), transition.dtype)
        check_shape("weight", weight, transition.shape, inputs.dtype)
        ctx.save_for_backward(inputs, transition, weight)
        own = [split_channels(inputs, BLOCK)]
        own.append(np.empty_like(own[0]))
        run_sequences(scan_channels, [_as_rows(transition, weight)], own, 3 * inputs.numel() * transition.shape[1])
        return join_channels(own[1], inputs.shape[2])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inputs, transition, weight = ctx.saved_tensors
        rows = _as_rows(transition, weight)
        own = [split_channels(inputs, BLOCK), split_channels(grad, BLOCK)]
        d_inputs, d_rows = np.empty_like(own[0]), np.zeros((inputs.shape[0], *rows.shape))
        run_sequences(scan_channels_bwd, [rows], [*own, d_inputs, d_rows], 9 * grad.numel() * transition.shape[1])
        parts = torch.from_numpy(d_rows).sum(dim=0).unflatten(-1, (4, BLOCK))  # (K, N, 4, BLOCK)
        channels = inputs.shape[2]
        d_system = parts.permute(0, 3, 2, 1).flatten(0, 1)[:channels].flatten(1)  # (C, 4 N)
        d_transition, d_weight = d_system.chunk(2, dim=1)
        return join_channels(d_inputs, channels), d_transition.to(transition.dtype), d_weight.to(weight.dtype)


def _as_double(values: Tensor) -> Array:
    return as_array(values.detach().double())


def _as_rows(transition: Tensor, weight: Tensor) -> Array:
    """The array (K, N, ROW) of K blocks of channels: per mode [Re | Im] of the transitions, then of the weights."""
    parts = torch.cat((transition.detach().double(), weight.detach().double()), dim=1).unflatten(1, (4, -1))
    blocks = split_channels(parts.permute(1, 2, 0), BLOCK)  # (4, N, K, BLOCK)
    return np.ascontiguousarray(blocks.transpose(2, 1, 0, 3)).reshape(blocks.shape[2], blocks.shape[1], ROW)
