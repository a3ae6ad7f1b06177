"""The command: `alphabet-audit parity | ledger | evaluate | report | compare`."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from alphabet_audit.declarations import find_audit, read_declarations
from alphabet_audit.errors import AuditError
from alphabet_audit.evaluate import FAIL, PARTIAL, PASS, evaluate
from alphabet_audit.evidence import Evidence
from alphabet_audit.screen import LedgerScreen, parity_table, print_evaluation

# Neither 0 nor 1: a part that holds is no pass, and a mistake in the command is no verdict.
EXIT_CODES = {PASS: 0, FAIL: 1, PARTIAL: 3}
MISTAKE, INTERRUPTED = 2, 130
RUNS = Path("audit-runs")
TABLE_WIDTH = 130
HELP = "ALPHABET's systems audit: is a fast runtime right, and how fast is it? Every claim with its evidence."

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=HELP)
Audit = Annotated[Path | None, typer.Option("--audit", help="Folder of designs.toml and tolerances.toml.")]
Out = Annotated[Path | None, typer.Option("--out", help="Folder of the run; by default one under audit-runs/.")]
Run = Annotated[Path, typer.Argument(help="Folder of a run.")]


@app.command()
def parity(audit: Audit = None, out: Out = None) -> None:
    """Every gate for every runtime on this machine; the exit code is the verdict."""
    from alphabet_audit.environment import describe_environment, require_plain_float32
    from alphabet_audit.manifest import make_manifest
    from alphabet_audit.parity import judge_outcomes, record_parity, run_parity
    from alphabet_audit.runtimes import choose_device

    console, folder = wide_console(), find_audit(audit)
    declarations, device = read_declarations(folder), choose_device(None)
    require_plain_float32()
    manifest = make_manifest("parity", device, describe_environment(device), declarations)
    out = out or RUNS / f"parity-{manifest['created'].replace(':', '')}"
    with (
        Evidence(out, manifest, declarations.contents) as evidence,
        console.status("the first call compiles") as status,
    ):
        outcomes = record_parity(
            run_parity(declarations, folder),
            evidence,
            lambda outcome: status.update(f"{outcome.runtime}: {outcome.case.key}: {outcome.verdict}"),
        )
    console.print(parity_table(outcomes))
    counts = {name: sum(outcome.verdict == name for outcome in outcomes) for name in ("pass", "fail", "not-run")}
    console.print(", ".join(f"{count} {name}" for name, count in counts.items()), highlight=False)
    for reason in sorted({f"{o.runtime}: {o.detail}" for o in outcomes if o.verdict == "not-run"}):
        console.print(f"not run, and not passed: {reason}", highlight=False)
    console.print(f"evidence: {out}", highlight=False)
    raise typer.Exit(0 if judge_outcomes(outcomes) else 1)


@app.command()
def ledger(
    row: Annotated[str, typer.Option(help="all, same-width, parameter-matched, or one design.")] = "all",
    device: Annotated[str | None, typer.Option(help="cpu or cuda; by default cuda where there is one.")] = None,
    compiled: Annotated[bool, typer.Option("--compiled", help="On a CPU, try torch.compile too: slow.")] = False,
    audit: Audit = None,
    out: Out = None,
) -> None:
    """Time ALPHABET against the nine families. Stop it whenever you like: the same command resumes."""
    from alphabet_audit.arms import Bench
    from alphabet_audit.clock import CudaClock, MonotonicClock
    from alphabet_audit.environment import describe_environment, read_state, require_plain_float32
    from alphabet_audit.ledger import Ledger
    from alphabet_audit.manifest import make_manifest
    from alphabet_audit.plan import Plan
    from alphabet_audit.runtimes import choose_device, ledger_runtime

    console, declarations = Console(), read_declarations(find_audit(audit))
    device = choose_device(device)
    plan = Plan(row, declarations)
    out = out or RUNS / f"ledger-{device}-{row.replace(' ', '-').replace('/', 'x')}"
    bench = Bench(declarations, ledger_runtime(device), compiled=compiled)
    require_plain_float32()
    console.print(f"{len(plan.rows)} rows on {device}, evidence in {out}", highlight=False)
    with console.status("counting parameters"):
        cells = bench.describe_cells(plan.designs)
    manifest = make_manifest(
        "ledger", device, describe_environment(device), declarations,
        plan=plan.to_record(), cells=cells, compiled=compiled,
    )  # fmt: skip
    clock = CudaClock() if device == "cuda" else MonotonicClock()
    with (
        Evidence(out, manifest, declarations.contents) as evidence,
        LedgerScreen(console, dict(declarations.designs.families)) as screen,
    ):
        try:
            Ledger(plan, bench, clock, evidence, screen).run(read_state(device))
        except KeyboardInterrupt:
            console.print("interrupted; nothing is lost: the same command resumes")
            raise typer.Exit(INTERRUPTED) from None
    evaluation = evaluate(out, declarations)
    print_evaluation(console, evaluation, most=20)
    raise typer.Exit(1 if evaluation.status == FAIL else 0)


@app.command(name="evaluate")
def evaluate_run(run: Run, audit: Audit = None) -> None:
    """Judge a run by its evidence alone: status=pass, or every reason why not."""
    evaluation = evaluate(run, read_declarations(find_audit(audit)))
    print_evaluation(Console(soft_wrap=True), evaluation)
    raise typer.Exit(EXIT_CODES[evaluation.status])


@app.command()
def report(run: Run, audit: Audit = None, out: Out = None) -> None:
    """Write a run's page: report.html and report.md, in the run's folder or in --out."""
    from alphabet_audit.report import write_report

    folder = find_audit(audit)
    for path in write_report(run, read_declarations(folder), folder / "reference" / "paper_ledger.csv", out or run):
        print(path)


@app.command()
def compare(first: Run, second: Run, audit: Audit = None) -> None:
    """What changed from one run to another."""
    from alphabet_audit.compare import compare_runs, comparison_table

    comparison = compare_runs(first, second, read_declarations(find_audit(audit)))
    console = wide_console()
    for line in comparison.remarks:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    console.print(comparison_table(comparison))


def wide_console() -> Console:
    """As wide as a table needs where nobody said how wide the screen is."""
    console = Console()
    return console if console.is_terminal else Console(width=TABLE_WIDTH)


def main() -> None:
    """Run the command; a mistake is explained in one line."""
    try:
        app()
    except AuditError as error:
        print(f"alphabet-audit: {error}", file=sys.stderr)
        sys.exit(MISTAKE)
