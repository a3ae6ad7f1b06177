"""Small campaigns for tests: real stores, plans and engines around fits that take milliseconds.

Worker processes import this module: what is slow to import is imported where it is used.
"""

import csv
import hashlib
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alphabet_study.campaign.engines import Engine, Fit
from alphabet_study.protocol.records import DIVERGED, DONE, FAILED, FINAL, Job, Outcome, Record
from alphabet_study.registry.task import Task

if TYPE_CHECKING:
    from alphabet_study.campaign.plan import Plan
    from alphabet_study.campaign.runner import Summary
    from alphabet_study.campaign.store import Store

# The ways in which a fit can go wrong.
SIGNAL, EXIT, MEMORY, ERROR = "signal", "exit", "memory", "error"


def make_task(name: str, *, train_size: int = 20, length: int = 1000, **fields: object) -> Task:
    """A task that is declared but has no data, for fits that need none."""
    declared = {
        "suite": "UCR", "title": name, "objective": "classification", "metric": "balanced_accuracy",
        "selection_metric": "balanced_accuracy", "split": "stratified", "final_training": "full-train", "channels": 1,
        "outputs": 2, "test_size": 10, "source": "made up", "citation": "none", "no_reader": "made up",
    }  # fmt: skip
    return Task(name=name, train_size=train_size, length=length, **{**declared, **fields})  # type: ignore[arg-type]


@dataclass(frozen=True)
class HashedFit:
    """A fit whose outcome is a hash of its job: as deterministic as a real one, in no time.

    seconds: how long it pretends to work. diverging: about every that many-th fit diverges, 0 for none. crashing: keys
    as text, each with the way in which it goes wrong; with `once`, a folder, it does so the first time only. clock: the
    time of day that every record says, the true one by default.
    """

    seconds: float = 0.0
    diverging: int = 29
    crashing: tuple[tuple[str, str], ...] = ()
    once: Path | None = None
    clock: str | None = None

    def __call__(self, job: Job, task: Task) -> Record:
        began = time.monotonic()
        time.sleep(self.seconds)
        self._go_wrong(job)
        digest = hashlib.sha256(f"{job.key} {job.candidate} {job.epochs} {job.frozen}".encode()).digest()
        draws = [int.from_bytes(digest[start : start + 8], "big") / 2.0**64 for start in range(0, 32, 8)]
        outcome = Outcome(
            DONE, None, draws[0], draws[1], 1 + digest[0] % 20, 30, 100 + digest[1], "fused",
            {task.metric: draws[2], "macro_f1": draws[3]} if job.key.stage == FINAL else {},
        )  # fmt: skip
        if job.key.stage != FINAL and self.diverging and digest[2] % self.diverging == 0:
            outcome = Outcome(DIVERGED, "the loss was never finite", epochs=3, parameters=100 + digest[1], path="fused")
        finished = self.clock or datetime.now(UTC).isoformat(timespec="seconds")
        return Record(job, outcome, time.monotonic() - began, finished, f"process {os.getpid()}", "0" * 16)

    def _go_wrong(self, job: Job) -> None:
        way = dict(self.crashing).get(str(job.key))
        if way is None or (self.once is not None and self._happened(job)):
            return
        if way == SIGNAL:
            os.kill(os.getpid(), signal.SIGKILL)
        if way == EXIT:
            os._exit(17)
        if way == MEMORY:
            raise MemoryError("cannot allocate 7 PiB")
        raise RuntimeError("a planted error")

    def _happened(self, job: Job) -> bool:
        assert self.once is not None
        mark = self.once / hashlib.sha256(str(job.key).encode()).hexdigest()
        known = mark.exists()
        mark.touch()
        return known


@dataclass(frozen=True)
class ThreadsFit:
    """A fit whose path says to how many threads its process is kept; with torch, loading it imports torch."""

    with_torch: bool = False

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        if self.with_torch:
            import torch  # noqa: F401

    def __call__(self, job: Job, task: Task) -> Record:
        threads = [os.environ[f"{name}_NUM_THREADS"] for name in ("OMP", "MKL", "OPENBLAS")]
        torch = sys.modules.get("torch")
        used = f"torch {torch.get_num_threads()}" if torch else "torch not imported"
        record = HashedFit(diverging=0)(job, task)
        return replace(record, outcome=replace(record.outcome, path=f"{' '.join(threads)}, {used}"))


