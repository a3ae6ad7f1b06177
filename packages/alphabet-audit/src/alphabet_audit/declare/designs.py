"""The designs, cells and rows of the ledger, as designs.toml declares them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from alphabet_audit.errors import AuditError, printable

# How a design sizes its families: each at ALPHABET's parameter count, or each at ALPHABET's width.
MATCHED, SAME_WIDTH = SIZINGS = ("parameter-matched", "same-width")
INFERENCE, STEP = PHASES = ("inference", "step")
# The scope of a whole ledger, in place of a sizing or of one design.
ALL = "all"
# In the place of a family: a null row, in which ALPHABET is both arms, shows the noise of the protocol itself.
ALPHABET = "alphabet"
# The whole ledger, whatever a file of designs may say.
ALL_CELLS, ALL_ROWS, ALL_GROUPS = 90, 180, 1260
LARGEST_SIZE = 1 << 20


@dataclass(frozen=True)
class Shape:
    """A workload (B, T) and the width D of ALPHABET."""

    batch: int
    length: int
    width: int

    def __post_init__(self) -> None:
        for name, size in asdict(self).items():
            if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= LARGEST_SIZE:
                raise AuditError(f"{name} of a shape must be a positive integer; got {printable(size)}")
        if self.width % 4:
            raise AuditError(f"width of a shape must be a multiple of four, since modes = width / 4; got {self.width}")

    def __str__(self) -> str:
        return f"{self.batch}/{self.length}/{self.width}"

    @property
    def modes(self) -> int:
        """The modes M = D / 4 of each of ALPHABET's two banks."""
        return self.width // 4


@dataclass(frozen=True)
class Design:
    """A shape and how families are sized for it: one line of the paper's table, with a cell for each family."""

    sizing: str
    shape: Shape

    def __post_init__(self) -> None:
        if self.sizing not in SIZINGS:
            raise AuditError(f"a design must be one of {', '.join(SIZINGS)}; got {self.sizing!r}")

    @property
    def key(self) -> str:
        """The design's name in evidence and on the command line."""
        return f"{self.sizing} {self.shape}"


@dataclass(frozen=True)
class Row:
    """One phase of one cell: a design, a family (or ALPHABET against itself) and a phase."""

    design: Design
    family: str
    phase: str

    @property
    def key(self) -> str:
        """The row's name in evidence; the order of its blocks follows from it."""
        return f"{self.design.key} {self.family} {self.phase}"


@dataclass(frozen=True)
class Designs:
    """Everything that designs.toml declares.

    calibration: the shape at which executions are chosen; families: titles by name, in the order of the paper's table
    """

    channels: int
    outputs: int
    calibration: Shape
    families: Mapping[str, str]
    designs: tuple[Design, ...]

    def select(self, scope: str) -> tuple[Design, ...]:
        """The designs of a scope: all, those of one sizing, or the one of that key."""
        found = tuple(design for design in self.designs if scope in (ALL, design.sizing, design.key))
        if not found:
            names = ", ".join([ALL, *SIZINGS, *(repr(design.key) for design in self.designs)])
            raise AuditError(f"--row {scope!r} is not in the ledger; use one of {names}")
        return found


def read_size(fields: Mapping[str, Any], name: str) -> int:
    """A number of channels or outputs: a positive integer."""
    value = fields[name]
    if type(value) is not int or not 1 <= value <= LARGEST_SIZE:
        raise AuditError(f"{name} must be an integer from 1 to {LARGEST_SIZE}; got {printable(value)}")
    return value


def parse_designs(fields: Mapping[str, Any], source: str) -> Designs:
    """The designs that a file's fields declare; `source` names the file in errors."""
    try:
        shapes = [(sizing, Shape(*shape)) for sizing, entries in fields["shapes"].items() for shape in entries]
        designs = Designs(
            channels=read_size(fields, "channels"),
            outputs=read_size(fields, "outputs"),
            calibration=Shape(*fields["calibration"]),
            families={str(name): str(title) for name, title in fields["families"].items()},
            designs=tuple(Design(sizing, shape) for sizing, shape in shapes),
        )
    except (KeyError, TypeError, ValueError, AttributeError, AuditError) as error:
        raise AuditError(f"{source}: {type(error).__name__} {error}; compare it with the project's own file") from error
    if len(set(designs.designs)) != len(designs.designs):
        raise AuditError(f"{source}: a design is listed twice; list each once")
    if any(shape == designs.calibration for _, shape in shapes):
        raise AuditError(f"{source}: calibration {designs.calibration} is also the shape of a design; use another")
    return designs
