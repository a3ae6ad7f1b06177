"""Which calls the fused kernels cover, and in words why one is not."""

import torch
from alphabet_core import Alphabet, AlphabetError
from alphabet_core.frame import FixedFrame, Frame
from alphabet_core.head import AffineHead
from alphabet_core.lift import Lift
from alphabet_core.model import Bank, Synthesis
from alphabet_core.norm import RMSNorm
from alphabet_core.poles import Poles
from torch import Tensor, nn

FUSED = "fused"
LAGS = (1, 2, 4)
# What the kernels compute in place of. A subclass, or a parametrized module, may compute something else.
MODULES = {Alphabet, nn.Linear, Bank, Lift, RMSNorm, Frame, FixedFrame, Poles, Synthesis, AffineHead}


def require_alphabet(model: object) -> Alphabet:
    """The model, if it is one."""
    if not isinstance(model, Alphabet):
        raise AlphabetError(f"model must be an Alphabet; got {type(model).__name__}")
    return model


class Pathfinder:
    """Something that runs an `alphabet` by the kernels or by the reference, and says which."""

    alphabet: Alphabet

    def path(
        self,
        values: Tensor,
        *,
        time_delta: Tensor | None = None,
        observed: Tensor | None = None,  # noqa: ARG002  every mask is covered
        valid: Tensor | None = None,  # noqa: ARG002
    ) -> str:
        """`"fused"`, or `"reference: "` and the reason."""
        return choose_path(self.alphabet, values, time_delta)


def choose_path(model: Alphabet, values: Tensor | None = None, time_delta: Tensor | None = None) -> str:
    """`"fused"`, or `"reference: "` and the reason; without values, what holds for every call."""
    reason = _model_reason(model)
    if reason is None and time_delta is not None:
        reason = "time_delta is given; the kernels run on regular grids"
    if reason is None and isinstance(values, Tensor) and values.dtype != torch.float32:
        reason = f"values is {values.dtype}; the kernels compute in torch.float32"
    return FUSED if reason is None else f"reference: {reason}"


def _model_reason(model: Alphabet) -> str | None:
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
        if not tensor.is_cpu:
            return f"the model is on {tensor.device}"
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
