"""Which calls the kernels cover, and in words why one is not."""

import importlib.util
import os

import torch
from alphabet_core import Alphabet
from alphabet_core.fused import FusedDispatch, call_fallback_reason, model_fallback_reason
from torch import Tensor

MOST_OUTPUTS = 65_535


def interpreting() -> bool:
    """Whether Triton was told to interpret kernels, which then run on CPU tensors."""
    return os.environ.get("TRITON_INTERPRET") == "1"


class TritonDispatch(FusedDispatch):
    """Something that runs an `alphabet` by this package's kernels or by the reference."""

    def fallback_reason(self, values: Tensor | None = None, time_delta: Tensor | None = None) -> str | None:
        """Why a call takes the reference, or None."""
        return fused_fallback_reason(self.alphabet) or call_fallback_reason(values, time_delta)


def fused_fallback_reason(model: Alphabet) -> str | None:
    """Why a model takes the reference here, or None."""
    device = model.project.weight.device
    reason = _machine_fallback_reason(device) or model_fallback_reason(model, device.type)
    if reason is None and model.config.outputs > MOST_OUTPUTS:
        reason = f"outputs are {model.config.outputs}; a grid of the head takes at most {MOST_OUTPUTS}"
    return reason


def _machine_fallback_reason(device: torch.device) -> str | None:
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed; on Linux, pip install triton"
    if device.type != "cuda" and not (device.type == "cpu" and interpreting()):
        return (
            f"the model is on {device.type}; move it to a CUDA device, model.cuda(), or set TRITON_INTERPRET=1 to "
            "interpret"
        )
    return None
