"""The console command `alphabet-audit parity | ledger | evaluate | report | compare`."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from alphabet_audit.declare.declarations import read_declarations
from alphabet_audit.declare.designs import ALL
from alphabet_audit.declare.verdicts import FAIL, NOT_RUN, PARTIAL, PASS
from alphabet_audit.errors import AuditError
from alphabet_audit.evidence.store import Evidence
from alphabet_audit.judge.evaluate import evaluate
from alphabet_audit.show.screen import LedgerScreen, parity_table, print_evaluation

# A part that holds is neither a pass nor a failure, and a mistake in the command is no verdict at all.
EXIT_CODES = {PASS: 0, FAIL: 1, PARTIAL: 3}
MISTAKE, INTERRUPTED = 2, 130
RUNS = Path("audit-runs")
TABLE_WIDTH = 130
HELP = "ALPHABET's systems audit: is a fast runtime right, and how fast is it? Every answer comes with its evidence."

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=HELP)
AUDIT_HELP = "Folder with designs.toml and tolerances.toml, in place of the package's own."
OUT_HELP = "Folder to write to; by default one under audit-runs/, or for a report the run's own."
ROW_HELP = "all, same-width, parameter-matched, or one design such as 'same-width 32/512/64'."
Audit = Annotated[Path | None, typer.Option("--audit", help=AUDIT_HELP)]
Out = Annotated[Path | None, typer.Option("--out", help=OUT_HELP)]
Run = Annotated[Path, typer.Argument(help="Folder of a run.")]


@app.command()
def parity(audit: Audit = None, out: Out = None) -> None:
    """Try every gate on every runtime that this machine can run; the exit code is the verdict."""
    from alphabet_audit.gates.runtimes import choose_device
    from alphabet_audit.measure.environment import describe_environment, require_plain_float32
    from alphabet_audit.measure.manifest import make_manifest
    from alphabet_audit.measure.parity import judge_outcomes, record_parity, run_parity

    console = wide_console()
    declarations, device = read_declarations(audit), choose_device(None)
    require_plain_float32()
    environment = describe_environment(device)
    warn_without_commit(console, environment)
    manifest = make_manifest("parity", device, environment, declarations)
    out = out or RUNS / f"parity-{manifest['created'].replace(':', '')}"
    with (
        Evidence(out, manifest, declarations.contents) as evidence,
        console.status("compiling kernels") as status,
    ):
        outcomes = record_parity(
            run_parity(declarations, audit),
            evidence,
            lambda outcome: status.update(f"{outcome.runtime}: {outcome.case.key}: {outcome.verdict}"),
        )
    console.print(parity_table(outcomes))
    counts = {name: sum(outcome.verdict == name for outcome in outcomes) for name in (PASS, FAIL, NOT_RUN)}
    console.print(", ".join(f"{count} {name}" for name, count in counts.items()), highlight=False)
    for reason in sorted({f"{o.runtime}: {o.detail}" for o in outcomes if o.verdict == NOT_RUN}):
        console.print(f"not run, which is not a pass: {reason}", highlight=False)
    console.print(f"evidence: {out}", highlight=False)
    raise typer.Exit(0 if judge_outcomes(outcomes) else 1)


@app.command()
def ledger(
    row: Annotated[str, typer.Option(help=ROW_HELP)] = ALL,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; by default cuda if there is a device.")] = None,
    compiled: Annotated[
        bool, typer.Option("--compiled", help="Try torch.compile on a CPU too, which is slow.")
    ] = False,
    audit: Audit = None,
    out: Out = None,
) -> None:
    """Time ALPHABET against the nine families. It can be interrupted at any time: the same command resumes."""
    from alphabet_audit.gates.runtimes import choose_device, ledger_runtime
    from alphabet_audit.measure.clock import CudaClock, MonotonicClock
    from alphabet_audit.measure.device_bench import DeviceBench
    from alphabet_audit.measure.environment import describe_environment, read_state, require_plain_float32
    from alphabet_audit.measure.ledger import Ledger
    from alphabet_audit.measure.manifest import make_manifest
    from alphabet_audit.protocol.plan import Plan

    console, declarations = Console(), read_declarations(audit)
    device = choose_device(device)
    plan = Plan(row, declarations)
    out = out or RUNS / f"ledger-{device}-{row.replace(' ', '-').replace('/', 'x')}"
    bench = DeviceBench(declarations, ledger_runtime(device), compiled=compiled)
    require_plain_float32()
    console.print(f"{len(plan.rows)} rows on {device}, evidence in {out}", highlight=False)
    environment = describe_environment(device)
    warn_without_commit(console, environment)
    with console.status("counting parameters"):
        cells = bench.describe_cells(plan.designs)
    manifest = make_manifest(
        "ledger", device, environment, declarations, plan=plan.to_record(), cells=cells, compiled=compiled
    )
    clock = CudaClock() if device == "cuda" else MonotonicClock()
    with (
        Evidence(out, manifest, declarations.contents) as evidence,
        LedgerScreen(console, dict(declarations.designs.families)) as screen,
    ):
        try:
            Ledger(plan, bench, clock, evidence, screen).run(read_state(device))
        except KeyboardInterrupt:
            console.print("interrupted: every finished block of measurements is kept, and the same command resumes")
            raise typer.Exit(INTERRUPTED) from None
    evaluation = evaluate(out, declarations)
    print_evaluation(console, evaluation, most=20)
    raise typer.Exit(1 if evaluation.status == FAIL else 0)


@app.command(name="evaluate")
def evaluate_run(run: Run, audit: Audit = None) -> None:
    """Judge a run by its evidence alone: print status=pass, or every reason against it."""
    evaluation = evaluate(run, read_declarations(audit))
    print_evaluation(Console(soft_wrap=True), evaluation)
    raise typer.Exit(EXIT_CODES[evaluation.status])


@app.command()
def report(run: Run, audit: Audit = None, out: Out = None) -> None:
    """Write a ledger's report, report.html and report.md, into the run's folder or --out."""
    from alphabet_audit.show.report import write_report

    for path in write_report(run, read_declarations(audit), out or run):
        print(path)


@app.command()
def compare(first: Run, second: Run, audit: Audit = None) -> None:
    """Show what changed from one run of the ledger to another."""
    from alphabet_audit.show.compare import compare_runs, comparison_table

    comparison = compare_runs(first, second, read_declarations(audit))
    console = wide_console()
    for line in comparison.remarks:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    console.print(comparison_table(comparison))


def warn_without_commit(console: Console, environment: dict[str, Any]) -> None:
    """Say before a run, rather than after it, that its evidence cannot pass without a commit."""
    if environment["git"] is None:
        console.print(
            "these sources are not from a checkout, so no commit is recorded: the results below hold, but "
            "`alphabet-audit evaluate` passes only runs from a checkout",
            highlight=False, soft_wrap=True,
        )  # fmt: skip


def wide_console() -> Console:
    """A console as wide as a terminal, or as wide as a table needs where output is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=TABLE_WIDTH)


def main() -> None:
    """Run the command; a user's mistake is explained in one line."""
    try:
        app()
    except AuditError as error:
        print(f"alphabet-audit: {error}", file=sys.stderr)
        sys.exit(MISTAKE)
