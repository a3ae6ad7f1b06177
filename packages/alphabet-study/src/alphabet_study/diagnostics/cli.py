"""The console command `alphabet-study diagnostics spectral | ablation | poles | corruption`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from alphabet_study.errors import StudyError

INTERRUPTED = 130
FOLDER = Path("study-runs") / "diagnostics"
TABLE_WIDTH = 170
# What --quick reduces to: the whole path of a diagnostic in some seconds, whose numbers mean nothing.
QUICK_EPOCHS, QUICK_PATHS, QUICK_LENGTHS = 3, 64, (32, 64)
QUICK_WARNING = "quick: models were hardly trained, so that these numbers say nothing beside the paper's"
HELP = (
    "Diagnostics with published numbers. Each can be killed at any time: finished fits are rows of a CSV file, and the "
    "same command goes on."
)

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=HELP)
Tasks = Annotated[list[str] | None, typer.Option("--task", "--tasks", help="A task; may be repeated. By default 17.")]
Seeds = Annotated[list[int] | None, typer.Option("--seed", "--seeds", help="A seed; may be repeated. By default five.")]
Quick = Annotated[bool, typer.Option("--quick", help="Small sizes: does it run? The numbers mean nothing.")]
Out = Annotated[Path | None, typer.Option("--out", help="CSV of fits; by default study-runs/diagnostics/NAME.csv.")]
Data = Annotated[Path | None, typer.Option("--data", help="Folder with the tasks' files; by default ALPHABET_DATA's.")]
Available = Annotated[bool, typer.Option("--available", help="Leave out tasks whose files are absent.")]
Resplit = Annotated[bool, typer.Option("--resplit", help="A validation fold of its own for every seed.")]


@app.command()
def spectral(
    eps: Annotated[list[float] | None, typer.Option(help="A separation; may be repeated.")] = None,
    lengths: Annotated[list[int] | None, typer.Option("--length", help="A length T; may be repeated.")] = None,
    seeds: Seeds = None,
    quick: Quick = False,
    out: Out = None,
) -> None:
    """Run the moment-matched control over separations and lengths, beside Bayes and five other estimators."""
    from alphabet_study.diagnostics import spectral as room
    from alphabet_study.diagnostics.progress import Progress

    fits = room.plan_spectral(
        separations=eps or ((0.4,) if quick else room.SEPARATIONS),
        lengths=lengths or (QUICK_LENGTHS if quick else room.LENGTHS),
        seeds=choose_seeds(seeds, quick),
        paths=QUICK_PATHS if quick else room.PATHS,
        epochs=QUICK_EPOCHS if quick else room.EPOCHS,
    )
    with explained_interrupt() as console:
        rows = room.run_spectral(fits, choose_out(out, "spectral", quick), Progress(console))
        show(console, room.spectral_table(room.summarize_spectral(rows)), quick)


@app.command()
def ablation(
    tasks: Tasks = None,
    seeds: Seeds = None,
    resplit: Resplit = False,
    available: Available = False,
    quick: Quick = False,
    out: Out = None,
    data: Data = None,
) -> None:
    """Train the full model and its four structural variants, and compare them task by task on validation."""
    from alphabet_study.data_root import find_root
    from alphabet_study.diagnostics import ablation as room
    from alphabet_study.diagnostics.progress import Progress

    root = find_root(data)
    names = choose_task_names(tasks, root, available=available, quick=quick)
    fits = room.plan_ablation(names, choose_seeds(seeds, quick), epochs=choose_epochs(quick), resplit=resplit)
    with explained_interrupt() as console:
        rows = room.run_ablation(fits, root, choose_out(out, "ablation", quick), Progress(console))
        show(console, room.ablation_table(room.summarize_ablation(rows)), quick)


@app.command()
def poles(
    tasks: Tasks = None,
    seeds: Seeds = None,
    resplit: Resplit = False,
    available: Available = False,
    quick: Quick = False,
    out: Out = None,
    data: Data = None,
) -> None:
    """Remove and retain the poles that margins rest on, in checkpoints with learned and with fixed poles."""
    from alphabet_study.data_root import find_root
    from alphabet_study.diagnostics import poles as room
    from alphabet_study.diagnostics.progress import Progress

    root = find_root(data)
    names = choose_task_names(tasks, root, available=available, quick=quick)
    fits = room.plan_poles(names, choose_seeds(seeds, quick), epochs=choose_epochs(quick), resplit=resplit)
    with explained_interrupt() as console:
        rows = room.run_poles(fits, root, choose_out(out, "poles", quick), Progress(console))
        show(console, room.pole_table(room.summarize_poles(rows)), quick)


@app.command()
def corruption(
    campaign: Annotated[Path, typer.Option(help="Store of a campaign, or the CSV file that `export` wrote.")],
    tasks: Tasks = None,
    families: Annotated[
        list[str] | None, typer.Option("--family", help="A family; may be repeated. By default the campaign's.")
    ] = None,
    seeds: Annotated[list[int] | None, typer.Option("--seed", "--seeds", help="By default the campaign's.")] = None,
    available: Available = False,
    quick: Annotated[bool, typer.Option("--quick", help="The two embedded tasks and the first seed.")] = False,
    out: Out = None,
    data: Data = None,
) -> None:
    """Train a campaign's frozen configurations again and score them on a corrupted TEST; without one, refuse."""
    from alphabet_study.data_root import find_root
    from alphabet_study.diagnostics import corruption as room
    from alphabet_study.diagnostics.frozen import read_campaign
    from alphabet_study.diagnostics.progress import Progress

    root, frozen = find_root(data), read_campaign(campaign)
    names = choose_task_names(tasks, root, available=available, quick=quick)
    final_seeds = list(frozen.settings.final_seeds)
    chosen_seeds = seeds or (final_seeds[:1] if quick else final_seeds)
    chosen = families or frozen.families(names)
    if not chosen:
        raise StudyError(f"{campaign} has no final of {', '.join(names)}: nothing was frozen there, and TEST is sealed")
    fits = room.plan_corruption(frozen, names, chosen, chosen_seeds)
    with explained_interrupt() as console:
        rows = room.run_corruption(fits, frozen, root, choose_out(out, "corruption", quick), Progress(console))
        console.print(room.corruption_table(room.summarize_corruption(rows), rows))


