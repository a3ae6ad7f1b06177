"""Mamba's selective scan on a CPU: compiled kernels behind torch's autograd."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from alphabet_core import AlphabetError
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from alphabet_baselines.selective_kernels import BLOCK, scan_sequences, scan_sequences_bwd

Array = np.ndarray[Any, Any]


class CompiledScan(torch.autograd.Function):
    """The selective scan of tensors on a CPU, float32 or float64. No state outlives a block of channels."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, step: Tensor, rate: Tensor, to_state: Tensor, from_state: Tensor) -> Tensor:
        _check_shapes(inputs, step, rate, to_state, from_state)
        ctx.save_for_backward(inputs, step, rate, to_state, from_state)
        arrays = _as_arrays(inputs, step, rate, to_state, from_state)
        outputs = np.empty_like(arrays[0])
        _by_sequences(scan_sequences, arrays, [outputs])
        return _join(outputs, inputs.shape[2])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        inputs, step, rate, to_state, from_state = ctx.saved_tensors
        arrays, channels = _as_arrays(inputs, step, rate, to_state, from_state), inputs.shape[2]
        d_inputs, d_step = np.empty_like(arrays[0]), np.empty_like(arrays[1])
        d_to, d_from = np.zeros_like(arrays[3]), np.zeros_like(arrays[4])
        d_rate = np.zeros((inputs.shape[0], *arrays[2].shape), arrays[2].dtype)
        _by_sequences(scan_sequences_bwd, arrays, [_split(grad), d_inputs, d_step, d_rate, d_to, d_from])
        return (
            _join(d_inputs, channels),
            _join(d_step, channels),
            torch.from_numpy(d_rate).sum(dim=0).transpose(1, 2).flatten(0, 1)[:channels],
            torch.from_numpy(d_to),
            torch.from_numpy(d_from),
        )


def _check_shapes(inputs: Tensor, step: Tensor, rate: Tensor, to_state: Tensor, from_state: Tensor) -> None:
    """Refuse what the kernels would read past the end of: they trust the first shapes that they see."""
    (sequences, length, channels), states = inputs.shape, rate.shape[-1]
    wanted = {"step": (step, inputs.shape), "rate": (rate, (channels, states))}
    wanted |= {"to_state": (to_state, (sequences, length, states)), "from_state": (from_state, to_state.shape)}
    for name, (tensor, shape) in wanted.items():
        if tensor.shape != shape or tensor.dtype != inputs.dtype:
            found = f"{tuple(tensor.shape)}, {tensor.dtype}"
            raise AlphabetError(f"{name} must have shape {tuple(shape)} and dtype {inputs.dtype}; got {found}")


def _as_arrays(inputs: Tensor, step: Tensor, rate: Tensor, to_state: Tensor, from_state: Tensor) -> list[Array]:
    """What the kernels read: channels in blocks, the last one filled up with zeros, and rates by block and state."""
    rates = np.ascontiguousarray(np.moveaxis(_split(rate.detach().t()), 0, 1))
    return [_split(inputs), _split(step), rates, *(x.detach().contiguous().numpy() for x in (to_state, from_state))]


def _split(values: Tensor) -> Array:
    """An array (..., K, BLOCK) of the channels, which are last."""
    padded: Tensor = F.pad(values.detach(), (0, -values.shape[-1] % BLOCK)).contiguous()
    return padded.view(*padded.shape[:-1], -1, BLOCK).numpy()


def _join(blocks: Array, channels: int) -> Tensor:
    return torch.from_numpy(blocks).flatten(-2)[..., :channels]


def _by_sequences(kernel: Callable[..., None], arrays: list[Array], written: list[Array]) -> None:
    """Run a kernel on all sequences, shares of them on each of torch's threads; rate alone is common to all."""
    inputs, step, rate, to_state, from_state = arrays
    sequences = inputs.shape[0]
    threads = max(1, min(torch.get_num_threads(), sequences))

    def run(thread: int) -> None:
        share = slice(thread * sequences // threads, (thread + 1) * sequences // threads)
        own = (array[share] for array in (to_state, from_state, *written))
        kernel(inputs[share], step[share], rate, *own)

    if threads == 1:
        run(0)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run, range(threads)))
