"""Times of every launch of the audit's designs on this GPU, by CUDA events, warm, beside the static model's estimates.

`python kernel_times.py OUT.csv` needs a CUDA device. A launch is repeated inside one CUDA graph, so that the host does
not count; its inputs stay in L2, as they do in a recorded call. The last rows are whole recorded calls.
"""

import csv
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from alphabet_core import Alphabet, AlphabetConfig
from alphabet_triton import TritonRuntime, TritonTrainer
from alphabet_triton.launching import Launch, TritonDevice
from time_model.ada import SECONDS_PER_NODE
from time_model.designs import PHASES, Design, estimate_designs, list_designs, list_launches
from time_model.inputs import fill
from time_model.nodes import count_nodes
from time_model.table import total

FIELDS = ("design", "phase", "kernel", "us", "us, estimated", "bound")
REPEATS, ROUNDS = 20, 15


def time_call(call: Callable[[], object], repeats: int) -> float:
    """The median seconds of a call, `repeats` of which are timed at once, after as many to warm up."""
    times = []
    for _ in range(repeats):
        call()
    for _ in range(ROUNDS):
        begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begun.record()
        for _ in range(repeats):
            call()
        ended.record()
        ended.synchronize()
        times.append(begun.elapsed_time(ended) / 1e3 / repeats)
    return statistics.median(times)


def time_launch(launch: Launch) -> float:
    """Seconds of one launch as a node of a graph."""
    tensors = {name: tensor.cuda() for name, tensor in fill(launch.tensors).items()}
    moved = Launch(launch.kernel, launch.grid, tensors, launch.scalars, launch.blocks, launch.flags)
    device = TritonDevice()
    device.run(moved)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(REPEATS):
            device.run(moved)
    return time_call(graph.replay, 1) / REPEATS


def time_whole(design: Design, phase: str) -> float:
    """Seconds of a whole recorded call."""
    batch, length, width = design
    model = Alphabet(AlphabetConfig(channels=2, width=width, modes=width // 4, outputs=5)).cuda()
    values, targets = torch.randn(batch, length, 2, device="cuda"), torch.arange(batch, device="cuda") % 5
    if phase == "inference":
        runtime = TritonRuntime(model)
        return time_call(lambda: runtime(values), REPEATS)
    trainer = TritonTrainer(model)
    return time_call(lambda: trainer.step(values, targets), REPEATS)


def main(path: Path) -> None:
    """Write one row per launch and one per whole call, as they are measured; a failure is a row, too."""
    designs = list_designs()
    print("estimating", flush=True)
    rows, nodes = estimate_designs(designs), count_nodes()
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        for number, design in enumerate(designs):
            print(f"{number + 1} of {len(designs)}: {design}", flush=True)
            for phase in PHASES:
                mine = [row for row in rows if (row.design, row.phase) == (design, phase)]
                for row, launch in zip(mine, list_launches(design, phase), strict=True):
                    measured = attempt(partial(time_launch, launch))
                    found = row.estimate
                    estimated = "" if found is None else f"{(found.seconds + SECONDS_PER_NODE) * 1e6:.3f}"
                    writer.writerow(
                        [design, phase, launch.name, measured, estimated, row.problem if found is None else found.bound]
                    )
                measured = attempt(partial(time_whole, design, phase))
                writer.writerow(
                    [design, phase, "whole call", measured, f"{total(rows, design, phase, nodes)[1] * 1e6:.3f}", ""]
                )
                file.flush()


def attempt(measure: Callable[[], float]) -> str:
    """Microseconds, or what went wrong."""
    try:
        return f"{measure() * 1e6:.3f}"
    except RuntimeError as error:
        return f"failed: {str(error).splitlines()[0]}"


if __name__ == "__main__":
    if not torch.cuda.is_available():
        raise SystemExit("kernel_times.py needs a CUDA device, and torch finds none")
    main(Path(sys.argv[1]))
