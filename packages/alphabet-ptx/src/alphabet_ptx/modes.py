"""What a launch may choose where PTX leaves several results open."""

from dataclasses import dataclass

import numpy as np

from alphabet_ptx.errors import PtxError

ORDERS = ("ascending", "descending")
ROUNDINGS = ("ideal", "worst")


@dataclass(frozen=True)
class Mode:
    """How a launch is executed: the order of programs, warps and threads (see `orders`), and the rounding.

    `rounding` "ideal" rounds approximate instructions and the sums of tensor cores once and to the nearest. "worst"
    makes approximate instructions as wrong as the manual allows, in directions that `seed` decides (see
    `approximations`), and truncates the sums of tensor cores as GPUs do (see `tensorcores`).
    """

    order: str | int = "ascending"
    rounding: str = "ideal"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.order not in ORDERS and not _is_seed(self.order):
            raise PtxError(f"order must be 'ascending', 'descending' or a seed, an integer from 0; got {self.order!r}")
        if self.rounding not in ROUNDINGS:
            raise PtxError(f"rounding must be 'ideal' or 'worst'; got {self.rounding!r}")
        if not _is_seed(self.seed):
            raise PtxError(f"seed must be an integer from 0; got {self.seed!r}")

    @property
    def lockstep(self) -> bool:
        """Whether programs and threads run in the usual order."""
        return self.order == "ascending"

    @property
    def pessimistic(self) -> bool:
        """Whether results are as wrong as they may be."""
        return self.rounding == "worst"


def _is_seed(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 0


USUAL = Mode()
