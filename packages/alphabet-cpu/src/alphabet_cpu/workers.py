"""Threads that run compiled code side by side, as many as torch is set to use.

Plain Python threads: the kernels release the interpreter's lock, any number of callers may share the pool, and a forked
child starts its own.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

import torch

COMPILING = "alphabet-cpu: compiling its kernels for this processor, some ten seconds; the result is kept on disk"
PATIENCE = 2.0  # reading a kernel from disk takes less

Task = Callable[[], None]
Job = tuple[Task, "SimpleQueue[BaseException | None]"]
_jobs: SimpleQueue[Job] = SimpleQueue()
_lock = threading.Lock()
_started = 0
_ready: set[object] = set()  # what has run
_said = False
_inside, _configured = 0, 1  # callers between whose kernels torch has one thread, and what it had before


@contextmanager
def one_torch_thread() -> Iterator[int]:
    """Around small torch operations between kernels: torch's own threads would spin where the kernels' should run.

    Gives the number of threads that torch was set to, which the kernels use, and sets it back afterwards.
    """
    global _inside, _configured
    with _lock:
        threads = torch.get_num_threads()
        if _inside and threads == 1:
            # A thread's first look at the number shows what was set last anywhere: another caller's one, not its own.
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
    """Call `task` on so many threads at once, the caller's among them; the calls share out the work by themselves."""
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
def compile_aloud(what: object) -> Iterator[None]:
    """Around something compiled: if it is the first time, and takes as long as compiling does, say what is going on."""
    if what in _ready:
        yield
        return
    timer = threading.Timer(PATIENCE, _say_once)
    timer.daemon = True
    timer.start()
    try:
        yield
        _ready.add(what)
    finally:
        timer.cancel()


def _say_once() -> None:
    global _said
    if not _said:
        _said = True
        print(COMPILING, file=sys.stderr, flush=True)


def _start_workers(wanted: int) -> SimpleQueue[Job]:
    """The queue of jobs, with at least as many threads behind it as wanted; they end with the process."""
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
