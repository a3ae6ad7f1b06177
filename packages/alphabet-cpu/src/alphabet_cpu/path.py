"""Which calls the fused kernels cover, and in words why one is not."""

from alphabet_core import Alphabet
from alphabet_core.coverage import Pathfinder, why_not_call, why_not_model
from torch import Tensor


def why_not_fused(model: Alphabet, values: Tensor | None = None, time_delta: Tensor | None = None) -> str | None:
    """Why a call takes the reference, or None; without values, what holds for every call."""
    return why_not_model(model, "cpu") or why_not_call(values, time_delta)


class CpuPath(Pathfinder):
    """Something that runs an `alphabet` by this package's kernels or by the reference."""

    def why_not(self, values: Tensor | None = None, time_delta: Tensor | None = None) -> str | None:
        """Why a call takes the reference, or None."""
        return why_not_fused(self.alphabet, values, time_delta)
