"""Examples: sequences with their targets and side inputs, kept together so that rows are never mispaired."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from alphabet_core.sequence import check_lengths


@dataclass(frozen=True)
class Examples:
    """N sequences with their targets: class indices (N,), or floating point (N, K) for several labels or forecasts.

    values (N, T, C); time_delta (N, T), observed (N, T, C) or (N, T) and valid (N, T) as a model takes them, or None.
    """

    values: Tensor
    targets: Tensor
    time_delta: Tensor | None = None
    observed: Tensor | None = None
    valid: Tensor | None = None

    def __post_init__(self) -> None:
        check_lengths(self.values, targets=self.targets, **self.side_inputs())

    def __len__(self) -> int:
        return self.values.shape[0]

    def side_inputs(self) -> dict[str, Tensor]:
        """What a model is given beside the values, by the names of its arguments."""
        given = {"time_delta": self.time_delta, "observed": self.observed, "valid": self.valid}
        return {name: tensor for name, tensor in given.items() if tensor is not None}

    def take(self, rows: Tensor | slice) -> "Examples":
        """The examples of these rows: an index tensor, a mask (N,) or a slice."""
        return self._map(lambda tensor: tensor[rows])

    def to(self, device: str) -> "Examples":
        """The examples on a device such as "cuda"."""
        return self._map(lambda tensor: tensor.to(device))

    def _map(self, change: Callable[[Tensor], Tensor]) -> "Examples":
        tensors = {"values": self.values, "targets": self.targets, **self.side_inputs()}
        return replace(self, **{name: change(tensor) for name, tensor in tensors.items()})
