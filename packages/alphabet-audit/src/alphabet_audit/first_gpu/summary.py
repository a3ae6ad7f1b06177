"""What happened and what differed: summary.md and differences.csv in the run's folder, from what the stages left."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from alphabet_audit.first_gpu.running import FAILED, INTERRUPTED, NOT_RUN, PASSED, Outcome
from alphabet_audit.first_gpu.stages import Stage

FIELDS = ("stage", "what", "tensor", "found", "expected or tolerance", "remark")
FACTOR = 2.0  # a kernel's time that is this many times off its estimate is listed
SHOWN = 40
QUOTED = 12  # lines of the log of a stage that failed

Row = tuple[str, ...]


def write_summary(outcomes: Sequence[Outcome], stages: Sequence[Stage], out: Path) -> str:
    """Write and return the summary; all that differed goes to differences.csv as well."""
    compared = list(_list_compared(out, stages))
    differences = [row for row, differs in compared if differs]
    with (out / "differences.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        writer.writerows(differences)
    found = _describe_differences(len(compared), differences)
    failed = [line for outcome in outcomes if outcome.status == FAILED for line in _quote(outcome, out)]
    text = "\n".join([*_describe(outcomes, stages), "", *found, *failed]) + "\n"
    (out / "summary.md").write_text(text, encoding="utf-8")
    return text


def _describe(outcomes: Sequence[Outcome], stages: Sequence[Stage]) -> list[str]:
    counts = {
        name: sum(outcome.status == name for outcome in outcomes) for name in (PASSED, FAILED, NOT_RUN, INTERRUPTED)
    }
    native = any(stage.needs_gpu for stage in stages)
    title = "First run on a GPU" if native else "Executed PTX in place of a GPU"
    lines = [f"# {title}", "", ", ".join(f"{count} {name}" for name, count in counts.items() if count), ""]
    lines += ["| stage | shows | outcome | seconds | why |", "|---|---|---|---|---|"]
    lines += [
        f"| {outcome.stage} | {stage.shows} | {outcome.status} | {outcome.seconds:.0f} | {outcome.reason} |"
        for outcome, stage in zip(outcomes, stages, strict=True)
    ]
    if counts[NOT_RUN]:
        lines += ["", "What was not run has shown nothing."]
    if stages and not native:
        lines += ["", "Executed PTX was compared with executed PTX: the suite runs, and of a GPU this shows nothing."]
    return lines


def _quote(outcome: Outcome, out: Path) -> list[str]:
    """The last lines of a failed stage's log."""
    try:
        lines = (out / "logs" / f"{outcome.stage}.txt").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return ["", f"The last lines of logs/{outcome.stage}.txt:", "", "```", *lines[-QUOTED:], "```"]


def _describe_differences(compared: int, differences: Sequence[Row]) -> list[str]:
    if not compared:
        return ["Nothing was compared."]
    if not differences:
        return [f"{compared} comparisons, none differs."]
    lines = [f"{compared} comparisons, {len(differences)} differ (differences.csv):", ""]
    lines += [f"| {' | '.join(FIELDS)} |", "|---|---|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in differences[:SHOWN]]
    return [*lines, *([f"... and {len(differences) - SHOWN} more"] if len(differences) > SHOWN else [])]


def _list_compared(out: Path, stages: Sequence[Stage]) -> Iterator[tuple[Row, bool]]:
    """Every comparison of the stages with whether it differs, and every kernel's time with whether it is far off."""
    for stage in stages:
        for row in _read(out / stage.name / "differences.csv"):
            found = f"{row['largest difference']}, relative {row['relative to the largest entry']}"
            line = (stage.name, row["what"], row["tensor"], found, row["tolerance"], row["verdict"])
            yield line, row["verdict"] == "DIFFERS"
    for row in _read(out / "times.csv"):
        measured, estimated = _number(row.get("us")), _number(row.get("us, estimated"))
        if measured and estimated:
            what, ratio = f"{row['kernel']} at {row['design']}, {row['phase']}", measured / estimated
            times = (f"{measured:.2f} us", f"{estimated:.2f} us, estimated", f"{ratio:.2f} times the estimate")
            yield ("times", what, "", *times), not 1 / FACTOR <= ratio <= FACTOR


def _read(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error):
        return []


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
