"""Causal convolution in the frequency domain, with the backward pass that autograd would not find."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def padded_length(length: int) -> int:
    """The power of two that leaves room for a linear convolution of two sequences of this length."""
    return 1 << (2 * length - 1).bit_length()


def convolve(features: Tensor, kernel: Tensor) -> Tensor:
    """The sum over s of kernel[s] features[t - s] in every channel: (B, T, width), (width, T) -> (B, T, width)."""
    outputs: Tensor = _Convolution.apply(features, kernel)  # type: ignore[no-untyped-call]
    return outputs


class _Convolution(torch.autograd.Function):
    """Both gradients are correlations: three real transforms where autograd takes complex ones of full length."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, kernel: Tensor) -> Tensor:
        size = padded_length(features.shape[1])
        inputs, response = torch.fft.rfft(features.mT, size), torch.fft.rfft(kernel, size)  # (B, width, F), (width, F)
        ctx.save_for_backward(inputs, response)
        return _back(inputs * response, features.shape[1]).mT.contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        inputs, response = ctx.saved_tensors
        length = grad.shape[1]
        spectrum = torch.fft.rfft(grad.mT, padded_length(length))
        d_features = _back(spectrum * response.conj(), length).mT.contiguous()
        return d_features, _back(torch.einsum("bwf,bwf->wf", spectrum, inputs.conj()), length)


def _back(spectrum: Tensor, length: int) -> Tensor:
    signal: Tensor = torch.fft.irfft(spectrum, padded_length(length))[..., :length]
    return signal
