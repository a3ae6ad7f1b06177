"""Which calls the fused kernels cover, and in words why one is not."""

from alphabet_core import Alphabet
from alphabet_core.fused import FusedDispatch, call_fallback_reason, model_fallback_reason
from torch import Tensor


def fused_fallback_reason(
    model: Alphabet, values: Tensor | None = None, time_delta: Tensor | None = None
) -> str | None:
    """Why a call takes the reference, or None; without values, what holds for every call."""
    return model_fallback_reason(model, "cpu") or call_fallback_reason(values, time_delta)


class CpuDispatch(FusedDispatch):
    """Something that runs an `alphabet` by this package's kernels or by the reference."""

    def fallback_reason(self, values: Tensor | None = None, time_delta: Tensor | None = None) -> str | None:
        """Why a call takes the reference, or None."""
        return fused_fallback_reason(self.alphabet, values, time_delta)
