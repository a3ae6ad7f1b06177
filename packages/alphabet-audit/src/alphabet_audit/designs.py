"""The designs, cells and rows of the ledger, as audit/designs.toml declares them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from alphabet_audit.errors import AuditError

MATCHED, SAME_WIDTH = CONTROLS = ("parameter-matched", "same-width")
INFERENCE, STEP = PHASES = ("inference", "step")
# The opponent of a row in which ALPHABET is both arms: what the protocol's own noise looks like.
NULL = "alphabet"
# The whole ledger, whatever a file of designs may say.
ALL_CELLS, ALL_ROWS, ALL_GROUPS = 90, 180, 1260


@dataclass(frozen=True)
class Shape:
    """A workload (B, T) and the width D of the reference design."""

    batch: int
    length: int
    width: int

    def __post_init__(self) -> None:
        for name, size in asdict(self).items():
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise AuditError(f"{name} of a shape must be a positive integer; got {size!r}")
        if self.width % 4:
            raise AuditError(f"width of a shape must be a multiple of four, since modes = width / 4; got {self.width}")

    def __str__(self) -> str:
        return f"{self.batch}/{self.length}/{self.width}"

    @property
    def modes(self) -> int:
        """Per bank of ALPHABET."""
        return self.width // 4


@dataclass(frozen=True)
class Design:
    """One row of the paper's table: nine families at one shape under one control of capacity."""

    control: str
    shape: Shape

    def __post_init__(self) -> None:
        if self.control not in CONTROLS:
            raise AuditError(f"control of a design must be one of {', '.join(CONTROLS)}; got {self.control!r}")

    @property
    def key(self) -> str:
        """Its name in evidence and on the command line."""
        return f"{self.control} {self.shape}"


@dataclass(frozen=True)
class Row:
    """A phase row: one phase of one cell, or of ALPHABET against itself."""

    design: Design
    opponent: str
    phase: str

    @property
    def key(self) -> str:
        """Its name in the evidence, from which the seed of its orders comes."""
        return f"{self.design.key} {self.opponent} {self.phase}"


@dataclass(frozen=True)
class Designs:
    """Everything that audit/designs.toml says."""

    channels: int
    outputs: int
    calibration: Shape
    families: Mapping[str, str]
    rows: tuple[Design, ...]

    def select(self, scope: str) -> tuple[Design, ...]:
        """The designs of a scope: "all", a control, or one design's key."""
        found = tuple(design for design in self.rows if scope in ("all", design.control, design.key))
        if not found:
            names = ", ".join(["all", *CONTROLS, *(repr(design.key) for design in self.rows)])
            raise AuditError(f"--row {scope!r} is no row of the ledger; use one of {names}")
        return found


def parse_designs(fields: Mapping[str, Any], source: str) -> Designs:
    """The designs in a file's fields; `source` is its name, for errors."""
    try:
        shapes = [(control, Shape(*shape)) for control, entries in fields["shapes"].items() for shape in entries]
        designs = Designs(
            channels=int(fields["channels"]),
            outputs=int(fields["outputs"]),
            calibration=Shape(*fields["calibration"]),
            families={str(name): str(title) for name, title in fields["families"].items()},
            rows=tuple(Design(control, shape) for control, shape in shapes),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise AuditError(f"{source}: {type(error).__name__} {error}; compare it with the project's own file") from error
    if len(set(designs.rows)) != len(designs.rows):
        raise AuditError(f"{source}: a design is listed twice; each row of the ledger stands once")
    if any(shape == designs.calibration for _, shape in shapes):
        raise AuditError(f"{source}: calibration {designs.calibration} must lie off the grid of the designs")
    return designs


@dataclass(frozen=True)
class Contender:
    """The model that stands in a cell, and how far its size is from ALPHABET's."""

    family: str
    choice: tuple[int, ...]
    width: int
    parameters: int
    gap: float

    def to_record(self) -> dict[str, Any]:
        """For the manifest."""
        return {**asdict(self), "choice": list(self.choice)}


def resolve_contender(designs: Designs, control: str, family: str, width: int) -> Contender:
    """ALPHABET itself, a family at its width, or a family at its size; at ALPHABET's width, the first choice.

    The first choice is the smaller and faster one: the harder opponent.
    """
    from alphabet_baselines import FAMILIES, count_parameters, match_parameters  # which imports torch

    sizes = {"channels": designs.channels, "outputs": designs.outputs}
    target = count_parameters("alphabet", width=width, choice=(width // 4,), **sizes)
    if family == NULL:
        return Contender(family, (width // 4,), width, target, 0.0)
    if control == MATCHED:
        match = match_parameters(family, target, **sizes)
        return Contender(family, match.choice, match.width, match.parameters, match.gap)
    choice = FAMILIES[family].choices[0]
    count = count_parameters(family, width=width, choice=choice, **sizes)
    return Contender(family, choice, width, count, count / target - 1.0)
