"""Threads that run kernels side by side, as many as torch is set to use, and the message of a first compilation.

They are plain Python threads: the kernels release the interpreter's lock, any number of callers may share the pool, and
a forked child starts its own.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

import torch

COMPILING = (
    "alphabet-cpu: compiling kernels for this processor, which takes some ten seconds; "
    "they are kept on disk for the next time"
)
ANNOUNCE_AFTER_SECONDS = 2.0  # reading kernels from disk takes less

Task = Callable[[], None]
Job = tuple[Task, "SimpleQueue[BaseException | None]"]
_jobs: SimpleQueue[Job] = SimpleQueue()
_lock = threading.Lock()
_started = 0
_compiled: set[object] = set()  # what has run before
_said = False
_inside, _configured = 0, 1  # callers within `one_torch_thread`, and the number that torch was set to before


@contextmanager
def one_torch_thread() -> Iterator[int]:
    """Set torch to one thread around its small operations between kernels; yield the number that it was set to.

    Torch's own threads would spin on the cores where the kernels' threads should run. The kernels use the number that
    is yielded, and torch has it back afterwards.
    """
    global _inside, _configured
    with _lock:
        threads = torch.get_num_threads()
        if _inside and threads == 1:
            # Where a thread has set no number yet, torch shows the one that was set last anywhere: another caller's 1.
            threads = _configured
        _inside, _configured = _inside + 1, threads
        torch.set_num_threads(1)
    try:
        yield threads
    finally:
        with _lock:
            _inside -= 1
            torch.set_num_threads(threads)


def run_together(task: Task, threads: int) -> None:
    """Call `task` on so many threads at once, the caller's among them; the calls claim their shares of the work."""
    finished: SimpleQueue[BaseException | None] = SimpleQueue()
    for _ in range(threads - 1):
        _start_workers(threads - 1).put((task, finished))
    errors: list[BaseException | None] = []
    try:
        task()
    finally:
        errors += [finished.get() for _ in range(threads - 1)]
    for error in errors:
        if error is not None:
            raise error


@contextmanager
def announce_compilation(compiled: object) -> Iterator[None]:
    """Print what is going on if the first run of something compiled takes as long as compiling does."""
    if compiled in _compiled:
        yield
        return
    timer = threading.Timer(ANNOUNCE_AFTER_SECONDS, _say_once)
    timer.daemon = True
    timer.start()
    try:
        yield
        _compiled.add(compiled)
    finally:
        timer.cancel()


def _say_once() -> None:
    global _said
    if not _said:
        _said = True
        print(COMPILING, file=sys.stderr, flush=True)


def _start_workers(wanted: int) -> SimpleQueue[Job]:
    """The queue of jobs, which at least as many threads as wanted read from; they end with the process."""
    global _started
    with _lock:
        for _ in range(_started, wanted):
            threading.Thread(target=_work, args=(_jobs,), name="alphabet-cpu", daemon=True).start()
        _started = max(_started, wanted)
    return _jobs


def _work(jobs: SimpleQueue[Job]) -> None:
    while True:
        task, finished = jobs.get()
        try:
            task()
        except BaseException as error:
            finished.put(error)
        else:
            finished.put(None)


def _forget_workers() -> None:
    """After a fork the child has none of its parent's threads, and perhaps a lock that one of them held."""
    global _jobs, _lock, _started, _inside
    if _inside:
        torch.set_num_threads(_configured)
    _jobs, _lock, _started, _inside = SimpleQueue(), threading.Lock(), 0, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_workers)
