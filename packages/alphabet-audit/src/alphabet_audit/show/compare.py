"""`alphabet-audit compare RUN RUN ...`: what changed from one run of the ledger to the next, cell by cell."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from alphabet_audit.declare.declarations import Declarations
from alphabet_audit.declare.designs import ALPHABET
from alphabet_audit.errors import AuditError, escape_controls
from alphabet_audit.evidence.canonical import Record
from alphabet_audit.evidence.files import write_whole
from alphabet_audit.show.paper import DEVICE, read_paper
from alphabet_audit.show.report import flatten, render_page
from alphabet_audit.show.results import Results, read_results

COMPARISON_PAGE = "compare.html"


@dataclass(frozen=True)
class Step:
    """What changed in one row from one run to the next.

    before, after: its ratios, None where it was not timed; clear: whether noise does not explain the change;
    seconds: ALPHABET's times per call in both runs, None across devices
    """

    before: float | None
    after: float | None
    clear: bool
    seconds: tuple[float, float] | None

    @property
    def factor(self) -> float | None:
        """The second ratio divided by the first, or None if either is missing."""
        return self.after / self.before if self.before is not None and self.after is not None else None


@dataclass(frozen=True)
class Change:
    """One row in all runs that are compared: its ratios, and what changed from each run to the next."""

    design: str
    family: str
    phase: str
    ratios: tuple[float | None, ...]
    steps: tuple[Step, ...]

    @property
    def factor(self) -> float | None:
        """The last ratio divided by the first, or None if either is missing."""
        first, last = self.ratios[0], self.ratios[-1]
        return last / first if first is not None and last is not None else None

    @property
    def clear(self) -> bool:
        """Whether noise does not explain some change."""
        return any(step.clear for step in self.steps)


@dataclass(frozen=True)
class Comparison:
    """All rows that any run has, the runs' names, and remarks on what else differs."""

    changes: list[Change]
    names: list[str]
    remarks: list[str]
    titles: dict[str, str]


def compare_runs(folders: Sequence[Path], declarations: Declarations, *, across_devices: bool = False) -> Comparison:
    """The comparison of two or more runs, in the order of the first run and then of what only later ones have.

    Runs of different devices are refused, or with `across_devices` compared by their ratios alone.
    """
    if len(folders) < 2:
        raise AuditError("compare needs at least two runs, or one and --paper")
    runs = [read_results(folder, declarations) for folder in folders]
    devices = [name_device(run) for run in runs]
    # By kind, name and restriction apart: a device's name can end like a restriction.
    same = len({(name_device(run), run.evaluation.restriction) for run in runs}) == 1
    if not same and not across_devices:
        raise AuditError(
            f"these runs were measured on different devices: {'; '.join(dict.fromkeys(devices))}. Their times cannot "
            "be compared; --across-devices shows their ratios side by side"
        )
    keys = [key for key in dict.fromkeys(key for run in runs for key in run.rows) if key[1] != ALPHABET]
    changes = [compare_row(key, runs, same_device=same) for key in keys]
    remarks = [describe_run(name, run) for name, run in zip(name_runs(runs), runs, strict=True)]
    if not same:
        remarks.append(
            "different devices or restrictions: ratios stand side by side, times are not shown, no change is marked"
        )
    for number in range(1, len(runs)):
        remarks += remark_environment(runs[number - 1], runs[number])
    return Comparison(changes, name_runs(runs), remarks, {**declarations.designs.families})


def compare_with_paper(folder: Path, declarations: Declarations) -> Comparison:
    """A run beside the paper's table, which was measured on another device: ratios alone, nothing is marked."""
    run, paper = read_results(folder, declarations), read_paper(declarations.designs)
    keys = [key for key in run.rows if key[1] != ALPHABET]
    changes = [
        Change(*key, (published, ratio), (Step(published, ratio, False, None),))
        for key in keys
        for published, ratio in [(paper.ratio(*key), run.rows[key].get("ratio"))]
    ]
    remarks = [
        f"paper: the published table, measured on an {DEVICE}",
        describe_run("run", run),
        "different devices: ratios stand side by side, times are not shown, and no change is marked",
    ]
    names = [f"paper, {DEVICE}", f"run, {run.device}{run.evaluation.restriction}"]
    return Comparison(changes, names, remarks, {**declarations.designs.families})


def name_runs(runs: Sequence[Results]) -> list[str]:
    """Names for runs by their order and date."""
    return [f"{number}: {run.manifest['created'][:10]}" for number, run in enumerate(runs, start=1)]


