"""The loop of a campaign: jobs from the agenda to the engine, records from the engine to the store."""

import signal
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from alphabet_study.campaign.engines.engine import Engine
from alphabet_study.campaign.plan import Agenda, Plan
from alphabet_study.campaign.progress import Progress
from alphabet_study.campaign.store import Store
from alphabet_study.protocol.records import FINAL, Cell

# How long a wait for the engine may take before interrupts and the progress display are looked at again.
TICK = 0.25


@dataclass
class Summary:
    """How a campaign stands after a session: fits by status, fits without a record, and cells that cannot go on."""

    statuses: Counter[str] = field(default_factory=Counter)
    left: int = 0
    blocked: dict[Cell, str] = field(default_factory=dict)
    interrupted: bool = False


def run_campaign(
    plan: Plan, store: Store, engine: Engine, progress: Progress, *, retry_failed: bool = False
) -> Summary:
    """Compute what the plan has and the store has not; every record is kept the moment it is there.

    The first Ctrl-C lets the running fits finish, the second drops them; either way the same call goes on later.
    """
    cells = set(plan.cells)
    store.note_planned(cells)
    if retry_failed:
        store.delete_failed(cells)
    outcomes = store.outcomes(cells)
    agenda = Agenda(plan, outcomes)
    statuses = Counter(outcome.status for _, outcome in outcomes.values())
    progress.begin(plan, statuses, store.seconds_by_cell())
    with _counted_interrupts() as interrupts:
        told = False
        while len(interrupts) < 2:
            if not interrupts:
                _fill_slots(agenda, store, engine)
            elif not told:
                progress.say("interrupted: the running fits finish; Ctrl-C again drops them")
                told = True
            progress.show(list(engine.running().values()), agenda.left)
            if not engine.running() and (interrupts or not agenda.any_ready()):
                break
            for record in engine.wait(TICK):
                store.add(record)
                agenda.finish(record.job, record.outcome)
                statuses[record.outcome.status] += 1
                progress.finish(record)
    return Summary(statuses, sum(agenda.left.values()), agenda.blocked, bool(interrupts))


def describe_changes(manifest: Mapping[str, Any], environment: Mapping[str, Any]) -> str:
    """How the code and the libraries differ from those with which a store was created; empty if they do not.

    Both have `sources`, a digest, and `versions` by name; what the manifest does not have is not compared.
    """
    then = {"sources": manifest.get("sources"), **manifest.get("versions", {})}
    now = {"sources": environment["sources"], **environment["versions"]}
    both = [name for name in now if then.get(name) is not None]
    return ", ".join(f"{name} {then[name]} then, {now[name]} now" for name in both if then[name] != now[name])


def _fill_slots(agenda: Agenda, store: Store, engine: Engine) -> None:
    """Give every free slot a job; the first final of a cell opens its TEST, on record before the job starts."""
    for slot, last in engine.free().items():
        elsewhere = {job.key.task for job in engine.running().values()}
        job = agenda.next(last, elsewhere)
        if job is None:
            return
        if job.key.stage == FINAL:
            store.open_test(agenda.frozen(job.key.cell))
        engine.submit(slot, job, agenda.plan.task_of[job.key.task])


@contextmanager
def _counted_interrupts() -> Iterator[list[int]]:
    """A list that grows by one at every Ctrl-C, in place of the exception that it would raise."""
    interrupts: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # the signature of signal handlers
        interrupts.append(number)  # printing is left to the loop: a handler may run in the midst of a print

    if threading.current_thread() is not threading.main_thread():
        yield interrupts  # signals reach the main thread only
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)
