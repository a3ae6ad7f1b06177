"""`nox -s bench-study`: the harness's cost per fit, the gain of a second worker, and the time of each family's screen.

All of it on GunPoint, which comes with aeon. Blocks alternate (ABBA), so that a busy neighbour slows both sides alike;
ratios are medians over rounds. Absolute times are this machine's and belong to no claim.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from io import StringIO
from pathlib import Path

from alphabet_baselines import FAMILIES
from alphabet_study.campaign.engines.local import LocalEngine
from alphabet_study.campaign.plan import Plan
from alphabet_study.campaign.progress import Progress
from alphabet_study.campaign.runner import run_campaign
from alphabet_study.campaign.store import Store
from alphabet_study.protocol.fitting import run_job
from alphabet_study.protocol.records import DONE, SCREEN, Cell, FitKey, Job
from alphabet_study.protocol.selection import ready_jobs
from alphabet_study.protocol.settings import ADAPTED, PAPER, Settings
from alphabet_study.registry import find_task
from rich.console import Console

TASK = find_task("GunPoint")
# Fourteen fits of much the same length in three stages, each an even number.
SETTINGS = Settings(
    name="bench", kept=2, shapes=(0, 2), patience=100, epochs=40, confirm_seeds=(11, 19), final_seeds=(23, 31, 43, 47)
)
GOALS = {"overhead": 1.05, "two workers": 1.8}
FIT = partial(run_job, settings=SETTINGS, root=None)


def run_directly() -> float:
    """Seconds for the campaign's fits, called one after the other in this process."""
    started = time.perf_counter()
    outcomes = {}
    while jobs := ready_jobs(Cell(TASK.name, "alphabet"), TASK, SETTINGS, outcomes):
        for job in jobs:
            outcomes[job.key] = job, FIT(job, TASK).outcome
    return time.perf_counter() - started


def run_in_campaign(engine: LocalEngine, *families: str) -> float:
    """Seconds for a campaign of these families with a fresh store, its workers being up already."""
    plan = Plan((TASK,), families, SETTINGS)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        with (
            Store.create_or_resume(Path(folder) / "bench.sqlite", SETTINGS, {}) as store,
            Progress(Console(file=StringIO())) as progress,
        ):
            summary = run_campaign(plan, store, engine, progress)
        seconds = time.perf_counter() - started
    if summary.left or set(summary.statuses) != {DONE}:
        raise SystemExit(f"the campaign did not complete: {summary}")
    return seconds


def alternate(first: Callable[[], float], second: Callable[[], float], rounds: int) -> list[float]:
    """The ratios second / first of so many rounds, each ABBA."""
    ratios = []
    for _ in range(rounds):
        a, b, c, d = first(), second(), second(), first()
        ratios.append((b + c) / (a + d))
    return ratios


def report(name: str, ratios: list[float], what: str, *, at_most: bool) -> bool:
    """Print a median ratio beside its goal; return whether the goal is met."""
    found, goal = statistics.median(ratios), GOALS[name]
    met = found <= goal if at_most else found >= goal
    spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
    print(
        f"{name}: {found:.3f} ({spread}), goal {'<=' if at_most else '>='} {goal}: {'met' if met else 'MISSED'}; {what}"
    )
    return met


def time_screens(families: list[str]) -> None:
    """Print how long the 18 candidates of each family take on one thread, and how long a fit lasts."""
    print(f"\n{'family':12} {'18 candidates':>14} {'median fit':>11} {'epochs':>7}   on {TASK.name}, one thread")
    for family in families:
        records = []
        for slot, candidate in enumerate(PAPER.candidates(family)):
            job = Job(FitKey(TASK.name, family, SCREEN, slot, PAPER.screen_seed), candidate.key)
            records.append(run_job(job, TASK, PAPER, None))
        seconds = [record.seconds for record in records]
        epochs = statistics.median(record.outcome.epochs or 0 for record in records)
        print(f"{family:12} {sum(seconds):12.1f} s {statistics.median(seconds):9.2f} s {epochs:7.0f}", flush=True)


def main() -> None:
    """Run the three parts; exit with 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--family", action="append", help="families of the table; by default all ten")
    parser.add_argument("--no-table", action="store_true", help="leave the table out")
    options = parser.parse_args()
    run_directly()  # compiles and reads what every later run finds
    with LocalEngine(FIT, 1) as one, LocalEngine(FIT, 2) as two:
        for engine in (one, two):
            run_in_campaign(engine, "alphabet")
        overhead = alternate(run_directly, lambda: run_in_campaign(one, "alphabet"), options.rounds)
        # Two cells, so that a worker finds something to do while a stage of the other ends: as in any real campaign.
        cells = "alphabet", ADAPTED
        gain = alternate(lambda: run_in_campaign(two, *cells), lambda: run_in_campaign(one, *cells), options.rounds)
    met = report("overhead", overhead, "time in a campaign of one worker / called directly", at_most=True)
    met &= report("two workers", gain, "time of one worker / of two", at_most=False)
    if not options.no_table:
        time_screens(options.family or ["alphabet", *FAMILIES])
    raise SystemExit(0 if met else 1)


if __name__ == "__main__":
    main()
