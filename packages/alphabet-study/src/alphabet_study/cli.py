"""The console command `alphabet-study tasks | fetch | run | status | export | import | table | diagnostics`."""

import importlib
import importlib.util
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from alphabet_study.errors import StudyError

MISTAKE, INTERRUPTED = 2, 130
RUNS = Path("study-runs")
TABLE_WIDTH = 130
HELP = (
    "ALPHABET's evaluation study: does it predict well? A campaign can be killed at any time: the same command resumes."
)

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=HELP)
DATA_HELP = "Folder with the tasks' files; by default that of ALPHABET_DATA, else only the embedded tasks are there."
NAMES_HELP = "Tasks, or suites (ucr, uea, general); by default all."
TASK_HELP = "A task, or ucr, uea, general, all, available or embedded; may be repeated. By default embedded."
FAMILY_HELP = "A family, or all; may be repeated. By default alphabet."
STORE_HELP = "File with a campaign's records; by default study-runs/SETTINGS.sqlite."
Data = Annotated[Path | None, typer.Option("--data", help=DATA_HELP)]
Names = Annotated[list[str] | None, typer.Argument(help=NAMES_HELP)]
Tasks = Annotated[list[str] | None, typer.Option("--task", help=TASK_HELP)]
Families = Annotated[list[str] | None, typer.Option("--family", help=FAMILY_HELP)]
StoreFile = Annotated[Path | None, typer.Option("--store", help=STORE_HELP)]
SettingsName = Annotated[str, typer.Option("--settings", help="paper or small.")]


@app.command(name="tasks")
def show_tasks(names: Names = None, data: Data = None) -> None:
    """Show the tasks: present and verified, present with an unknown hash, or absent and where to get them."""
    from alphabet_study.campaign.choices import find_named
    from alphabet_study.data_root import find_root
    from alphabet_study.task_table import task_table

    wide_console().print(task_table(find_named(names or []), find_root(data)))


@app.command()
def fetch(names: Names = None, data: Data = None) -> None:
    """Download the files of tasks that are declared with an address, verify them, resume what was cut off."""
    from alphabet_study.campaign.choices import find_named
    from alphabet_study.data_root import can_fetch, find_root
    from alphabet_study.fetching import fetch as fetch_files

    root = find_root(data, create=True)
    if root is None:
        raise StudyError("no folder to download to: name one by --data or ALPHABET_DATA")
    tasks = [task for task in find_named(names or []) if names or can_fetch(task)]
    console = Console()
    with console.status("") as status:
        for task in tasks:
            paths = fetch_files(
                task, root, on_progress=lambda name, done, total: status.update(amount(name, done, total))
            )
            say(console, f"{task.name}: {len(paths)} new file(s)" if paths else f"{task.name}: nothing to fetch")


@app.command()
def run(
    tasks: Tasks = None,
    available: Annotated[bool, typer.Option("--available", help="Leave out tasks whose files are absent.")] = False,
    families: Families = None,
    settings: SettingsName = "small",
    store: StoreFile = None,
    data: Data = None,
    engine: Annotated[str, typer.Option(help="local (processes of this machine) or ray.")] = "local",
    workers: Annotated[int | None, typer.Option(help="Fits at the same time; by default one per core.")] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed fits again.")] = False,
) -> None:
    """Run a campaign, or what is left of it. By default: the embedded tasks, ALPHABET alone, small settings."""
    from alphabet_study.campaign.choices import ALPHABET, EMBEDDED, choose_families, choose_settings, choose_tasks
    from alphabet_study.campaign.engines import make_engine
    from alphabet_study.campaign.plan import Plan
    from alphabet_study.campaign.progress import Progress
    from alphabet_study.campaign.runner import describe_changes, run_campaign
    from alphabet_study.campaign.store import Store
    from alphabet_study.campaign.watched_data import VerifiedFit, WatchedData
    from alphabet_study.data_root import find_root
    from alphabet_study.protocol.fitting import run_job
    from alphabet_study.protocol.versions import package_versions, source_digest

    console, chosen, root = Console(), choose_settings(settings), find_root(data)
    root = root.absolute() if root is not None else None  # the same folder for workers that run elsewhere
    selected = choose_tasks(tasks or [EMBEDDED], root, available=available)
    plan = Plan(tuple(selected), choose_families(families or [ALPHABET]), chosen)
    path = store or default_store(settings)
    environment = {"versions": package_versions(), "sources": source_digest()}
    say(console, f"{plan.size:,} fits (tasks: {len(plan.tasks)}, families: {len(plan.families)}); records in {path}")
    with Store.create_or_resume(path, chosen, environment) as records:
        if changes := describe_changes(records.manifest(), environment):
            say(console, f"note: code or libraries changed since these records began ({changes}); new fits use the new")
        watched = WatchedData(root)
        for task in plan.tasks:
            records.check_data(task.name, watched.record(task))
        fit = VerifiedFit(partial(run_job, settings=chosen, root=root), watched)
        with make_engine(engine, fit, workers) as slots, Progress(console) as progress:
            summary = run_campaign(plan, records, slots, progress, retry_failed=retry_failed)
    counts = ", ".join(f"{count:,} {status}" for status, count in sorted(summary.statuses.items()))
    say(console, f"{counts or 'nothing yet'}, {summary.left:,} left; records: {path}")
    if summary.interrupted:
        say(console, "interrupted: every finished fit is kept, and the same command resumes")
        raise typer.Exit(INTERRUPTED)
    for reason in summary.blocked.values():
        say(console, f"not complete: {reason}")
    say(console, f"next: alphabet-study table --store {path}")
    raise typer.Exit(1 if summary.blocked else 0)


