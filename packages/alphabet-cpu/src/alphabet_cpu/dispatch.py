"""Dispatch: the calls that this package's kernels cover, and in words why the reference runs the others."""

from typing import Any, NamedTuple

import numpy as np
from alphabet_core import Alphabet
from alphabet_core.fused import FusedDispatch, ModelWatch, call_fallback_reason, module_fallback_reason
from torch import Tensor

from alphabet_cpu.kernels.layout import Integers


class Finding(NamedTuple):
    """What a look at a model found, which holds as long as its watch sees no change.

    reason: why the reference runs every call, or None
    table (tensors, 2): where parameters and buffers lie, and how many numbers each has; None if one is not contiguous
    """

    watch: ModelWatch
    reason: str | None
    table: Integers | None


# What an object has found out about the very model that it has, which a copy of both finds out again.
OWN_FINDINGS = {"_finding", "_folded", "_folding", "_frames"}


class CpuDispatch(FusedDispatch):
    """Runs an `alphabet` by this package's kernels where they apply, and by the reference elsewhere."""

    _finding: Finding | None = None

    def look(self) -> Finding:
        """What is to be known of the model as it is now."""
        found = self._finding
        if found is None or found.watch.model is not self.alphabet or not found.watch.unchanged():
            found = self._finding = look_at(self.alphabet)
        return found

    def fallback_reason(
        self,
        values: Tensor | None = None,
        time_delta: Tensor | None = None,  # noqa: ARG002  every grid is covered
    ) -> str | None:
        """Why the reference runs a call, or None; without values, the reason that holds for every call."""
        return self.look().reason or call_fallback_reason(values, None)

    def __getstate__(self) -> dict[str, Any]:
        """What a copy is made from: all but what was found out about a model that the copy will not have."""
        return {name: value for name, value in vars(self).items() if name not in OWN_FINDINGS}


def look_at(model: Alphabet) -> Finding:
    """What is to be known of a model; the watch comes first, so that it sees what changes meanwhile."""
    watch = ModelWatch(model)
    reason, table = fused_fallback_reason(model), None
    if reason is None and all(tensor.is_contiguous() for tensor in watch.tensors):
        table = np.array([(place, tensor.numel()) for place, tensor in zip(watch.places, watch.tensors, strict=True)])
    return Finding(watch, reason, table)


def fused_fallback_reason(model: Alphabet, values: Tensor | None = None) -> str | None:
    """Why the reference runs a call, or None; without values, the reason that holds for every call."""
    return module_fallback_reason(model, "cpu") or call_fallback_reason(values, None)
