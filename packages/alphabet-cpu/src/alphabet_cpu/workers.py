"""Threads that run kernels side by side, as many as torch is set to use, and the message of a first compilation.

They are plain Python threads: the kernels release the interpreter's lock, any number of callers may share the pool, and
a forked child starts its own.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from queue import SimpleQueue

import numpy as np
import torch

from alphabet_cpu.kernels.layout import Integers
from alphabet_cpu.kernels.memory import count_up, end_and_look, look_for
from alphabet_cpu.openmp import find_setter

COMPILING = (
    "alphabet-cpu: compiling kernels for this processor: ten seconds on a fast core, up to a minute on a slow or busy "
    "one; they are kept on disk for the next time"
)
COMPILED = "alphabet-cpu: compiled, after {seconds:.0f} seconds"
ANNOUNCE_AFTER_SECONDS = 2.0  # reading kernels from disk takes less
# A thread that waits for others to end looks so often, some fifty microseconds long, before it goes to sleep: kernels
# end almost together, and to be woken takes as long.
LOOKS = 200_000
# And one that has nothing left to do looks so often whether there is something new, a quarter of a millisecond: a step
# calls kernels twice, with some work of one thread between, and calls follow each other.
LOOKS_FOR_WORK = 1_000_000
# Where that took so long the system had given the thread's processor to others in the meantime. Looking then only costs
# the thread its turn when there is work: it goes to sleep at once after its next calls, so many.
INTERRUPTED_SECONDS = 2e-3
CALLS_WITHOUT_LOOKING = 100
# Raised by every kernel that threads share, when it begins: by then there is work, and the interpreter's lock is free
# for the threads that look here. One that wanted the lock earlier would be put to sleep.
UNDER_WAY: Integers = np.zeros(1, np.int64)
SILENT = nullcontext()

Task = Callable[[], None]
Job = tuple[Task, list[None], "SimpleQueue[BaseException | None]", Integers]
_jobs: SimpleQueue[Job] = SimpleQueue()
_lock = threading.Lock()
_started = 0
_compiled: set[object] = set()  # what has run before
_said = False


@contextmanager
def one_torch_thread() -> Iterator[int]:
    """Let torch take one thread for the caller's small operations between kernels; yield the number that it was set to.

    Torch's own threads would spin on the cores where the kernels' threads should run. Whatever ends the block, an
    interrupt included, the caller has its number back, or the one that it has set in the meantime; other threads never
    see a change. Where torch's OpenMP is not found nothing is set, which costs time and no more.
    """
    threads = torch.get_num_threads()  # first of all: it gives a new thread the process's number
    set_threads = find_setter()
    if threads == 1 or set_threads is None:
        yield threads
        return
    kept = threads
    try:
        set_threads(1)
        yield threads
        found = torch.get_num_threads()
        kept = threads if found == 1 else found
    finally:
        set_threads(kept)  # one call of C: an interrupt, which Python raises between calls, cannot prevent it


def run_together(task: Task, threads: int) -> None:
    """Call `task` on up to so many threads at once, the caller's among them; the calls claim their shares of the work.

    A thread that has not begun when the caller is done is not waited for: nothing is left for it.
    """
    if threads == 1:
        task()
        return
    tickets: list[None] = [None] * (threads - 1)
    finished: SimpleQueue[BaseException | None] = SimpleQueue()
    ended: Integers = np.zeros(1, np.int64)
    jobs = _start_workers(threads - 1)
    for _ in range(threads - 1):
        jobs.put((task, tickets, finished, ended))
    errors: list[BaseException | None] = []
    try:
        task()
    finally:
        begun = threads - 1
        while _take(tickets):
            begun -= 1
        look_for(ended, begun, LOOKS)
        errors += [finished.get() for _ in range(begun)]
    for error in errors:
        if error is not None:
            raise error


def _take(tickets: list[None]) -> bool:
    """Whether there was a ticket left, which only one thread gets."""
    try:
        tickets.pop()
    except IndexError:
        return False
    return True


def announce_compilation(compiled: object) -> AbstractContextManager[None]:
    """A context that prints what is going on if the first run of something compiled takes as long as compiling does."""
    return SILENT if compiled in _compiled else _announce(compiled)


@contextmanager
def _announce(compiled: object) -> Iterator[None]:
    started, said = time.monotonic(), threading.Event()
    timer = threading.Timer(ANNOUNCE_AFTER_SECONDS, _say_once, [said])
    timer.daemon = True
    timer.start()
    try:
        yield
        _compiled.add(compiled)
    finally:
        timer.cancel()
        if said.is_set():
            print(COMPILED.format(seconds=time.monotonic() - started), file=sys.stderr, flush=True)


def _say_once(said: threading.Event) -> None:
    """Say what is going on, unless some call has said it before, and tell the caller that it was said."""
    global _said
    if not _said:
        _said = True
        print(COMPILING, file=sys.stderr, flush=True)
        said.set()


def _start_workers(wanted: int) -> SimpleQueue[Job]:
    """The queue of jobs, which at least as many threads as wanted read from; they end with the process."""
    global _started
    with _lock:
        if _started == 0:
            _compile_looking()
        for _ in range(_started, wanted):
            threading.Thread(target=_work, args=(_jobs,), name="alphabet-cpu", daemon=True).start()
        _started = max(_started, wanted)
    return _jobs


def _compile_looking() -> None:
    """Compile what threads call between tasks, when nobody waits for them.

    A process that forks while one of them compiles leaves its child the compiler's lock, which nobody there gives back.
    """
    counters: Integers = np.zeros(1, np.int64)
    count_up(counters)
    look_for(counters, 0, 1)
    end_and_look(counters, counters, 0, 1)


def _work(jobs: SimpleQueue[Job]) -> None:
    calls_without = 0
    while True:
        ended = _run(*jobs.get())  # whose locals end with it: a thread that waits keeps no arrays of the last call
        if ended is None:
            continue
        calls_without = max(0, calls_without - 1)
        if calls_without:
            count_up(ended)
        elif not _look_for_work(ended, jobs):
            calls_without = CALLS_WITHOUT_LOOKING


def _run(
    task: Task, tickets: list[None], finished: "SimpleQueue[BaseException | None]", ended: Integers
) -> Integers | None:
    """Call the task and keep for the caller how it ended, unless there is no ticket left; returns what is to be raised.

    That is raised after the task is let go of.
    """
    if not _take(tickets):
        return None
    finished.put(_call(task))
    return ended


def _look_for_work(ended: Integers, jobs: SimpleQueue[Job]) -> bool:
    """Tell the caller that the task has ended, and look for more for a while; whether nobody took the processor."""
    seen, began = int(UNDER_WAY[0]), time.perf_counter()
    if jobs.empty():  # asked after `seen` was read: a kernel that begins from now on is noticed
        end_and_look(ended, UNDER_WAY, seen + 1, LOOKS_FOR_WORK)
    else:
        count_up(ended)
    return time.perf_counter() - began < INTERRUPTED_SECONDS


def _call(task: Task) -> BaseException | None:
    """What the task raised, if anything."""
    try:
        task()
    except BaseException as error:
        return error
    return None


def _forget_workers() -> None:
    """After a fork the child has none of its parent's threads, and perhaps a lock that one of them held."""
    global _jobs, _lock, _started
    _jobs, _lock, _started = SimpleQueue(), threading.Lock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_workers)
