"""Processor time of the host per call, with a device that does nothing: what Python costs before a GPU can begin.

`python host_time.py [SOURCES ...]` times the sources that are installed, and others beside them, such as those of an
earlier commit: each is a folder with alphabet_core and alphabet_triton in it. They take turns, each in a process of its
own, and medians are printed. Copies of inputs and outputs are real, on a CPU; no kernel runs, and no GPU is involved.
"""

import os
import statistics
import subprocess
import sys
import time

ROUNDS = 3
CALLS = 400


def measure() -> None:
    """Print microseconds per inference call and per step, at the audit's size."""
    import torch
    from alphabet_core import Alphabet, AlphabetConfig
    from alphabet_triton import TritonRuntime, TritonTrainer
    from alphabet_triton.launching import RecordingDevice

    def forget(run, changed):  # noqa: ARG001
        return lambda: None

    torch.set_num_threads(1)
    model = Alphabet(AlphabetConfig(2, 64, 16, 5))
    runtime = TritonRuntime(model, device=RecordingDevice(), capture=forget)
    trainer = TritonTrainer(Alphabet(AlphabetConfig(2, 64, 16, 5)), device=RecordingDevice(), capture=forget)
    values, targets = torch.randn(32, 512, 2), torch.arange(32) % 5
    for call in (lambda: runtime(values), lambda: trainer.step(values, targets)):
        for _ in range(20):
            call()
        times = []
        for _ in range(CALLS):
            begun = time.process_time_ns()
            call()
            times.append(time.process_time_ns() - begun)
        print(statistics.median(times) / 1e3)


def compare(sources: list[str]) -> None:
    """Print the medians over rounds of the installed package and of others."""
    found: dict[str, list[list[float]]] = {name: [] for name in ("installed", *sources)}
    for _ in range(ROUNDS):
        for name, rows in found.items():
            path = {} if name == "installed" else {"PYTHONPATH": name}
            result = subprocess.run(
                [sys.executable, __file__, "--measure"],
                env={**os.environ, **path, "OMP_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                check=True,
            )
            rows.append([float(line) for line in result.stdout.split()])
    for name, rows in found.items():
        call, step = (statistics.median(column) for column in zip(*rows, strict=True))
        print(f"{name}: {call:.0f} us per inference call, {step:.0f} us per step, of the host alone")


if __name__ == "__main__":
    measure() if sys.argv[1:] == ["--measure"] else compare(sys.argv[1:])
