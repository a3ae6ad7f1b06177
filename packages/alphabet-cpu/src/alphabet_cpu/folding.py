"""Folded weights for training, and how their gradient gets back to the parameters.

After every step the frames are at their base; then both ways are written out by hand (`unfolding`), since autograd
through a hundred small operations takes as long as the forward kernel. Elsewhere autograd does it.
"""

import numpy as np
import torch
from alphabet_core import Alphabet
from alphabet_core.fused import Bank, Frame, fold
from numpy.typing import NDArray
from torch import Tensor

from alphabet_cpu.arithmetic import allocate
from alphabet_cpu.layout import unpack
from alphabet_cpu.unfolding import fold_at_base, return_fold
from alphabet_cpu.weights import Array, Weights, arrange, count_sizes, pack, weigh


class FoldingByGraph:
    """Any model: the core's `fold` under autograd."""

    def __init__(self, model: Alphabet) -> None:
        self._folded = arrange(fold(model), model.config.modes)
        self.weights = pack(model, [tensor.detach().numpy() for tensor in self._folded])

    def give_back(self, gradient: Array) -> None:
        """Add the parameters' gradients, given that of the packed weights, to `.grad`."""
        parts = unpack(gradient, self.weights.sizes)
        pairs = [(f, torch.from_numpy(g)) for f, g in zip(self._folded, parts, strict=True) if f.requires_grad]
        torch.autograd.backward([f for f, _ in pairs], [g.view(f.shape).to(f.dtype) for f, g in pairs])


def is_at_base(model: Alphabet) -> bool:
    """Whether both frames train and have a zero tangent, and the poles train too."""
    return model.config.trainable_poles and all(
        isinstance(bank.frame, Frame) and not bank.frame.tangent.detach().numpy().any() for bank in model.banks()
    )


class FoldingAtBase:
    """A model whose frames are at their base: the same weights and gradients by hand."""

    def __init__(self, model: Alphabet) -> None:
        synthesis = model.synthesis
        assert synthesis is not None
        self._banks = [_list_bank(bank) for bank in model.banks()]
        self._others = [model.project.weight, synthesis.scale, synthesis.feedthrough]
        self._arrays = [tuple(_read(tensor) for tensor in bank) for bank in self._banks]
        project, *self._synthesis = (_read(tensor) for tensor in self._others)
        sizes, count = count_sizes(model.config)
        packed: Array = allocate(count)
        fold_at_base(project, *self._arrays, *self._synthesis, sizes, packed)
        self.weights: Weights = weigh(model, packed)

    def give_back(self, gradient: Array) -> None:
        """Add the parameters' gradients, given that of the packed weights, to `.grad`."""
        banks = [tuple(np.empty_like(array) for array in bank) for bank in self._arrays]
        project, *synthesis = (np.empty(tensor.shape, np.float32) for tensor in self._others)
        return_fold(*self._arrays, *self._synthesis, self.weights.sizes, gradient, project, *banks, *synthesis)
        for tensors, gradients in zip((*self._banks, self._others), (*banks, (project, *synthesis)), strict=True):
            for tensor, found in zip(tensors, gradients, strict=True):
                add_gradient(tensor, found)


def _list_bank(bank: Bank) -> tuple[Tensor, ...]:
    """In the order of `unfolding`."""
    frame, poles = bank.frame, bank.poles
    assert isinstance(frame, Frame)
    return (
        bank.lift.kernel, bank.lift.bias, bank.norm.gain, poles.raw_decay, poles.raw_frequency, frame.base,
        frame.tangent,
    )  # fmt: skip


def _read(tensor: Tensor) -> Array:
    return np.ascontiguousarray(tensor.detach().numpy())


def add_gradient(parameter: Tensor, gradient: NDArray[np.float32] | NDArray[np.float64]) -> None:
    """Add to the `.grad` of a parameter that wants one, in the parameter's own strides as autograd does."""
    if not parameter.requires_grad:
        return
    tensor = torch.empty_like(parameter).copy_(torch.from_numpy(gradient))
    parameter.grad = tensor if parameter.grad is None else parameter.grad + tensor