def choose_task_names(names: list[str] | None, root: Path | None, *, available: bool, quick: bool) -> list[str]:
    """The tasks to run, by default the 17, all of which have their files."""
    from alphabet_study.campaign.choices import choose_tasks
    from alphabet_study.diagnostics.tasks import DIAGNOSTIC_TASKS, QUICK_TASKS

    chosen = choose_tasks(names or (QUICK_TASKS if quick else DIAGNOSTIC_TASKS), root, available=available)
    return [task.name for task in chosen]


def choose_seeds(seeds: list[int] | None, quick: bool) -> list[int]:
    """The seeds to run, by default the paper's five, or its first."""
    from alphabet_study.protocol.settings import PAPER

    return seeds or list(PAPER.final_seeds[:1] if quick else PAPER.final_seeds)


def choose_epochs(quick: bool) -> int:
    """The most epochs of a fit on a task."""
    from alphabet_study.protocol.settings import PAPER

    return QUICK_EPOCHS if quick else PAPER.epochs


def choose_out(out: Path | None, name: str, quick: bool) -> Path:
    """The file that keeps the rows of finished fits."""
    return out or FOLDER / f"{name}{'-quick' if quick else ''}.csv"


def show(console: Console, table: Table, quick: bool) -> None:
    """Print a table, and what it is worth if it was a quick one."""
    console.print(table)
    if quick:
        console.print(QUICK_WARNING, highlight=False)


@contextmanager
def explained_interrupt() -> Iterator[Console]:
    """A console as wide as a table needs; an interrupt is explained and ends the command."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=TABLE_WIDTH)
    try:
        yield console
    except KeyboardInterrupt:
        console.print("interrupted: every finished fit is kept, and the same command goes on", highlight=False)
        raise typer.Exit(INTERRUPTED) from None
