"""What the commands show on a terminal: a progress bar, tables and verdicts."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from alphabet_audit.declare.designs import ALPHABET, PHASES
from alphabet_audit.declare.verdicts import FAIL, NOT_RUN, PASS
from alphabet_audit.errors import escape_controls
from alphabet_audit.evidence.canonical import Record
from alphabet_audit.judge.evaluate import Evaluation
from alphabet_audit.protocol.outcomes import Outcome

MOST_REMARKS = 10
COLORS = {PASS: "green", FAIL: "bold red", NOT_RUN: "yellow"}


class ProgressScreen:
    """A bar with what is going on, how many of how many, and the times elapsed and left. unit: what is counted."""

    def __init__(self, console: Console, unit: str, total: int | None = None, what: str = "") -> None:
        self.console = console
        self._bar = Progress(
            TextColumn("{task.fields[what]}"), BarColumn(), MofNCompleteColumn(), TextColumn(f"{unit},"),
            TimeElapsedColumn(), TextColumn("elapsed,"), TimeRemainingColumn(), TextColumn("left"), console=console,
        )  # fmt: skip
        self._task = self._bar.add_task(unit, total=total, what=what)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.update(self._task, what="")
        self._bar.stop()


class LedgerScreen(ProgressScreen):
    """Shows a ledger's progress: a bar with the time left, and for each finished cell a line with both ratios."""

    def __init__(self, console: Console, titles: dict[str, str]) -> None:
        super().__init__(console, "rows")
        self.titles = {**titles, ALPHABET: "itself (noise)"}
        self._phases: dict[tuple[str, str], dict[str, str]] = {}

    def begin(self, done: list[Record], total: int) -> None:
        """Show how many rows there are, and which of them earlier sessions did."""
        self._bar.update(self._task, total=total, completed=len(done))
        for row in done:
            self._remember(row)
        if done:
            self.console.print(f"resuming: {len(done)} of {total} rows are already done", highlight=False)

    def work(self, what: str) -> None:
        """Show what is going on."""
        self._bar.update(self._task, what=what)

    def finish(self, row: Record) -> None:
        """Count a finished row; with the second phase of a cell, print the cell's line."""
        self._bar.advance(self._task)
        phases = self._remember(row)
        if len(phases) == len(PHASES):
            shown = "   ".join(f"{phase} {phases[phase]}" for phase in PHASES)
            line = f"{row['design']:27s} {self.titles[row['opponent']]:14s} {shown}"
            self.console.print(line, highlight=False, soft_wrap=True)

    def _remember(self, row: Record) -> dict[str, str]:
        """Keep a row; returns what is known of its cell, by phase."""
        phases = self._phases.setdefault((row["design"], row["opponent"]), {})
        phases[row["phase"]] = describe_row(row)
        return phases


def describe_row(row: Record) -> str:
    """A row's ratio and both times per call, the family's first, or why it was not timed."""
    if "ratio" not in row:
        return f"[red]{row['status']}[/]: {escape(escape_controls(row['error'][:90]))}"
    mine, theirs = (1e3 * row["seconds"][arm] for arm in "AB")
    return f"{row['ratio']:7.2f}x ({theirs:.2f} / {mine:.2f} ms)"


def parity_table(outcomes: list[Outcome]) -> Table:
    """A table with a line per case: the reading nearest to its limit, or why there is none."""
    table = Table(title="Parity with the reference in float64", title_justify="left", box=None, pad_edge=False)
    for name in ("gate", "runtime", "B/T/D, modes", "seed", "worst reading", "error", "limit", "verdict"):
        numeric = name in ("seed", "error", "limit")
        table.add_column(name, justify="right" if numeric else "left", no_wrap=name != "worst reading")
    for outcome in outcomes:
        case, worst, color = outcome.case, outcome.worst, COLORS[outcome.verdict]
        shown = (worst.quantity, f"{worst.error:.1e}", f"{worst.limit:.1e}") if worst else (outcome.detail, "", "")
        table.add_row(case.gate, outcome.runtime, case.shape, str(case.seed), *shown, f"[{color}]{outcome.verdict}[/]")
    return table


class ParityScreen(ProgressScreen):
    """Shows how many gates of how many are done, which was the last, and the time left."""

    def __init__(self, console: Console, total: int) -> None:
        super().__init__(console, "gates", total, "compiling kernels")

    def finish(self, outcome: Outcome) -> None:
        """Count a gate that was tried or skipped."""
        self._bar.update(self._task, advance=1, what=f"{outcome.runtime}: {outcome.case.key}: {outcome.verdict}")


def print_evaluation(
    console: Console, evaluation: Evaluation, most: int | None = None, most_remarks: int | None = MOST_REMARKS
) -> None:
    """Print an evaluation: the status first, then every reason against the run, or its results, then remarks.

    most, most_remarks: how many reasons and remarks to print; None for all
    """

    def say(text: str) -> None:
        console.print(escape_controls(text), highlight=False, markup=False)

    status = evaluation.status
    scope = f" scope={evaluation.scope}" if evaluation.kind == "ledger" else ""
    device = f" device={evaluation.device}" if evaluation.device else ""
    vectors = " vectors=avx2" if evaluation.restriction else ""
    version = f" version={evaluation.version}" if evaluation.version else ""
    rest = escape(escape_controls(f"{scope}{device}{vectors}{version}"))
    console.print(f"[{COLORS.get(status, 'yellow')}]status={status}[/]{rest}", highlight=False)
    if evaluation.counts:
        say(evaluation.describe_counts())
    if status not in (PASS, FAIL):
        say("all that was run holds, but it is only a part: status=pass needs a whole run")
    for reason in evaluation.reasons[:most]:
        say(f"  - {reason}")
    if most is not None and len(evaluation.reasons) > most:
        say(f"  and {len(evaluation.reasons) - most} more reasons: alphabet-audit evaluate lists them all")
    place = f"{evaluation.device}{evaluation.restriction}"
    if status != FAIL:  # a run that fails has no result
        for design, means in evaluation.means.items():
            shown = ", ".join(f"{phase} {means[phase]:.2f}x" for phase in PHASES if phase in means)
            say(f"{design}: geometric means {shown} ({place})")
        for phase, headline in evaluation.headlines.items():
            say(f"{phase} ({place}): {headline.describe()}")
        if evaluation.total is not None:
            say(f"both phases ({place}): {evaluation.total.describe()}")
    for remark in sorted(evaluation.remarks, key=lambda each: -each.weight)[:most_remarks]:
        say(f"worth a look: {remark.describe()}")
    if most_remarks is not None and len(evaluation.remarks) > most_remarks:
        say(f"and {len(evaluation.remarks) - most_remarks} more worth a look: the report lists them all")
