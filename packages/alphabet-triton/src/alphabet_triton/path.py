"""Which calls the kernels cover, and in words why one is not."""

import importlib.util
import os

import torch
from alphabet_core import Alphabet
from alphabet_core.coverage import Pathfinder, why_not_call, why_not_model
from torch import Tensor

MOST_OUTPUTS = 65_535


def interpreting() -> bool:
    """Whether Triton was told to interpret kernels, which then run on CPU tensors."""
    return os.environ.get("TRITON_INTERPRET") == "1"


class TritonPath(Pathfinder):
    """Something that runs an `alphabet` by this package's kernels or by the reference."""

    def why_not(self, values: Tensor | None = None, time_delta: Tensor | None = None) -> str | None:
        """Why a call takes the reference, or None."""
        return why_not_fused(self.alphabet) or why_not_call(values, time_delta)


def why_not_fused(model: Alphabet) -> str | None:
    """Why a model takes the reference here, or None."""
    device = model.project.weight.device
    reason = _why_not_machine(device) or why_not_model(model, device.type)
    if reason is None and model.config.outputs > MOST_OUTPUTS:
        reason = f"outputs are {model.config.outputs}; a grid of the head takes at most {MOST_OUTPUTS}"
    return reason


def _why_not_machine(device: torch.device) -> str | None:
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed; on Linux, pip install triton"
    if device.type != "cuda" and not (device.type == "cpu" and interpreting()):
        return (
            f"the model is on {device.type}; move it to a CUDA device, model.cuda(), or set TRITON_INTERPRET=1 to "
            "interpret"
        )
    return None
