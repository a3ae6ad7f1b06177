"""The local engine: fits in processes of this machine, each on one thread."""

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from alphabet_study.campaign.engines.engine import ONE_THREAD, Engine, Fit, check_workers, failed_record
from alphabet_study.campaign.engines.worker import READY, RECORD
from alphabet_study.protocol.records import Job, Record
from alphabet_study.registry.task import Task

# How long a worker may take to end once it has closed its connection.
LONGEST_END = 10.0


class LocalEngine(Engine):
    """Computes fits in `workers` processes, by default one per core; a process that dies is replaced."""

    def __init__(self, fit: Fit, workers: int | None = None) -> None:
        count = available_cores() if workers is None else workers
        check_workers(count)
        self._fit = pickle.dumps(fit)
        self._workers: list[_Worker] = []
        try:
            for _ in range(count):
                self._workers.append(_Worker(self._fit))
        except BaseException:
            self.close()
            raise

    def free(self) -> dict[int, str | None]:
        """The slots whose process is ready and has no fit."""
        return {slot: worker.task for slot, worker in enumerate(self._workers) if worker.ready and worker.job is None}

    def running(self) -> dict[int, Job]:
        """The jobs that are being computed, by slot."""
        return {slot: worker.job for slot, worker in enumerate(self._workers) if worker.job is not None}

    def submit(self, slot: int, job: Job, task: Task) -> None:
        """Send a fit to the process of a free slot."""
        self._workers[slot].submit(job, task)

    def wait(self, seconds: float) -> list[Record]:
        """The records of fits that have ended, those of dead processes included, which are replaced."""
        ended = []
        slots = {worker.connection: slot for slot, worker in enumerate(self._workers)}
        for connection in wait(list(slots), timeout=seconds):
            slot = slots[connection]  # type: ignore[index]  # what was waited for are connections
            worker = self._workers[slot]
            answer = worker.receive()
            if answer is not None and answer[0] == READY:
                self.failed_starts = 0
                continue
            if answer is not None and answer[0] == RECORD:
                ended.append(answer[1])
                continue
            ended_by = worker.end()
            reason = ended_by if answer is None else answer[1]
            if worker.job is not None:
                ended.append(failed_record(worker.job, reason, time.monotonic() - worker.since))
            else:
                self.note_failed_start(reason)
            self._workers[slot] = _Worker(self._fit)
        return ended

    def close(self) -> None:
        """End all processes, in the midst of a fit if need be."""
        for worker in self._workers:
            worker.kill()
        self._workers.clear()


class _Worker:
    """One process, the connection to it, and the job that it is at."""

    def __init__(self, fit: bytes) -> None:
        mine, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-m", "alphabet_study.campaign.engines.worker", str(theirs.fileno())]
        environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with theirs, _blocked_interrupts():
            self.process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL
            )
        self.connection = Connection(mine.detach())
        self.job: Job | None = None
        self.task: str | None = None
        self.ready = False
        self.since = time.monotonic()
        with contextlib.suppress(OSError):  # a process that is dead already is noticed by `receive`
            self.connection.send_bytes(fit)

    def submit(self, job: Job, task: Task) -> None:
        self.job, self.task, self.since = job, task.name, time.monotonic()
        with contextlib.suppress(OSError):
            self.connection.send_bytes(pickle.dumps((job, task)))

    def receive(self) -> tuple[str, Any] | None:
        """The process's answer, or None if it has ended."""
        try:
            answer: tuple[str, Any] = self.connection.recv()
        except (EOFError, OSError):
            return None
        if answer[0] == READY:
            self.ready = True
        elif answer[0] == RECORD:
            self.job = None
        return answer

    def end(self) -> str:
        """Let the process end, or end it; why it ended."""
        self.connection.close()
        try:
            code = self.process.wait(LONGEST_END)
        except subprocess.TimeoutExpired:
            self.kill()
            return "the process stopped answering"
        if code >= 0:
            return f"the process exited with code {code}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return f"the process was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.connection.close()


@contextlib.contextmanager
def _blocked_interrupts() -> Iterator[None]:
    """Processes started within never see Ctrl-C, which goes to the whole group: the campaign decides what it means."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def available_cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
