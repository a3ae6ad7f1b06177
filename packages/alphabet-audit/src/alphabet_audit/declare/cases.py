"""What the gates are tried on: the full plan at the audit's sizes, and a reduced one that an interpreter can take."""

from dataclasses import asdict, dataclass
from typing import Any

from alphabet_audit.declare.designs import Design

SEEDS = (7, 11, 19)
# The runtimes by their names in evidence: alphabet-cpu, and alphabet-triton on a GPU or through Triton's interpreter.
CPU, NATIVE, INTERPRETED = "cpu", "triton", "triton (interpreted)"
# The runtime that a ledger times on each device.
LEDGER_RUNTIMES = {"cpu": CPU, "cuda": NATIVE}


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
        """The shape and the modes, as tables show them."""
        return f"{self.batch}/{self.length}/{self.width} M{self.modes}"

    @property
    def key(self) -> str:
        """The case's name in evidence."""
        return f"{self.gate} {self.shape} seed {self.seed}"

    def to_record(self) -> dict[str, Any]:
        """The fields as evidence holds them."""
        return asdict(self)


def design_case(gate: str, design: Design, channels: int, outputs: int, seed: int = SEEDS[0]) -> Case:
    """The case of a gate at the very shape that the ledger times."""
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


def expected_cases(device: str) -> dict[tuple[str, str], Case]:
    """Every case that a parity run on a device must record, by runtime and key.

    Without CUDA the native cases are there too, as not run, and the reduced plan runs through the interpreter.
    """
    plans = [(CPU, "full"), (NATIVE, "full"), *([] if device == "cuda" else [(INTERPRETED, "reduced")])]
    return {(name, case.key): case for name, plan in plans for case in PLANS[plan]}
