"""The candidate of a family that a cell compares, counted on the model itself."""

from dataclasses import asdict, dataclass
from typing import Any

from alphabet_baselines import FAMILIES, count_parameters, match_parameters

from alphabet_audit.declare.designs import ALPHABET, MATCHED, Designs


@dataclass(frozen=True)
class CellCandidate:
    """The candidate of a family that a cell compares. gap: its parameters by ALPHABET's, minus one."""

    family: str
    choice: tuple[int, ...]
    width: int
    parameters: int
    gap: float

    def to_record(self) -> dict[str, Any]:
        """The fields as the manifest holds them."""
        return {**asdict(self), "choice": list(self.choice)}


def resolve_candidate(designs: Designs, sizing: str, family: str, width: int) -> CellCandidate:
    """The candidate of a family next to an ALPHABET of that width, or ALPHABET itself.

    At ALPHABET's width it has the family's first structural choice: the smaller and faster one, harder to beat.
    """
    sizes = {"channels": designs.channels, "outputs": designs.outputs}
    target = count_parameters("alphabet", width=width, choice=(width // 4,), **sizes)
    if family == ALPHABET:
        return CellCandidate(family, (width // 4,), width, target, 0.0)
    if sizing == MATCHED:
        match = match_parameters(family, target, **sizes)
        return CellCandidate(family, match.choice, match.width, match.parameters, match.gap)
    choice = FAMILIES[family].choices[0]
    count = count_parameters(family, width=width, choice=choice, **sizes)
    return CellCandidate(family, choice, width, count, count / target - 1.0)