@app.command()
def status(settings: SettingsName = "small", store: StoreFile = None) -> None:
    """Show how far a campaign is, cell by cell; it may be running."""
    from alphabet_study.campaign.status import failure_lines, status_table
    from alphabet_study.campaign.store import Store

    console = wide_console()
    with Store.read(store or default_store(settings)) as records:
        console.print(status_table(records))
        for line in failure_lines(records):
            say(console, line)


@app.command()
def export(
    out: Annotated[Path, typer.Argument(help="CSV file to write; a JSON file beside it describes it.")],
    settings: SettingsName = "small",
    store: StoreFile = None,
) -> None:
    """Write a campaign's records to a CSV file, with the settings and data digests in a JSON file beside it."""
    from alphabet_study.campaign.store import Store
    from alphabet_study.campaign.transfer import export_csv

    with Store.read(store or default_store(settings)) as records:
        count = export_csv(records, out)
    say(Console(), f"{count:,} fits: {out}")


@app.command(name="import")
def import_records(
    file: Annotated[Path, typer.Argument(help="CSV file that `export` wrote, with its JSON file beside it.")],
    store: StoreFile = None,
) -> None:
    """Add the records of an exported CSV file to a store, which is created if there is none."""
    from alphabet_study.campaign.store import Store
    from alphabet_study.campaign.transfer import import_csv, read_csv
    from alphabet_study.protocol.versions import package_versions, source_digest
    from alphabet_study.registry import TASKS

    settings = read_csv(file).described.settings
    path = store or default_store(settings.name)
    environment = {"versions": package_versions(), "sources": source_digest()}
    with Store.create_or_resume(path, settings, environment) as records:
        count = import_csv(records, file, TASKS)
    say(Console(), f"{count:,} new fits in {path}")


@app.command()
def table(
    settings: SettingsName = "small",
    store: StoreFile = None,
    partial: Annotated[bool, typer.Option("--partial", help="Show cells that are not complete, too.")] = False,
    page: Annotated[Path | None, typer.Option(help="Markdown page to write, ours beside the paper's.")] = None,
    reasons: Annotated[Path | None, typer.Option(help="TOML file with reasons for differences, by task.")] = None,
) -> None:
    """Show the results on TEST of a complete campaign, and write the page that compares them with the paper's."""
    import pandas as pd

    from alphabet_study.campaign.plan import complete_outcomes, find_faults
    from alphabet_study.campaign.rows import COLUMNS, row_of
    from alphabet_study.campaign.store import Store
    from alphabet_study.page import read_reasons, result_table, write_page
    from alphabet_study.registry import TASKS
    from alphabet_study.statistics.paper import read_paper
    from alphabet_study.statistics.summary import summarize_finals

    with Store.read(store or default_store(settings)) as records:
        fits = pd.DataFrame([row_of(record) for record in records.records()], columns=list(COLUMNS))
        planned = records.planned()
        cells = sorted({record.job.key.cell for record in records.records()} | planned)
        if not partial:
            complete_outcomes(records, cells, TASKS)
        faults = find_faults(records, cells, TASKS) if partial else {}
        results = summarize_finals(
            fits, TASKS, settings=records.settings, partial=partial, planned=planned, faults=faults
        )
    wide_console().print(result_table(results))
    if page is not None:
        explained = read_reasons(reasons) if reasons is not None else None
        for path in write_page(results, read_paper(), fits, page, reasons=explained):
            print(path)


def attach_diagnostics() -> None:
    """Add the sub-command `diagnostics`, whose module is imported only when the command line names it."""
    named = sys.argv[1:2] in (["diagnostics"], ["--help"], [])
    if named and importlib.util.find_spec("alphabet_study.diagnostics") is not None:
        app.add_typer(importlib.import_module("alphabet_study.diagnostics.cli").app, name="diagnostics")


def default_store(settings: str) -> Path:
    """The store that a campaign with these settings uses unless another is named."""
    return RUNS / f"{settings}.sqlite"


def amount(name: str, done: int, total: int | None) -> str:
    """How much of a file has arrived."""
    return f"{name}: {done / 1e6:.1f} MB" + (f" of {total / 1e6:.1f}" if total else "")


def say(console: Console, line: str) -> None:
    """Print a line as it is."""
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def wide_console() -> Console:
    """A console as wide as a terminal, or as wide as a table needs where output is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=TABLE_WIDTH)


def main() -> None:
    """Run the command; a user's mistake is explained in one line."""
    try:
        attach_diagnostics()
        app()
    except ValueError as error:
        if not is_mistake(error):
            raise
        print(f"alphabet-study: {error}", file=sys.stderr)
        sys.exit(MISTAKE)


def is_mistake(error: ValueError) -> bool:
    """Whether an error explains a user's mistake: one of this package, or of alphabet-core."""
    if isinstance(error, StudyError):
        return True
    from alphabet_core import AlphabetError  # here, because it imports torch, which most commands do without

    return isinstance(error, AlphabetError)
