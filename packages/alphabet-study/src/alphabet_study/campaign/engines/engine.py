"""What an engine is: a number of slots, each of which computes one fit at a time."""

import abc
from collections.abc import Callable
from types import TracebackType
from typing import Self

from alphabet_study.campaign.clock import utc_now
from alphabet_study.errors import StudyError
from alphabet_study.protocol.records import FAILED, Job, Outcome, Record
from alphabet_study.registry.task import Task

# A function that can be pickled and gives the record of one job; it raises if there is none.
Fit = Callable[[Job, Task], Record]

# What keeps a process to one thread, so that as many fits as cores can run beside each other.
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
# A worker that ends before it was ready is no fit's fault: after this many in a row an engine gives up.
MOST_FAILED_STARTS = 3


class Engine(abc.ABC):
    """Computes fits in slots, numbered from 0. Whatever happens to a fit, `wait` gives a record of it in the end."""

    # Workers in a row that ended before they were ready.
    failed_starts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abc.abstractmethod
    def free(self) -> dict[int, str | None]:
        """The free slots with the task that each computed last, whose data it may still have."""

    @abc.abstractmethod
    def running(self) -> dict[int, Job]:
        """The jobs that are being computed, by slot."""

    @abc.abstractmethod
    def submit(self, slot: int, job: Job, task: Task) -> None:
        """Start a fit in a free slot."""

    @abc.abstractmethod
    def wait(self, seconds: float) -> list[Record]:
        """The records of fits that have ended; empty if none has within these seconds."""

    @abc.abstractmethod
    def close(self) -> None:
        """Drop what is running and give the slots back."""

    def note_failed_start(self, reason: str) -> None:
        """Count a worker that ended before it could compute anything; give up if that goes on."""
        self.failed_starts += 1
        if self.failed_starts >= MOST_FAILED_STARTS:
            raise StudyError(
                f"{self.failed_starts} workers in a row ended before they could compute anything, the last: {reason}. "
                "What they wrote to stderr stands above; no fit was recorded as failed"
            )


def check_workers(count: int) -> None:
    """Refuse a number of slots with which nothing would ever run."""
    if count < 1:
        raise StudyError(f"workers must be at least 1; got {count}")


def failed_record(job: Job, reason: str, seconds: float) -> Record:
    """The record of a fit that gave none itself: its process died or it raised."""
    from alphabet_study.protocol.versions import machine_name, source_digest

    return Record(job, Outcome(FAILED, one_line(reason)), seconds, utc_now(), machine_name(), source_digest())


def one_line(text: str) -> str:
    """A text that a store and a CSV file can keep: in one line, and bytes that are no text as escapes."""
    return " ".join(text.encode("utf-8", "backslashreplace").decode("utf-8").split())