class UnloadableFit:
    """A fit that ends every process that loads it."""

    def __reduce__(self) -> tuple[object, ...]:
        return os._exit, (5,)

    def __call__(self, job: Job, task: Task) -> Record:
        raise AssertionError("it cannot have been loaded")


@dataclass
class InlineEngine(Engine):
    """Computes fits in this process, one slot after the other, and remembers in which order it was given them."""

    fit: Fit
    slots: int = 1
    submitted: list[tuple[int, Job]] = field(default_factory=list)
    _last: dict[int, str] = field(default_factory=dict)
    _jobs: dict[int, tuple[Job, Task]] = field(default_factory=dict)

    def free(self) -> dict[int, str | None]:
        return {slot: self._last.get(slot) for slot in range(self.slots) if slot not in self._jobs}

    def running(self) -> dict[int, Job]:
        return {slot: job for slot, (job, _) in self._jobs.items()}

    def submit(self, slot: int, job: Job, task: Task) -> None:
        self.submitted.append((slot, job))
        self._jobs[slot], self._last[slot] = (job, task), task.name

    def wait(self, seconds: float) -> list[Record]:
        slot = min(self._jobs)
        return [self.fit(*self._jobs.pop(slot))]

    def close(self) -> None:
        self._jobs.clear()


def small_plan(*names: str, families: Sequence[str] = ("alphabet", "gru"), **settings: Any) -> "Plan":
    """A plan of made-up tasks; its settings are those that finish in minutes unless changed here."""
    from alphabet_study.campaign.plan import Plan
    from alphabet_study.protocol.settings import SMALL

    return Plan(tuple(make_task(name) for name in names), tuple(families), replace(SMALL, **settings))


@contextmanager
def filled_store(path: Path, plan: "Plan") -> Iterator["Store"]:
    """A store for a plan, with digests of the data that its tasks do not have."""
    from alphabet_study.campaign.store import Store

    with Store.create_or_resume(path, plan.settings, {"versions": {}, "sources": "0" * 16}) as store:
        for task in plan.tasks:
            store.check_data(task.name, {part: f"{task.name} {part}" for part in ("train", "test")})
        yield store


def run_small(path: Path, plan: "Plan", engine: Engine, *, retry_failed: bool = False) -> "Summary":
    """Run a campaign, or what is left of it, with this engine; nothing is shown."""
    from alphabet_study.campaign.progress import Progress
    from alphabet_study.campaign.runner import run_campaign
    from rich.console import Console

    with filled_store(path, plan) as store, engine, Progress(Console(file=StringIO())) as progress:
        return run_campaign(plan, store, engine, progress, retry_failed=retry_failed)


def deterministic_export(path: Path) -> list[list[str]]:
    """What a store's export says, without where and when the fits ran; and its openings, without when."""
    from alphabet_study.campaign.rows import DETERMINISTIC
    from alphabet_study.campaign.store import Store
    from alphabet_study.campaign.transfer import export_csv

    out = path.with_suffix(".csv")
    with Store.read(path) as store:
        export_csv(store, out)
        openings = [[str(cell), *map(str, opening[:3])] for cell, opening in store.openings().items()]
    with out.open(newline="", encoding="utf-8") as file:
        return [row[: len(DETERMINISTIC)] for row in csv.reader(file)] + openings


def hashed_run_job(job: Job, task: Task, settings: object, root: Path | None) -> Record:
    """What stands in for the protocol's fit where a test runs the command itself: a hash of the job."""
    return HashedFit(diverging=0)(job, task)


def failing_run_job(job: Job, task: Task, settings: object, root: Path | None) -> Record:
    """The same, but the last candidate of the screen fails."""
    return HashedFit(diverging=0, crashing=((f"{task.name}/{job.key.family}/screen/3/7", ERROR),))(job, task)


def slow_run_job(job: Job, task: Task, settings: object, root: Path | None) -> Record:
    """The same, but it takes longer than any test waits."""
    return HashedFit(seconds=600.0)(job, task)


def failing_fit(job: Job, task: Task, *, bad: str) -> Record:
    """What a fit makes of a job, with a planted failure in the job whose key is `bad`."""
    record = HashedFit()(job, task)
    return replace(record, outcome=Outcome(FAILED, "planted")) if str(job.key) == bad else record
