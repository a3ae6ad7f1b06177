"""The paper's ledger, which was measured on another device and is never shown without its name."""

import csv
from dataclasses import dataclass
from pathlib import Path

from alphabet_audit.designs import CONTROLS, PHASES, Designs
from alphabet_audit.errors import AuditError
from alphabet_audit.ratios import geometric_mean

DEVICE = "RTX 4090"
COLUMNS = dict(zip(PHASES, ("inference_speedup", "step_speedup"), strict=True))


@dataclass(frozen=True)
class Paper:
    """Ratios by design's key, family and phase."""

    cells: dict[tuple[str, str, str], float]

    def ratio(self, design: str, family: str, phase: str) -> float | None:
        """What the paper reports for a cell, if it has it."""
        return self.cells.get((design, family, phase))

    def mean(self, design: str, phase: str) -> float | None:
        """The geometric mean of a design, as the paper summarizes a row."""
        ratios = [ratio for (name, _, which), ratio in self.cells.items() if (name, which) == (design, phase)]
        return geometric_mean(ratios) if ratios else None


def read_paper(path: Path, designs: Designs) -> Paper:
    """The paper's table, with its families by our names."""
    names = {title: name for name, title in designs.families.items()}
    cells = {}
    try:
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                if row["control"] not in CONTROLS:
                    raise AuditError(f"{path}: control {row['control']!r} is none of {', '.join(CONTROLS)}")
                design = f"{row['control']} {row['batch']}/{row['length']}/{row['width']}"
                for phase, column in COLUMNS.items():
                    cells[design, names.get(row["family"], row["family"]), phase] = float(row[column])
    except (OSError, KeyError, ValueError) as error:
        raise AuditError(f"{path} is not the paper's ledger: {error}; restore it from the repository") from error
    return Paper(cells)
