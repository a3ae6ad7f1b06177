"""Which calls the fused kernels cover, and in words why one is not."""

from alphabet_core import Alphabet
from alphabet_core.coverage import name_path, why_not_call, why_not_model
from torch import Tensor


class Pathfinder:
    """Something that runs an `alphabet` by the kernels or by the reference, and says which."""

    alphabet: Alphabet

    def path(
        self,
        values: Tensor,
        *,
        time_delta: Tensor | None = None,
        observed: Tensor | None = None,  # noqa: ARG002  every mask is covered
        valid: Tensor | None = None,  # noqa: ARG002
    ) -> str:
        """`"fused"`, or `"reference: "` and the reason."""
        return choose_path(self.alphabet, values, time_delta)


def choose_path(model: Alphabet, values: Tensor | None = None, time_delta: Tensor | None = None) -> str:
    """`"fused"`, or `"reference: "` and the reason; without values, what holds for every call."""
    return name_path(why_not_model(model, "cpu") or why_not_call(values, time_delta))
