"""The paper's ledger, which was measured on another device and is never shown without that device's name."""

import csv
import io
from dataclasses import dataclass
from importlib.resources.abc import Traversable

from alphabet_audit.declare.declarations import PACKAGE_DATA
from alphabet_audit.declare.designs import PHASES, SIZINGS, Designs
from alphabet_audit.errors import AuditError
from alphabet_audit.protocol.ratios import geometric_mean

DEVICE = "RTX 4090"
PAPER_LEDGER: Traversable = PACKAGE_DATA / "reference" / "paper_ledger.csv"
COLUMNS = dict(zip(PHASES, ("inference_speedup", "step_speedup"), strict=True))


@dataclass(frozen=True)
class Paper:
    """The paper's ratios by design key, family and phase."""

    cells: dict[tuple[str, str, str], float]

    def ratio(self, design: str, family: str, phase: str) -> float | None:
        """The paper's ratio of a row, or None if it has none."""
        return self.cells.get((design, family, phase))

    def mean(self, design: str, phase: str) -> float | None:
        """The geometric mean of a design's ratios in a phase, or None if there are none."""
        ratios = [ratio for (name, _, which), ratio in self.cells.items() if (name, which) == (design, phase)]
        return geometric_mean(ratios) if ratios else None


def read_paper(designs: Designs, path: Traversable = PAPER_LEDGER) -> Paper:
    """The paper's table, with families by their names in the designs."""
    names = {title: name for name, title in designs.families.items()}
    cells = {}
    try:
        for row in csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))):
            if row["control"] not in SIZINGS:
                raise AuditError(f"{path}: control must be one of {', '.join(SIZINGS)}; got {row['control']!r}")
            design = f"{row['control']} {row['batch']}/{row['length']}/{row['width']}"
            for phase, column in COLUMNS.items():
                cells[design, names.get(row["family"], row["family"]), phase] = float(row[column])
    except (OSError, KeyError, ValueError) as error:
        raise AuditError(f"{path} is not the paper's ledger: {error}; reinstall alphabet-audit") from error
    return Paper(cells)
