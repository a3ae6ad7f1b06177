"""The Ray engine: fits in actors of the cluster that the user has, or of one that is started on this machine."""

import importlib
import os
import pickle
import time
from dataclasses import dataclass
from typing import Any

from alphabet_study.campaign.engines.engine import ONE_THREAD, Engine, Fit, check_workers, failed_record
from alphabet_study.campaign.engines.ray_actor import FitActor
from alphabet_study.campaign.engines.worker import RECORD
from alphabet_study.errors import StudyError
from alphabet_study.protocol.records import FitKey, Job, Record
from alphabet_study.registry.task import Task

# How often a fit starts again after its actor died; nodes of a cluster come and go, fits should not suffer from it.
MOST_RETRIES = 2


@dataclass
class _Slot:
    """An actor, the answer that is awaited from it, and its job; until it is ready, the job waits for it."""

    actor: Any
    pending: Any
    ready: bool = False
    job: Job | None = None
    task: Task | None = None
    since: float = 0.0


class RayEngine(Engine):
    """Computes fits in `workers` actors of one CPU each, by default as many as the cluster has CPUs.

    The cluster is the one that RAY_ADDRESS names or that runs on this machine, else one that is started here and
    stopped at the end. Every node needs alphabet-study, and the data at the same path.
    """

    def __init__(self, fit: Fit, workers: int | None = None) -> None:
        if workers is not None:
            check_workers(workers)
        self._ray = _import_ray()
        self._fit = pickle.dumps(fit)
        self._deaths: dict[FitKey, int] = {}
        self._slots: list[_Slot] = []
        self._connected = not self._ray.is_initialized()
        try:
            if self._connected:
                _connect(self._ray, workers)
            cores = int(self._ray.cluster_resources().get("CPU", 0))
            count = cores if workers is None else workers
            if not 1 <= count <= cores:
                raise StudyError(f"workers must lie in 1 ... {cores}, the CPUs of the Ray cluster; got {count}")
            options = {"num_cpus": 1, "max_restarts": 0, "runtime_env": {"env_vars": ONE_THREAD}}
            self._actor_class = self._ray.remote(**options)(FitActor)
            self._slots += [self._start() for _ in range(count)]
        except BaseException:
            self.close()
            raise

    def free(self) -> dict[int, str | None]:
        """The slots whose actor is ready and has no fit."""
        return {
            number: slot.task.name if slot.task else None
            for number, slot in enumerate(self._slots)
            if slot.ready and slot.job is None
        }

    def running(self) -> dict[int, Job]:
        """The jobs that are being computed, by slot."""
        return {number: slot.job for number, slot in enumerate(self._slots) if slot.job is not None}

    def submit(self, slot: int, job: Job, task: Task) -> None:
        """Send a fit to the actor of a free slot."""
        chosen = self._slots[slot]
        chosen.job, chosen.task, chosen.since = job, task, time.monotonic()
        chosen.pending = chosen.actor.run.remote(pickle.dumps((job, task)))

    def wait(self, seconds: float) -> list[Record]:
        """The records of fits that have ended; a fit whose actor died starts again, but not for ever."""
        numbers = {slot.pending: number for number, slot in enumerate(self._slots) if slot.pending is not None}
        if not numbers:
            time.sleep(seconds)
            return []
        arrived, _ = self._ray.wait(list(numbers), num_returns=1, timeout=seconds)
        if arrived:
            arrived, _ = self._ray.wait(list(numbers), num_returns=len(numbers), timeout=0)
        records = (self._receive(numbers[reference]) for reference in arrived)
        return [record for record in records if record is not None]

    def close(self) -> None:
        """End the actors, in the midst of a fit if need be, and leave the cluster; stop it if it was started here."""
        for slot in self._slots:
            self._ray.kill(slot.actor)
        self._slots.clear()
        if self._connected:
            self._ray.shutdown()

    def _start(self) -> _Slot:
        actor = self._actor_class.remote()
        return _Slot(actor, actor.start.remote(self._fit))

    def _receive(self, number: int) -> Record | None:
        """What a slot's actor has answered: a record, or None if it is ready, restarted or tries again."""
        slot = self._slots[number]
        reference, slot.pending = slot.pending, None
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            return self._replace(number, f"{type(error).__name__}: {str(error).strip().splitlines()[0]}")
        if not slot.ready:
            slot.ready, self.failed_starts = True, 0
            if slot.job is not None and slot.task is not None:
                self.submit(number, slot.job, slot.task)
            return None
        job, slot.job = slot.job, None
        assert job is not None
        if answer[0] == RECORD:
            record: Record = pickle.loads(answer[1])
            return record
        self._ray.kill(slot.actor)
        self._slots[number] = self._start()
        return failed_record(job, answer[1], time.monotonic() - slot.since)

    def _replace(self, number: int, reason: str) -> Record | None:
        """Start another actor in place of a dead one, with its job; the record of that job if it died too often."""
        dead = self._slots[number]
        self._ray.kill(dead.actor)
        fresh = self._slots[number] = self._start()
        if not dead.ready:
            self.note_failed_start(reason)
        elif dead.job is not None:
            died = self._deaths[dead.job.key] = self._deaths.get(dead.job.key, 0) + 1
            if died > MOST_RETRIES:
                del self._deaths[dead.job.key]
                return failed_record(dead.job, f"its actor died {died} times: {reason}", time.monotonic() - dead.since)
        fresh.job, fresh.task = dead.job, dead.task
        return None


def _import_ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise StudyError(
            f"the ray engine needs Ray ({error}): pip install 'alphabet-study[ray]', or use --engine local"
        ) from error


def _connect(ray: Any, workers: int | None) -> None:
    """Join the cluster that RAY_ADDRESS names or that runs on this machine, or start one here."""
    quiet = {"log_to_driver": False, "logging_level": "WARNING"}
    try:
        ray.init(address="auto", **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        if os.environ.get("RAY_ADDRESS"):
            raise StudyError(
                f"RAY_ADDRESS={os.environ['RAY_ADDRESS']}: no Ray cluster answers there ({error}); correct or unset it"
            ) from error
        ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
