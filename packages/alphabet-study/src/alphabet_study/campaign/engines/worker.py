"""The process in which the local engine computes fits: one at a time, on one thread, gone as soon as its parent is.

This module imports little, so that a worker starts quickly; what a fit needs comes with the fit.
"""

import os
import pickle
import queue
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

from alphabet_study.campaign.engines.engine import one_line

# What a worker answers: that it can start, that a fit gave this record, that it raised.
READY, RECORD, RAISED = "ready", "record", "raised"
PARENT_GONE = 3


def serve(connection: Connection) -> None:
    """Compute the fits that arrive; the first message is the function that computes them."""
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, messages), daemon=True).start()
    fit = pickle.loads(messages.get())
    use_one_thread()
    connection.send((READY, None))
    while True:
        job, task = pickle.loads(messages.get())
        try:
            answer = (RECORD, fit(job, task))
        except Exception as error:
            connection.send((RAISED, describe(error)))
            return  # whatever a failed fit left behind ends with this process
        connection.send(answer)


def describe(error: Exception) -> str:
    """What was raised and where, in one line."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return one_line(f"{type(error).__name__}: {error}".rstrip(": ") + where)


def _listen(connection: Connection, messages: "queue.SimpleQueue[bytes]") -> None:
    """Pass messages on; end the process, in the midst of a fit if need be, when the parent's end is closed."""
    while True:
        try:
            messages.put(connection.recv_bytes())
        except (EOFError, OSError):
            os._exit(PARENT_GONE)


def use_one_thread() -> None:
    """Keep torch to one thread, if the fit uses it; the environment does the same for OpenMP, BLAS and numba."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
