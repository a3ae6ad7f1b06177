"""The console command `alphabet-audit parity | ledger | evaluate | report | compare | seal`."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from alphabet_audit.declare.cases import expected_cases
from alphabet_audit.declare.declarations import read_declarations
from alphabet_audit.declare.designs import ALL
from alphabet_audit.declare.vectors import describe_restriction
from alphabet_audit.declare.verdicts import FAIL, NOT_RUN, PARTIAL, PASS
from alphabet_audit.errors import AuditError, escape_controls
from alphabet_audit.evidence.store import Evidence
from alphabet_audit.judge.evaluate import evaluate
from alphabet_audit.show.screen import LedgerScreen, ParityScreen, parity_table, print_evaluation

# A part that holds is neither a pass nor a failure, and a mistake in the command is no verdict at all.
EXIT_CODES = {PASS: 0, FAIL: 1, PARTIAL: 3}
MISTAKE, INTERRUPTED = 2, 130
RUNS = Path("audit-runs")
TABLE_WIDTH = 130
# What only parity and ledger need; an installation that judges can do without.
MEASURING = (
    "torch",
    "numba",
    "numpy",
    "triton",
    "alphabet_core",
    "alphabet_baselines",
    "alphabet_cpu",
    "alphabet_triton",
)
HELP = "ALPHABET's systems audit: is a fast runtime right, and how fast is it? Every answer comes with its evidence."

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=HELP)
AUDIT_HELP = "Folder with designs.toml and tolerances.toml, in place of the package's own."
OUT_HELP = "Folder to write to; by default one under audit-runs/, or for a report the run's own."
ROW_HELP = "all, same-width, parameter-matched, or one design such as 'same-width 32/512/64'."
SIGNATURE_HELP = "Public key, of ssh or minisign, by which the run's head.txt must be signed."
CHECKOUT_HELP = "A checkout of the project, by whose commit the recorded sources are checked."
KEY_HELP = "Secret key, of ssh or minisign, to sign the head with."
VECTORS_HELP = "avx2: on a processor with AVX-512 let every part use AVX2 alone; by default all that there is."
ACROSS_HELP = "Show ratios of different devices side by side; their times cannot be compared."
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
        ParityScreen(console, len(expected_cases(device))) as screen,
    ):
        outcomes = record_parity(run_parity(declarations, audit), evidence, screen.finish)
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
    vectors: Annotated[str | None, typer.Option(help=VECTORS_HELP)] = None,
    audit: Audit = None,
    out: Out = None,
) -> None:
    """Time ALPHABET against the nine families. It can be interrupted at any time: the same command resumes."""
    from alphabet_audit.measure.vectors import require_vectors, restrict_vectors

    if vectors is not None:
        restrict_vectors(vectors)  # before torch and numba are imported
    from alphabet_audit.gates.runtimes import choose_device, ledger_runtime
    from alphabet_audit.measure.clock import CudaClock, MonotonicClock
    from alphabet_audit.measure.device_bench import DeviceBench
    from alphabet_audit.measure.environment import (
        describe_environment,
        read_state,
        require_plain_float32,
        use_fresh_kernels,
    )
    from alphabet_audit.measure.ledger import Ledger
    from alphabet_audit.measure.manifest import make_manifest
    from alphabet_audit.protocol.plan import Plan
    from alphabet_audit.show.report import write_report

    console, declarations = Console(), read_declarations(audit)
    device = choose_device(device)
    if vectors is not None and device != "cpu":
        raise AuditError(f"--vectors restricts a ledger on the CPU; this one runs on {device}: give --device cpu")
    plan = Plan(row, declarations)
    out = out or RUNS / f"ledger-{device}{f'-{vectors}' * bool(vectors)}-{row.replace(' ', '-').replace('/', 'x')}"
    restriction = describe_restriction({"restricted": vectors})
    console.print(f"{len(plan.rows)} rows on {device}{restriction}, evidence in {out}", highlight=False)
    use_fresh_kernels()  # before the runtime imports one
    bench = DeviceBench(declarations, ledger_runtime(device), compiled=compiled)
    require_plain_float32()
    environment = describe_environment(device, vectors, compiled=compiled)
    if device == "cpu":
        require_vectors(environment["vectors"])
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
    pages, evaluation = write_report(out, declarations, out)
    print_evaluation(console, evaluation, most=20)
    for page in pages:
        console.print(f"report: {page}", highlight=False, soft_wrap=True)
    raise typer.Exit(1 if evaluation.status == FAIL else 0)


@app.command(name="evaluate")
def evaluate_run(
    run: Run,
    audit: Audit = None,
    signature: Annotated[Path | None, typer.Option("--signature", help=SIGNATURE_HELP)] = None,
    checkout: Annotated[Path | None, typer.Option("--checkout", help=CHECKOUT_HELP)] = None,
) -> None:
    """Judge a run by its evidence alone: print status=pass, or every reason against it."""
    from alphabet_audit.show.folder import judge_folder

    declarations = read_declarations(audit)
    evaluation, notes = judge_folder(run, declarations, signature, checkout)
    console = Console(soft_wrap=True)
    print_evaluation(console, evaluation)
    digests = ", ".join(f"{name} {digest[:12]}" for name, digest in declarations.digests.items())
    for note in [*notes, f"rules: {declarations.source}, {digests}"]:
        console.print(escape_controls(note), highlight=False, markup=False)
    raise typer.Exit(EXIT_CODES[evaluation.status])


@app.command()
def report(run: Run, audit: Audit = None, out: Out = None) -> None:
    """Write a ledger's report, report.html and report.md, to the run's folder or --out; the exit code is evaluate's."""
    from alphabet_audit.show.folder import without_traceback
    from alphabet_audit.show.report import write_report

    with without_traceback(run):
        paths, evaluation = write_report(run, read_declarations(audit), out or run)
    for path in paths:
        print(escape_controls(str(path)))
    print(f"status={evaluation.status}" + (": alphabet-audit evaluate lists the reasons" if evaluation.reasons else ""))
    raise typer.Exit(EXIT_CODES[evaluation.status])


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Folders of two or more runs, the oldest first.")],
    paper: Annotated[bool, typer.Option("--paper", help="Compare one run with the paper's table.")] = False,
    across_devices: Annotated[bool, typer.Option("--across-devices", help=ACROSS_HELP)] = False,
    audit: Audit = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder to write compare.html to.")] = None,
) -> None:
    """Show what changed from one run of the ledger to the next, beyond noise; or how a run compares with the paper."""
    from alphabet_audit.show.compare import compare_runs, compare_with_paper, comparison_table, write_comparison
    from alphabet_audit.show.folder import without_traceback

    declarations = read_declarations(audit)
    if paper and len(runs) != 1:
        raise AuditError(f"--paper compares one run with the paper's table; got {len(runs)}")
    with without_traceback(*runs):
        if paper:
            comparison = compare_with_paper(runs[0], declarations)
        else:
            comparison = compare_runs(runs, declarations, across_devices=across_devices)
        console = wide_console()
        for line in comparison.remarks:
            console.print(escape_controls(line), highlight=False, markup=False, soft_wrap=True)
        console.print(comparison_table(comparison))
        if out is not None:
            print(escape_controls(str(write_comparison(comparison, out))))


