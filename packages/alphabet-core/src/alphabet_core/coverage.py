"""Which models a fused runtime may stand in for, and in words why one is not covered."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from alphabet_core.errors import AlphabetError
from alphabet_core.frame import FixedFrame, Frame
from alphabet_core.head import AffineHead
from alphabet_core.lift import Lift
from alphabet_core.model import Alphabet, Bank, Synthesis
from alphabet_core.norm import RMSNorm
from alphabet_core.poles import Poles

FUSED = "fused"
LAGS = (1, 2, 4)
# What kernels compute in place of. A subclass, or a parametrized module, may compute something else.
MODULES = {Alphabet, nn.Linear, Bank, Lift, RMSNorm, Frame, FixedFrame, Poles, Synthesis, AffineHead}


def require_alphabet(model: object) -> Alphabet:
    """The model, if it is one."""
    if not isinstance(model, Alphabet):
        raise AlphabetError(f"model must be an Alphabet; got {type(model).__name__}")
    return model


class Pathfinder(ABC):
    """Something that runs an `alphabet` by kernels or by the reference, and says which."""

    alphabet: Alphabet

    @abstractmethod
    def why_not(self, values: Tensor | None = None, time_delta: Tensor | None = None) -> str | None:
        """Why a call takes the reference, or None; without values, what holds for every call."""

    def path(
        self,
        values: Tensor,
        *,
        time_delta: Tensor | None = None,
        observed: Tensor | None = None,  # noqa: ARG002  every mask is covered
        valid: Tensor | None = None,  # noqa: ARG002
    ) -> str:
        """`"fused"`, or `"reference: "` and the reason."""
        return name_path(self.why_not(values, time_delta))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({name_path(self.why_not())}, {self.alphabet.config})"


def name_path(reason: str | None) -> str:
    """`"fused"`, or `"reference: "` and the reason."""
    return FUSED if reason is None else f"reference: {reason}"


def why_not_call(values: Tensor | None, time_delta: Tensor | None) -> str | None:
    """Why kernels do not cover a call, or None."""
    if time_delta is not None:
        return "time_delta is given; the kernels run on regular grids"
    if isinstance(values, Tensor) and values.dtype != torch.float32:
        return f"values is {values.dtype}; the kernels compute in torch.float32"
    return None


def why_not_model(model: Alphabet, device: str) -> str | None:
    """Why kernels for a type of device (`"cpu"`, `"cuda"`) do not cover a model, or None."""
    if model.cascaded is None or model.synthesis is None or model.config.energy_hidden is not None:
        return "the model is a structural variant, and the kernels are written for the full dataflow and affine head"
    if model.config.lags != LAGS:
        return f"lags are {model.config.lags}; the kernels are written for {LAGS}"
    modules = list_modules(model)
    for module in modules:
        if type(module) not in MODULES:
            return f"the model has a {type(module).__name__}, which may compute something else"
        if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks:
            return f"a hook is registered on the model's {type(module).__name__}; the kernels would not call it"
    if model.head.bias is None:
        return "the head has no bias"
    for tensor in list_tensors(modules):
        if tensor.dtype is not torch.float32:
            return f"the model is {tensor.dtype}; the kernels compute in torch.float32"
        if tensor.device.type != device:
            return f"the model is on {tensor.device}"
    return None


def why_not_gradients(parameters: list[nn.Parameter]) -> str | None:
    """Why kernels do not give these parameters their gradients, or None."""
    if any(p._backward_hooks or p._post_accumulate_grad_hooks for p in parameters):
        return "a gradient hook is registered on a parameter; the kernels would not call it"
    return None


def list_modules(model: nn.Module) -> list[nn.Module]:
    """`model.modules()` in a fraction of the time: this runs at every call."""
    found = [model]
    for module in found:  # which grows
        found += [child for child in module._modules.values() if child is not None]
    return found


def list_tensors(modules: list[nn.Module]) -> list[Tensor]:
    """Their parameters and buffers."""
    owned = [(module._parameters, module._buffers) for module in modules]
    return [tensor for pair in owned for tensors in pair for tensor in tensors.values() if tensor is not None]
