"""Cases in another process: each has its time, and one that crashes or does not end costs only its own row."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, Queue
from tempfile import TemporaryDirectory
from threading import Thread
from typing import IO, Any

from run_case import MARK

SCRIPT = Path(__file__).parent / "run_case.py"
UNKNOWN = {"error": "", "worst": "", "launches": 0, "steps": 0, "races": 0, "raced": "", "changed": ""}


def run_apart(module: str, arch: str, names: list[str], seconds: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name and row of each case as it ends; behind a crash or a time limit the rest runs in a new process."""
    left = list(names)
    while left:
        for row in run_process([sys.executable, str(SCRIPT), module, arch, *left], seconds):
            yield left.pop(0), row
            if row["outcome"] in ("crashed", "too long") or not left:
                break


def run_process(command: list[str], seconds: float) -> Iterator[dict[str, Any]]:
    """The rows that a process prints; the last one says that it crashed or took too long, if it did."""
    with TemporaryDirectory() as folder, Path(folder, "stderr").open("w+") as complaints:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, text=True)
        assert process.stdout is not None
        lines: Queue[str | None] = Queue()
        reader = Thread(target=forward, args=(process.stdout, lines), daemon=True)
        reader.start()
        began = time.perf_counter()
        try:
            while True:
                line = lines.get(timeout=max(0.0, began + seconds - time.perf_counter()))
                if line is None:
                    complaints.seek(0)
                    last = " ".join(complaints.read().split())[-300:]
                    reason = f"the process ended with {process.wait()}: {last}"
                    yield UNKNOWN | {"outcome": "crashed", "reason": reason, "seconds": 0}
                    return
                if line.startswith(MARK):
                    began = time.perf_counter()
                    yield json.loads(line.removeprefix(MARK))
        except Empty:
            yield UNKNOWN | {"outcome": "too long", "reason": f"not ended after {seconds} s", "seconds": seconds}
        finally:
            process.kill()
            process.wait()
            reader.join()
            process.stdout.close()


def forward(lines: IO[str], to: "Queue[str | None]") -> None:
    """Hand over a process's lines, then None."""
    for line in lines:
        to.put(line)
    to.put(None)
