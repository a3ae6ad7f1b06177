"""Dispatch: the calls that this package's kernels cover, and in words why the reference runs the others."""

from alphabet_core import Alphabet
from alphabet_core.fused import call_fallback_reason, module_fallback_reason
from torch import Tensor


def fused_fallback_reason(model: Alphabet, values: Tensor | None = None) -> str | None:
    """Why the reference runs a call, or None; without values, the reason that holds for every call."""
    return module_fallback_reason(model, "cpu") or call_fallback_reason(values, None)