def name_device(run: Results) -> str:
    """The device that was measured, by kind and name, and what its vectors were restricted to."""
    return f"{run.device}, {run.manifest['environment']['device']['name']}{run.evaluation.restriction}"


def describe_run(name: str, run: Results) -> str:
    """A run's verdict, device and beginning in one line."""
    return f"{name}: status={run.evaluation.status}, {name_device(run)}, begun {run.manifest['created']}"


def compare_row(key: tuple[str, str, str], runs: Sequence[Results], *, same_device: bool) -> Change:
    """One row in all runs, with what changed from each to the next."""
    rows = [run.rows.get(key) for run in runs]
    steps = tuple(
        compare_steps(rows[number - 1], rows[number], max(map(read_noise, runs[number - 1 : number + 1])), same_device)
        for number in range(1, len(runs))
    )
    return Change(*key, tuple(row.get("ratio") if row else None for row in rows), steps)


def compare_steps(before: Record | None, after: Record | None, noise: float, same_device: bool) -> Step:
    """The change of one row between two runs.

    Noise does not explain it where the intervals do not overlap and the factor is larger than what ALPHABET shows
    against itself in either run.
    """
    first, second = (row.get("ratio") if row else None for row in (before, after))
    if not before or not after or first is None or second is None or not same_device:
        return Step(first, second, False, None)
    apart = before["interval"][1] < after["interval"][0] or after["interval"][1] < before["interval"][0]
    clear = apart and abs(math.log(second / first)) > noise
    return Step(first, second, clear, (before["seconds"]["A"], after["seconds"]["A"]))


def read_noise(run: Results) -> float:
    """How far ALPHABET is from itself in the noisiest null row of a run, as the logarithm of a ratio."""
    return max((abs(math.log(row["ratio"])) for row in run.nulls if "ratio" in row), default=0.0)


def remark_environment(before: Results, after: Results) -> list[str]:
    """Remarks on every fact of the environment that changed, and on how many sources did."""
    old, new = (dict(flatten(run.manifest["environment"], skip=("imports",))) for run in (before, after))
    remarks = [
        f"{name}: {old.get(name, 'absent')} -> {new.get(name, 'absent')}"
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]
    sources: list[dict[str, Any]] = [run.manifest["environment"].get("imports", {}) for run in (before, after)]
    changed = sorted(name for name in {*sources[0], *sources[1]} if sources[0].get(name) != sources[1].get(name))
    if changed:
        remarks.append(f"{len(changed)} imported files differ: {', '.join(changed[:8])}{' ...' if changed[8:] else ''}")
    return remarks


def comparison_lines(comparison: Comparison) -> list[list[str]]:
    """The comparison as lines of text: design, family, phase, a ratio per run, factor, times, and a mark."""
    lines = []
    for change in comparison.changes:
        ratios = ["none" if ratio is None else f"{ratio:.2f}" for ratio in change.ratios]
        factor = "" if change.factor is None else f"{change.factor:.3f}"
        times = [step.seconds for step in change.steps if step.seconds is not None]
        shown = (
            " -> ".join(f"{1e3 * each:.2f}" for each in [times[0][0], *(after for _, after in times)]) if times else ""
        )
        family = comparison.titles.get(change.family, change.family)
        lines.append([change.design, family, change.phase, *ratios, factor, shown, "changed" if change.clear else ""])
    return lines


def comparison_heading(comparison: Comparison) -> list[str]:
    """The names of the columns of `comparison_lines`."""
    return ["design", "family", "phase", *comparison.names, "factor", "ALPHABET ms", ""]


def comparison_table(comparison: Comparison) -> Table:
    """A table with a line per row, in which changes that noise does not explain are marked."""
    table = Table(box=None, pad_edge=False, title="Ratio of the family's time to ALPHABET's", title_justify="left")
    for name in comparison_heading(comparison):
        table.add_column(name, justify="left" if name in ("design", "family", "phase", "") else "right", no_wrap=True)
    for line in comparison_lines(comparison):
        *plain, mark = map(escape_controls, line)
        table.add_row(*(entry.replace("[", "\\[") for entry in plain), f"[bold]{mark}[/]" if mark else "")
    return table


def write_comparison(comparison: Comparison, out: Path) -> Path:
    """Write a comparison as a page that needs no network into a folder; returns its path."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AuditError(f"{out} cannot be written ({error.strerror}); choose another --out") from error
    context = {
        "heading": comparison_heading(comparison),
        "lines": comparison_lines(comparison),
        "remarks": comparison.remarks,
        "changed": sum(change.clear for change in comparison.changes),
    }
    write_whole(out / COMPARISON_PAGE, render_page(COMPARISON_PAGE, context).encode())
    return out / COMPARISON_PAGE
