"""Which calls the fused kernels cover, and in words why one is not."""

from collections.abc import Iterator

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
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


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
    for module in walk_modules(model):
        if type(module) not in MODULES:
            return f"the model has a {type(module).__name__}, which may compute something else"
        if any(getattr(module, name) for name in HOOKS):
            return f"a hook is registered on the model's {type(module).__name__}; the kernels would not call it"
    if model.head.bias is None:
        return "the head has no bias"
    for tensor in walk_tensors(model):
        if tensor.dtype != torch.float32:
            return f"the model is {tensor.dtype}; the kernels compute in torch.float32"
        if tensor.device.type != "cpu":
            return f"the model is on {tensor.device}"
    return None


def walk_modules(module: nn.Module) -> Iterator[nn.Module]:
    """Like `module.modules()`, in a fraction of the time: this runs at every call."""
    yield module
    for child in module._modules.values():
        if child is not None:
            yield from walk_modules(child)


def walk_tensors(module: nn.Module) -> Iterator[Tensor]:
    """All parameters and buffers."""
    for part in walk_modules(module):
        for tensors in (part._parameters, part._buffers):
            yield from (tensor for tensor in tensors.values() if tensor is not None)
