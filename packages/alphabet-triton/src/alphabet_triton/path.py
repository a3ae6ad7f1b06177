"""Which calls the kernels cover, and in words why one is not."""

import importlib.util
import os

import torch
from alphabet_core import Alphabet
from alphabet_core.head import AffineHead
from torch import Tensor

FUSED = "fused"
LAGS = (1, 2, 4)
MOST_FEATURES = 128


def interpreting() -> bool:
    """Whether Triton was told to interpret kernels, which then run on CPU tensors."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def choose_path(model: Alphabet, values: Tensor | None = None, time_delta: Tensor | None = None) -> str:
    """`"fused"`, or `"reference: "` and the reason; without values, what holds for every call."""
    reason = _model_reason(model) or _machine_reason(model)
    if reason is None and time_delta is not None:
        reason = "time_delta is given; the kernels run on regular grids"
    if reason is None and isinstance(values, Tensor) and values.dtype != torch.float32:
        reason = f"values is {values.dtype}; the kernels compute in torch.float32"
    return FUSED if reason is None else f"reference: {reason}"


def _model_reason(model: Alphabet) -> str | None:
    config = model.config
    if model.cascaded is None or model.synthesis is None or type(model.head) is not AffineHead:
        return "the model is a structural variant, and the kernels are written for the full dataflow and affine head"
    if type(model) is not Alphabet:
        return f"the model is a {type(model).__name__}, which may compute something else"
    if config.lags != LAGS:
        return f"lags are {config.lags}; the kernels are written for {LAGS}"
    if config.width > MOST_FEATURES:
        return f"width is {config.width}; a program of the kernels holds at most {MOST_FEATURES} features"
    if model.project.weight.dtype != torch.float32:
        return f"the model is {model.project.weight.dtype}; the kernels compute in torch.float32"
    return None


def _machine_reason(model: Alphabet) -> str | None:
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed; on Linux, pip install triton"
    kind = model.project.weight.device.type
    if kind != "cuda" and not (kind == "cpu" and interpreting()):
        return f"the model is on {kind}; move it to a CUDA device, model.cuda(), or set TRITON_INTERPRET=1 to interpret"
    return None
