"""Whether a model's tensors lie as kernels read them: in plain memory, and in the sizes that the configuration says.

Torch broadcasts a tensor of another shape, or raises. A kernel would read what lies behind it.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from alphabet_core.frame import FixedFrame
from alphabet_core.grid import LIFT_OFFSETS
from alphabet_core.head import AffineHead
from alphabet_core.model import Alphabet

Place = tuple[nn.Module, str, tuple[int, ...]]  # a module, the name of a tensor that it owns, and its shape


def is_plain(tensor: Tensor) -> bool:
    """Whether a tensor is its memory: no subclass, neither sparse nor lazily negated."""
    return type(tensor) in {Tensor, nn.Parameter} and tensor.layout is torch.strided and not tensor.is_neg()


def layout_fallback_reason(model: Alphabet) -> str | None:
    """Why kernels that go by the configuration would misread a model of covered modules, or None."""
    config = model.config
    if (model.cascaded is not None, model.synthesis is not None) != (config.cascaded, config.synthesis):
        return "the model does not have the parts that its configuration says"
    if model.project.bias is not None:
        return "the projection has a bias; the kernels add none"
    for module, name, shape in list_places(model):
        kind, owned = type(module).__name__, module._parameters.get(name, module._buffers.get(name))
        if owned is None or name in vars(module):
            return f"{name} of the model's {kind} is no parameter or buffer; the kernels would not see it change"
        if owned.shape != shape:
            return f"{name} of the model's {kind} is {tuple(owned.shape)}, and the kernels are for {shape}"
    return None


def list_places(model: Alphabet) -> Iterator[Place]:
    """Where kernels look for tensors, and of which shapes; the head may have any number of outputs."""
    config, head = model.config, model.head
    width, modes = (config.width,), (config.modes,)
    yield model.project, "weight", (config.width, config.channels)
    for bank in model.banks():
        yield bank.lift, "kernel", (config.width, len(LIFT_OFFSETS))
        yield bank.lift, "bias", width
        yield bank.norm, "gain", width
        yield bank.poles, "raw_decay", modes
        yield bank.poles, "raw_frequency", modes
        if isinstance(bank.frame, FixedFrame):
            yield bank.frame, "columns_matrix", (config.width, 2 * config.modes)
        else:
            yield bank.frame, "base", (config.width, config.width)
            yield bank.frame, "tangent", (config.width, 2 * config.modes)
    if model.synthesis is not None:
        yield model.synthesis, "scale", width
        yield model.synthesis, "feedthrough", width
    if isinstance(head, AffineHead):
        outputs = head.bias.numel()
        yield head, "weight", (outputs, config.banks * config.modes * config.coordinates)
        yield head, "bias", (outputs,)
