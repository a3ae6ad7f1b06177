"""The closed form's recipe: every number that was chosen, in one place, and the digest under which it was frozen.

docs/learn.md says how each was chosen: on a design half of the tasks, confirmed once on the other half.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Literal

Kind = Literal["values", "changes", "averages"]


@dataclass(frozen=True)
class View:
    """One way to look at a series: as it is, its changes from token to token, or averages of `span` tokens."""

    kind: Kind
    span: int = 1

    @property
    def name(self) -> str:
        """What users see."""
        return self.kind if self.span == 1 else f"{self.kind} of {self.span}"


@dataclass(frozen=True)
class Recipe:
    """How random banks are drawn.

    views, banks_per_view: each view of a series has so many banks of its own
    modes: poles per bank; each is driven by two features of its own
    most_channels: that a feature reads, with random weights; how many, up to that, is logarithmically uniform
    gain: of both norms; large, so that the logarithm of an energy is taken where it is steep
    synthesis: how much of a bank's states and of its normed features the cascaded bank reads
    sharpness: the range of a filtered signal's deviation in front of its SiLU, from nearly linear to nearly a switch
    highest_frequency: in units of pi per token; the lowest is one half turn in the longest series
    penalties: exponents of ten, lowest and highest, and how many there are
    """

    views: tuple[View, ...] = (View("values"), View("changes"), View("averages", 2), View("averages", 4))
    banks_per_view: int = 6
    modes: int = 32
    most_channels: int = 9
    gain: float = 30.0
    synthesis: float = 0.5
    sharpness: tuple[float, float] = (0.5, 10.0)
    highest_frequency: float = 0.95
    penalties: tuple[float, float, int] = (-3.0, 5.0, 17)

    def digest(self) -> str:
        """The SHA-256 of all numbers above."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


RECIPE = Recipe()
