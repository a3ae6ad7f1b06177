"""`nox -s bench-study`: the harness's cost per fit, the gain of a second worker, and the time of each family's screen.

All of it on GunPoint, which comes with aeon. Blocks alternate (ABBA), so that a busy neighbour slows both sides alike;
ratios are medians over rounds. Every candidate of the table trains for the same few epochs, after one fit of its family
that is not timed. Absolute times are this machine's and belong to no claim. Where it stands is said on stderr.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path

from alphabet_baselines import FAMILIES
from alphabet_study.campaign.engines.local import LocalEngine
from alphabet_study.campaign.plan import Plan
from alphabet_study.campaign.progress import Progress
from alphabet_study.campaign.runner import run_campaign
from alphabet_study.campaign.store import Store
from alphabet_study.campaign.watched_data import VerifiedFit, WatchedData
from alphabet_study.protocol.fitting import run_job
from alphabet_study.protocol.records import DONE, SCREEN, Cell, FitKey, Job, Record
from alphabet_study.protocol.selection import ready_jobs
from alphabet_study.protocol.settings import ADAPTED, FAMILY_NAMES, PAPER, Settings
from alphabet_study.registry import find_task
from rich.console import Console

TASK = find_task("GunPoint")
# Fourteen fits of much the same length in three stages, each an even number.
SETTINGS = Settings(
    name="bench", kept=2, shapes=(0, 2), patience=100, epochs=40, confirm_seeds=(11, 19), final_seeds=(23, 31, 43, 47)
)
# Epochs of every candidate of the table, for all families alike: an epoch of Mamba's scan takes seconds on a CPU, and
# 18 candidates of 100 epochs would take hours. With a patience as long, none stops early.
EPOCHS = 5
# Seconds between two lines about progress where output is no terminal.
INTERVAL = 10.0
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


class ProgressLine:
    """Says on stderr how far a part is: one line that changes on a terminal, a line now and then elsewhere."""

    def __init__(self, name: str, count: int, what: str) -> None:
        self._name, self._count, self._what = name, count, what
        self._terminal = sys.stderr.isatty()
        self._started = time.monotonic()
        self._said = float("-inf")

    def show(self, done: int) -> None:
        """Say that so many are done, how long they took, and about how long the others will."""
        now = time.monotonic()
        if not self._terminal and now - self._said < INTERVAL and done < self._count:
            return
        self._said, elapsed = now, now - self._started
        left = f", about {elapsed / done * (self._count - done):.0f} s to go" if 0 < done < self._count else ""
        line = f"{self._name}: {done} of {self._count} {self._what}, {elapsed:.0f} s{left}"
        if not self._terminal:
            print(line, file=sys.stderr, flush=True)
        else:
            ending = "" if done < self._count else "\r\033[K"  # the last one leaves its place to the result
            print(f"\r\033[K{line}{ending}", end="", file=sys.stderr, flush=True)


def alternate(name: str, first: Callable[[], float], second: Callable[[], float], rounds: int) -> list[float]:
    """The ratios second / first of so many rounds, each ABBA."""
    ratios, progress = [], ProgressLine(name, rounds, "rounds")
    for done in range(rounds):
        progress.show(done)
        a, b, c, d = first(), second(), second(), first()
        ratios.append((b + c) / (a + d))
    progress.show(rounds)
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


def screen_settings(epochs: int) -> Settings:
    """The paper's screen, but with just so many epochs for every candidate."""
    if not 1 <= epochs <= PAPER.epochs:
        raise SystemExit(f"--epochs must lie in 1 ... {PAPER.epochs}; got {epochs}")
    return replace(PAPER, name="bench-screen", epochs=epochs, patience=epochs)


def time_screens(families: Sequence[str], settings: Settings) -> None:
    """Print how long the candidates of each family take on one thread, and a fit and an epoch of them by the median."""
    count = len(settings.recipes) * len(settings.shapes)
    print(
        f"\nThe {count} candidates of a screen on {TASK.name}, one thread, EXPLORATORY: {settings.epochs} of at most "
        f"{PAPER.epochs} epochs for every candidate of every family;\na whole screen, which patience {PAPER.patience} "
        f"ends, takes up to {PAPER.epochs / settings.epochs:.0f} times as long.\n"
        f"{'family':12} {f'{count} candidates':>14} {'median fit':>11} {'an epoch':>10}   slowest candidate"
    )
    for family in families:
        candidates = settings.candidates(family)
        progress = ProgressLine(family, len(candidates), "candidates")
        progress.show(0)
        fit_candidate(family, 0, replace(settings, epochs=1))  # compiles and reads what the timed ones find
        records = []
        for slot in range(len(candidates)):
            records.append(fit_candidate(family, slot, settings))
            progress.show(len(records))
        seconds = [record.seconds for record in records]
        slowest = max(records, key=lambda record: record.seconds)
        each = statistics.median(record.seconds / (record.outcome.epochs or settings.epochs) for record in records)
        others = sum(record.outcome.status != DONE for record in records)
        remark = f"; {others} diverged" if others else ""
        print(
            f"{family:12} {sum(seconds):12.1f} s {statistics.median(seconds):9.2f} s {each:8.3f} s   "
            f"{slowest.job.candidate}, {slowest.seconds:.2f} s{remark}",
            flush=True,
        )


def fit_candidate(family: str, slot: int, settings: Settings) -> Record:
    """The record of one candidate's fit of the screen."""
    candidate = settings.candidates(family)[slot]
    return run_job(
        Job(FitKey(TASK.name, family, SCREEN, slot, settings.screen_seed), candidate.key), TASK, settings, None
    )


def main() -> None:
    """Run the three parts; exit with 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--family", action="append", help="families of the table; by default all ten")
    parser.add_argument(
        "--epochs", type=int, default=EPOCHS, help=f"of every candidate of the table; by default {EPOCHS}"
    )
    parser.add_argument("--no-table", action="store_true", help="leave the table out")
    parser.add_argument("--only-table", action="store_true", help="leave the two ratios out")
    options = parser.parse_args()
    families = options.family or ["alphabet", *FAMILIES]
    if unknown := [name for name in families if name not in FAMILY_NAMES]:
        raise SystemExit(f"--family must be one of {', '.join(FAMILY_NAMES)}; got {unknown[0]!r}")
    settings = screen_settings(options.epochs)
    met = options.only_table or compare_workers(options.rounds)
    if not options.no_table:
        time_screens(families, settings)
    raise SystemExit(0 if met else 1)


def compare_workers(rounds: int) -> bool:
    """Print the two ratios, the harness's cost and the second worker's gain; whether both goals are met."""
    watched = WatchedData(None)
    watched.record(TASK)
    fit = VerifiedFit(FIT, watched)
    run_directly()  # compiles and reads what every later run finds
    with LocalEngine(fit, 1) as one, LocalEngine(fit, 2) as two:
        for engine in (one, two):
            run_in_campaign(engine, "alphabet")
        overhead = alternate("overhead", run_directly, lambda: run_in_campaign(one, "alphabet"), rounds)
        # Two cells, so that a worker finds something to do while a stage of the other ends: as in any real campaign.
        cells = "alphabet", ADAPTED
        gain = alternate(
            "two workers", lambda: run_in_campaign(two, *cells), lambda: run_in_campaign(one, *cells), rounds
        )
    met = report("overhead", overhead, "time in a campaign of one worker / called directly", at_most=True)
    return report("two workers", gain, "time of one worker / of two", at_most=False) and met


if __name__ == "__main__":
    main()
