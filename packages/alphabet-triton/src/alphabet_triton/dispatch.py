"""Dispatch: the calls that this package's kernels cover, and in words why the reference runs the others."""

from alphabet_core.fused import FusedDispatch, call_fallback_reason, model_fallback_reason
from torch import Tensor

from alphabet_triton.launching import Device

MOST_OUTPUTS = 65_535


class TritonDispatch(FusedDispatch):
    """Runs an `alphabet` by this package's kernels where they apply, and by the reference elsewhere."""

    _device: Device

    def fallback_reason(self, values: Tensor | None = None, time_delta: Tensor | None = None) -> str | None:
        """Why the reference runs a call, or None; without values, the reason that holds for every call."""
        return self._lasting_fallback_reason() or call_fallback_reason(values, time_delta)

    def _lasting_fallback_reason(self) -> str | None:
        """Why the reference runs every call of this model on this device, or None."""
        model, home = self.alphabet, self.alphabet.project.weight.device
        reason = self._device.unavailable_reason(home) or model_fallback_reason(model, home.type)
        if reason is None and model.config.outputs > MOST_OUTPUTS:
            reason = f"outputs are {model.config.outputs}; the head's grid has room for {MOST_OUTPUTS}"
        return reason