@app.command()
def seal(
    run: Run,
    key: Annotated[Path | None, typer.Option("--key", help=KEY_HELP)] = None,
    audit: Audit = None,
) -> None:
    """Print a run's head and write it to head.txt, to be committed, signed or time-stamped by others."""
    from alphabet_audit.evidence.chain import read_manifest
    from alphabet_audit.judge.seal import describe_head, sign_head, write_head

    evaluation = evaluate(run, read_declarations(audit))
    if evaluation.status == FAIL:
        shown = "; ".join(evaluation.reasons[:3])
        raise AuditError(f"{run} fails and is not sealed: {shown}; alphabet-audit evaluate lists all reasons")
    manifest = read_manifest(run)
    print(describe_head(manifest), end="")
    print(f"written to {escape_controls(str(write_head(run, manifest)))}")
    if key is not None:
        print(f"signed: {escape_controls(str(sign_head(run, key)))}")


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
        message = str(error)
    except OSError as error:  # of a file that cannot be asked for, such as one in a folder of somebody else
        message = f"{error.filename or 'a file'} cannot be read or written ({error.strerror or error})"
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in MEASURING:
            raise
        message = f"measuring needs {error.name}: pip install alphabet-audit with its dependencies; judging needs none"
    else:
        return
    print(f"alphabet-audit: {escape_controls(message)}", file=sys.stderr)
    sys.exit(MISTAKE)
