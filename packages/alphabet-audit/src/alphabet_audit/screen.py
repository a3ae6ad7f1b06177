"""What the commands show: tables, a progress bar, verdicts."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from alphabet_audit.designs import NULL, PHASES
from alphabet_audit.evaluate import FAIL, PASS, Evaluation
from alphabet_audit.evidence import Record
from alphabet_audit.outcomes import Outcome
from alphabet_audit.tolerances import NOT_RUN

COLORS = {PASS: "green", FAIL: "bold red", NOT_RUN: "yellow"}


class LedgerScreen:
    """A bar with the time left, and a line per finished cell: both phases' ratios."""

    def __init__(self, console: Console, titles: dict[str, str]) -> None:
        self.console = console
        self.titles = {**titles, NULL: "itself (noise)"}
        self._phases: dict[tuple[str, str], dict[str, str]] = {}
        self._bar = Progress(
            TextColumn("{task.fields[what]}"), BarColumn(), MofNCompleteColumn(), TextColumn("rows,"),
            TimeElapsedColumn(), TextColumn("gone,"), TimeRemainingColumn(), TextColumn("left"), console=console,
        )  # fmt: skip
        self._task = self._bar.add_task("rows", total=None, what="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.update(self._task, what="")
        self._bar.stop()

    def begin(self, done: list[Record], total: int) -> None:
        """How much there is, and what of it an earlier session did."""
        self._bar.update(self._task, total=total, completed=len(done))
        for row in done:
            self._remember(row)
        if done:
            self.console.print(f"resumed: {len(done)} of {total} rows are done", highlight=False)

    def work(self, what: str) -> None:
        """What is going on."""
        self._bar.update(self._task, what=what)

    def finish(self, row: Record) -> None:
        """One row more; with the second phase of a cell, its line."""
        self._bar.advance(self._task)
        phases = self._remember(row)
        if len(phases) == len(PHASES):
            shown = "   ".join(f"{phase} {phases[phase]}" for phase in PHASES)
            line = f"{row['design']:27s} {self.titles[row['opponent']]:14s} {shown}"
            self.console.print(line, highlight=False, soft_wrap=True)

    def _remember(self, row: Record) -> dict[str, str]:
        """What is known of the row's cell, phase by phase."""
        phases = self._phases.setdefault((row["design"], row["opponent"]), {})
        phases[row["phase"]] = describe_row(row)
        return phases


def describe_row(row: Record) -> str:
    """The ratio and both times, or why there are none."""
    if "ratio" not in row:
        return f"[red]{row['status']}[/]: {escape(row['error'][:90])}"
    mine, theirs = (1e3 * row["seconds"][arm] for arm in "AB")
    return f"{row['ratio']:7.2f}x ({theirs:.2f} / {mine:.2f} ms)"


def parity_table(outcomes: list[Outcome]) -> Table:
    """One line per case: the reading nearest to its limit, or why there is none."""
    table = Table(title="Parity with the reference in float64", title_justify="left", box=None, pad_edge=False)
    for name in ("gate", "runtime", "B/T/D, modes", "seed", "worst reading", "error", "limit", "verdict"):
        numeric = name in ("seed", "error", "limit")
        table.add_column(name, justify="right" if numeric else "left", no_wrap=name != "worst reading")
    for outcome in outcomes:
        case, worst, color = outcome.case, outcome.worst, COLORS[outcome.verdict]
        shown = (worst.quantity, f"{worst.error:.1e}", f"{worst.limit:.1e}") if worst else (outcome.detail, "", "")
        table.add_row(case.gate, outcome.runtime, case.shape, str(case.seed), *shown, f"[{color}]{outcome.verdict}[/]")
    return table


def print_evaluation(console: Console, evaluation: Evaluation, most: int | None = None) -> None:
    """The status first, then every reason, or what the run says."""
    status = evaluation.status
    scope = f" scope={evaluation.scope}" if evaluation.kind == "ledger" else ""
    device = f" device={evaluation.device}" if evaluation.device else ""
    console.print(f"[{COLORS.get(status, 'yellow')}]status={status}[/]{scope}{device}", highlight=False)
    if evaluation.counts:
        console.print(", ".join(f"{count:,} {name}" for name, count in evaluation.counts.items()), highlight=False)
    if status not in (PASS, FAIL):
        console.print("a part that holds; only a whole run can be status=pass", highlight=False)
    for reason in evaluation.reasons[:most]:
        console.print(f"  - {reason}", highlight=False, markup=False)
    for design, means in evaluation.means.items() if status != FAIL else ():  # what fails is no result
        shown = ", ".join(f"{phase} {means[phase]:.2f}x" for phase in PHASES if phase in means)
        console.print(f"{design}: geometric means {shown} ({evaluation.device})", highlight=False)
