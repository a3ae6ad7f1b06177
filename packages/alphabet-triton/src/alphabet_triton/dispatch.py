"""Which calls the kernels cover, and in words why they do not cover a call."""

import importlib.util
import os

import torch
from alphabet_core import Alphabet
from alphabet_core.fused import FusedDispatch, call_fallback_reason, model_fallback_reason
from torch import Tensor

MOST_OUTPUTS = 65_535


def interpreting() -> bool:
    """Whether Triton interprets kernels, which then run on CPU tensors."""
    return os.environ.get("TRITON_INTERPRET") == "1"


class TritonDispatch(FusedDispatch):
    """Runs an `alphabet` by this package's kernels where they apply, and by the reference elsewhere."""

    def fallback_reason(self, values: Tensor | None = None, time_delta: Tensor | None = None) -> str | None:
        """Why the reference runs a call, or None; without values, the reason that holds for every call."""
        return fused_fallback_reason(self.alphabet) or call_fallback_reason(values, time_delta)


def fused_fallback_reason(model: Alphabet) -> str | None:
    """Why the reference runs every call of a model on this machine, or None."""
    device = model.project.weight.device
    reason = _machine_fallback_reason(device) or model_fallback_reason(model, device.type)
    if reason is None and model.config.outputs > MOST_OUTPUTS:
        reason = f"outputs are {model.config.outputs}; the head's grid has room for {MOST_OUTPUTS}"
    return reason


def _machine_fallback_reason(device: torch.device) -> str | None:
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed; on Linux, pip install triton"
    if device.type != "cuda" and not (device.type == "cpu" and interpreting()):
        return (
            f"the model is on {device.type}; move it to a CUDA device with model.cuda(), or set TRITON_INTERPRET=1 to "
            "interpret the kernels"
        )
    return None
