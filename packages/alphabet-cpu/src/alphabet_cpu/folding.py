"""Folded weights for training, and their gradient passed on to the parameters.

After every step the frames are at their base. Then the fold and its derivative are written out by hand
(`kernels.fold_kernels`), since autograd through a hundred small operations takes as long as the forward kernel.
Elsewhere autograd does both.
"""

import numpy as np
import torch
from alphabet_core import Alphabet
from alphabet_core.fused import Bank, Frame, fold_parts
from torch import Tensor

from alphabet_cpu.kernels.arithmetic import allocate
from alphabet_cpu.kernels.fold_kernels import BankParameters, fold_at_base, fold_bwd, fold_if_at_base
from alphabet_cpu.kernels.layout import Floats, count_packed
from alphabet_cpu.weights import ModelWeights, arrange, pack, read_sizes, with_head

BANK = len(BankParameters._fields)
BASE = BankParameters._fields.index("base")
POLES = [BankParameters._fields.index(name) for name in ("raw_decay", "raw_frequency")]
EMPTY: Floats = np.empty(0, np.float32)


class FoldingByGraph:
    """The folded weights of any model, by the core's `fold` under autograd."""

    def __init__(self, model: Alphabet) -> None:
        self._folded = arrange(fold_parts(model), model.config.modes)
        self.weights = pack(model, [tensor.detach().numpy() for tensor in self._folded])

    def accumulate_gradients(self, gradient: Floats) -> None:
        """Add the parameters' gradients to `.grad`, given that of the packed weights."""
        # Not by `unpack`: numba crashes where it makes named tuples for Python while an interrupt waits.
        parts = torch.from_numpy(gradient).split([folded.numel() for folded in self._folded])
        pairs = [(f, g) for f, g in zip(self._folded, parts, strict=True) if f.requires_grad]
        torch.autograd.backward([f for f, _ in pairs], [g.view(f.shape).to(f.dtype) for f, g in pairs])


def is_at_base(model: Alphabet) -> bool:
    """Whether all frames are trainable and have a zero tangent, and no base wants a gradient, which is autograd's."""
    frames = [bank.frame for bank in model.banks()]
    return all(
        isinstance(frame, Frame) and not frame.base.requires_grad and not frame.tangent.detach().numpy().any()
        for frame in frames
    )


class FoldingAtBase:
    """The folded weights of a model whose frames are at their base, by hand."""

    def __init__(self, model: Alphabet) -> None:
        synthesis = model.synthesis
        banks = [_list_bank(bank) for bank in model.banks()]
        around = () if synthesis is None else (synthesis.scale, synthesis.feedthrough)
        self._tensors = (model.project.weight, *banks[0], *banks[-1], *around)
        self._absent = [] if model.cascaded is not None else [*range(1 + len(banks[0]), len(self._tensors))]
        arrays = [np.ascontiguousarray(tensor.detach().numpy()) for tensor in self._tensors]
        self._parameters, self._shapes = _group(arrays), [array.shape for array in arrays]
        self._bases = [bank[BASE] for bank in banks]
        self._poles = [arrays[1 + BANK * b + k] for b in range(len(banks)) for k in POLES]
        self._sizes = tuple(sizes := read_sizes(model.config))
        packed: Floats = allocate(count_packed(sizes))
        fold_at_base(self._parameters, self._sizes, packed)
        self.weights: ModelWeights = with_head(model, packed)

    def repeat(self) -> bool:
        """Fold parameters that may have changed where they lie; False where `is_at_base` no longer holds."""
        if any(base.requires_grad for base in self._bases):
            return False
        arrays = self.weights.arrays
        np.concatenate(self._poles, out=arrays.poles.reshape(-1))
        at_base: bool = fold_if_at_base(self._parameters, self._sizes, arrays.packed)
        return at_base

    def accumulate_gradients(self, gradient: Floats) -> None:
        """Add the parameters' gradients to `.grad`, given that of the packed weights."""
        gradients = [np.empty(shape, np.float32) for shape in self._shapes]
        fold_bwd(self._parameters, self._sizes, gradient, _group(gradients))
        for index, (tensor, found) in enumerate(zip(self._tensors, gradients, strict=True)):
            if index not in self._absent:
                add_gradient(tensor, found)


def _list_bank(bank: Bank) -> tuple[Tensor, ...]:
    """A bank's tensors in the order of `fold_kernels.BankParameters`."""
    frame, poles = bank.frame, bank.poles
    assert isinstance(frame, Frame)
    return (
        bank.lift.kernel, bank.lift.bias, bank.norm.gain, poles.raw_decay, poles.raw_frequency, frame.base,
        frame.tangent,
    )  # fmt: skip


def _group(arrays: list[Floats]) -> tuple[object, ...]:
    """Arrays one after the other as plain tuples, in the shape of `fold_kernels.Parameters`."""
    banks = arrays[1 : 1 + 2 * BANK]
    around = arrays[1 + 2 * BANK :] or [EMPTY, EMPTY]
    return arrays[0], tuple(banks[:BANK]), tuple(banks[BANK:]), *around


def add_gradient(parameter: Tensor, gradient: Floats) -> None:
    """Add a new array to the `.grad` of a parameter that wants one, in the strides that autograd would give it."""
    if not parameter.requires_grad:
        return
    tensor = torch.from_numpy(gradient)
    if not parameter.is_contiguous():
        tensor = torch.empty_like(parameter).copy_(tensor)
    parameter.grad = tensor if parameter.grad is None else parameter.grad + tensor
