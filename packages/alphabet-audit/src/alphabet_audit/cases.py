"""What the gates are tried on: SPEC section 4, literally, and the same list at shapes that an interpreter can take."""

from dataclasses import asdict, dataclass
from typing import Any

from alphabet_audit.designs import Design

SEEDS = (7, 11, 19)


@dataclass(frozen=True)
class Case:
    """One gate at one size with one seed."""

    gate: str
    batch: int
    length: int
    width: int
    modes: int
    seed: int
    channels: int = 2
    outputs: int = 5

    @property
    def shape(self) -> str:
        """As the table shows it."""
        return f"{self.batch}/{self.length}/{self.width} M{self.modes}"

    @property
    def key(self) -> str:
        """Its name in the evidence."""
        return f"{self.gate} {self.shape} seed {self.seed}"

    def to_record(self) -> dict[str, Any]:
        """For the evidence."""
        return asdict(self)


def design_case(gate: str, design: Design, channels: int, outputs: int, seed: int = SEEDS[0]) -> Case:
    """A gate at the very shape that the ledger times."""
    shape = design.shape
    return Case(gate, shape.batch, shape.length, shape.width, shape.modes, seed, channels, outputs)


ANCHORS = ((32, 512, 64, 16), (64, 512, 64, 16))
PLANS: dict[str, tuple[Case, ...]] = {
    "full": (
        *(
            Case(gate, *anchor, seed)
            for gate in ("forward", "gradients", "trajectory")
            for anchor in ANCHORS
            for seed in SEEDS
        ),
        *(Case("long", 4, 2048, 64, 16, seed) for seed in SEEDS),
        *(Case("short", 4, 31, 64, 16, seed) for seed in SEEDS),
        *(Case("seven-modes", 4, 70, 24, 7, seed) for seed in SEEDS),
        *(Case("zero-drive", 3, 96, 64, 16, seed) for seed in SEEDS),
        *(Case("finite-differences", 2, 40, 16, 4, seed) for seed in SEEDS),
        *(Case("non-finite", 3, 150, 64, 16, seed) for seed in SEEDS),
        *(Case("masks", 4, 137, 64, 16, seed) for seed in SEEDS),
    ),
    "reduced": (
        *(Case(gate, 2, 40, 16, 4, 7) for gate in ("forward", "gradients", "trajectory")),
        Case("long", 1, 140, 16, 4, 7),
        Case("short", 2, 31, 16, 4, 7),
        Case("seven-modes", 2, 24, 16, 7, 7),
        Case("zero-drive", 2, 20, 16, 4, 7),
        Case("finite-differences", 1, 20, 8, 3, 7),
        Case("non-finite", 3, 20, 16, 4, 7),
        Case("masks", 2, 29, 16, 4, 7),
    ),
}
