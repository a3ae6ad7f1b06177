"""Dispatch: the calls that a fused runtime covers; the reference runs the others, and the reason is given in words."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from itertools import chain
from operator import attrgetter

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from alphabet_core.config import AlphabetConfig
from alphabet_core.frame import FixedFrame, Frame
from alphabet_core.head import AffineHead, EnergyHead
from alphabet_core.lift import Lift
from alphabet_core.model import Alphabet, Bank, Synthesis
from alphabet_core.norm import RMSNorm
from alphabet_core.poles import Poles
from alphabet_core.scan import SCANS

FUSED = "fused"
# The lags that fused kernels are written for, and the moments per pole that follow: an energy, two parts per lag.
LAGS = (1, 2, 4)
MOMENTS = 1 + 2 * len(LAGS)
# The module types that fused kernels stand in for. A subclass, or a parametrized module, may compute something else.
COVERED_MODULES = {
    Alphabet, nn.Linear, Bank, Lift, RMSNorm, Frame, FixedFrame, Poles, Synthesis, AffineHead, EnergyHead,
}  # fmt: skip

# What `torch.nn.modules.module.register_module_..._hook` fills, for every module of the process.
GLOBAL_HOOKS = (
    torch_module._global_forward_hooks,
    torch_module._global_forward_pre_hooks,
    torch_module._global_backward_hooks,
    torch_module._global_backward_pre_hooks,
)
_read_gradient_hooks = attrgetter("_backward_hooks", "_post_accumulate_grad_hooks")


class FusedDispatch(ABC):
    """What runs its `alphabet` by fused kernels where they apply and by the reference elsewhere, and says which."""

    alphabet: Alphabet

    @abstractmethod
    def fallback_reason(self, values: Tensor | None = None, time_delta: Tensor | None = None) -> str | None:
        """Why the reference runs a call, or None; without values, the reason that holds for every call."""

    def path(
        self,
        values: Tensor,
        *,
        time_delta: Tensor | None = None,
        observed: Tensor | None = None,  # noqa: ARG002  every mask is covered
        valid: Tensor | None = None,  # noqa: ARG002
    ) -> str:
        """The implementation that a call takes: `"fused"`, or `"reference: "` and the reason."""
        return describe_path(self.fallback_reason(values, time_delta))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({describe_path(self.fallback_reason())}, {self.alphabet.config})"


def describe_path(reason: str | None) -> str:
    """The name of a path: `"fused"` without a reason to fall back, else `"reference: "` and the reason."""
    return FUSED if reason is None else f"reference: {reason}"


def describe_function(function: object) -> str:
    """A function's name, or what stands for one that has none."""
    return getattr(function, "__name__", repr(function))


def call_fallback_reason(values: Tensor | None, time_delta: Tensor | None) -> str | None:
    """Why fused kernels do not cover a call's inputs, or None."""
    if time_delta is not None:
        return "time_delta is given; the kernels run on regular grids"
    if isinstance(values, Tensor) and values.dtype != torch.float32:
        return f"values is {values.dtype}; the kernels compute in torch.float32"
    return None


def structure_fallback_reason(model: Alphabet) -> str | None:
    """Why kernels that are written for the full dataflow, the affine head and `LAGS` do not cover a model, or None."""
    if model.cascaded is None or model.synthesis is None or model.config.energy_hidden is not None:
        return "the model is a structural variant, and the kernels are written for the full dataflow and affine head"
    if model.config.lags != LAGS:
        return f"lags are {model.config.lags}; the kernels are written for {LAGS}"
    return None


def model_fallback_reason(model: Alphabet, device: str) -> str | None:
    """Why fused kernels for a type of device (`"cpu"`, `"cuda"`), one structure and `LAGS` do not cover a model."""
    return structure_fallback_reason(model) or module_fallback_reason(model, device)


def module_fallback_reason(model: Alphabet, device: str) -> str | None:
    """Why fused kernels for a type of device and every structure and lag do not cover a model, or None."""
    if model.scan not in SCANS.values():
        return f"the model's scan is {describe_function(model.scan)}, which may compute something else"
    if any(hooks for hooks in GLOBAL_HOOKS):
        return "a hook is registered on all modules; the kernels would not call it"
    modules = list_modules(model)
    for module in modules:
        if type(module) not in COVERED_MODULES:
            return f"the model has a {type(module).__name__}, which may compute something else"
        if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks:
            return f"a hook is registered on the model's {type(module).__name__}; the kernels would not call it"
        if "forward" in module.__dict__:
            return f"forward of the model's {type(module).__name__} is replaced; the kernels would not call it"
    if any(module.bias is None for module in list_modules(model.head) if isinstance(module, nn.Linear)):
        return "the head has no bias"
    if isinstance(model.head, EnergyHead) != (model.config.energy_hidden is not None):
        return f"the head is {type(model.head).__name__}, which is not what the configuration says"
    reason = shape_fallback_reason(model)
    if reason is not None:
        return reason
    for tensor in list_tensors(modules):
        if tensor.dtype is not torch.float32:
            return f"the model is {tensor.dtype}; the kernels compute in torch.float32"
        if tensor.device.type != device:
            return f"the model is on {tensor.device}"
    return None


def shape_fallback_reason(model: Alphabet) -> str | None:
    """Why a model's parameters and buffers are not those that kernels read by the configuration's sizes, or None.

    Torch broadcasts what is too small and adds a bias that was put in; the head alone may have other outputs.
    """
    wanted = list_shapes(model.config)
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if name not in wanted:
            return f"the model has {name}, which its configuration does not know"
        shape = wanted[name]
        if isinstance(model.head, nn.Linear) and name in ("head.weight", "head.bias"):
            shape = (len(model.head.weight), *shape[1:])
        if tuple(tensor.shape) != shape:
            return f"{name} has shape {tuple(tensor.shape)}; the kernels read {shape}"
    return None


@cache
def list_shapes(config: AlphabetConfig) -> Mapping[str, tuple[int, ...]]:
    """The shapes of all parameters and buffers of a model, by name, as its configuration has them."""
    with torch.device("meta"):
        model = Alphabet(config)
    return {name: tuple(tensor.shape) for name, tensor in (*model.named_parameters(), *model.named_buffers())}


def gradient_fallback_reason(parameters: list[nn.Parameter]) -> str | None:
    """Why fused kernels may not compute these parameters' gradients, or None."""
    if any(chain.from_iterable(map(_read_gradient_hooks, parameters))):
        return "a gradient hook is registered on a parameter; the kernels would not call it"
    return None


def list_modules(model: nn.Module) -> list[nn.Module]:
    """All modules of a model, as `model.modules()` lists them, in a fraction of the time: this runs at every call."""
    found = [model]
    for module in found:  # which grows
        found += [child for child in module._modules.values() if child is not None]
    return found


def list_tensors(modules: list[nn.Module]) -> list[Tensor]:
    """The parameters and buffers that these modules own themselves."""
    owned = [(module._parameters, module._buffers) for module in modules]
    return [tensor for pair in owned for tensors in pair for tensor in tensors.values() if tensor is not None]
