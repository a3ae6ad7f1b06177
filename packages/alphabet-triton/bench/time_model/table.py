"""Estimates as tables: every launch of one design, and all designs before and after issue 17."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from time_model.ada import SECONDS_PER_NODE
from time_model.designs import Design, Row

# Written by `static_report.py --estimate --csv` with the packages of that commit in place of the current ones.
BEFORE = Path(__file__).parents[1] / "estimates-before-issue-17.csv"
SHOWN: Design = (32, 512, 64)
PREFACE = f"""
RTX 4090, ESTIMATED from machine code; nothing ran on a GPU, and no figure here is a measurement.
A launch takes as long as the busiest unit of a multiprocessor works, or as one program after another waits for its own
results (serial), whichever is more. Loops run as often as executed PTX says; every graph node adds
{SECONDS_PER_NODE * 1e6:.1f} us. Left out: bank conflicts and uncoalesced access, contention in L2, instruction fetch,
slow paths of divisions, clocks below boost, the host, and what torch's own nodes compute: they count as nodes only.
Every path of a branch is counted. Latencies are assumed (time_model/ada.py)."""

Nodes = Mapping[str, tuple[int, int]]


def total(rows: Sequence[Row], design: Design, phase: str, nodes: Nodes) -> tuple[float, float]:
    """Estimated seconds of a design's call: in kernels of this package, and with what its graph's nodes cost."""
    found = [row.estimate for row in rows if (row.design, row.phase) == (design, phase)]
    kernels = sum(each.seconds for each in found if each is not None)
    return kernels, kernels + nodes[phase][0] * SECONDS_PER_NODE


def format_launches(rows: Sequence[Row], design: Design) -> list[str]:
    """A line for every launch of a design."""
    lines = [
        "phase     kernel                 programs warps  regs  waves  warps/  instructions of a warp   float64  "
        "tensor   MB      serial  us,       bound",
        "                                                           scheduler  in loops   outside               "
        "      requested  cycles  estimated",
    ]
    for row in rows:
        if row.design != design:
            continue
        programs = 1
        for size in row.grid:
            programs *= size
        head = f"{row.phase:9s} {row.kernel:22s} {programs:8d} {row.warps:5d} {row.registers:5d}"
        if row.estimate is None:
            lines.append(f"{head}  no estimate: {row.problem}")
            continue
        e = row.estimate
        inside, outside = (sum(pair[i] for pair in e.instructions.values()) for i in (0, 1))
        double, tensor = (sum(e.instructions.get(kind, (0.0, 0.0))) for kind in ("float64", "tensor"))
        counts = f"{inside:9.0f} {outside:9.0f} {double:9.0f} {tensor:7.0f} {e.requested / 1e6:9.2f} {e.serial:9.0f}"
        time = f"{e.seconds * 1e6:9.2f}  {e.bound}"
        lines.append(f"{head} {e.waves:6d} {e.warps_per_scheduler:9.2f} {counts} {time}")
    return lines


def format_designs(rows: Sequence[Row], nodes: Nodes) -> list[str]:
    """A line for every design and phase: before issue 17, and now."""
    old = read_before()
    lines = [
        f"                              before issue 17 ({old['commit']})           now",
        "(B, T, D)          phase      nodes  us, estimated   launches  nodes  us of kernels  us, estimated",
    ]
    for design in dict.fromkeys(row.design for row in rows):
        for phase in dict.fromkeys(row.phase for row in rows):
            mine = [row for row in rows if (row.design, row.phase) == (design, phase)]
            kernels, whole = total(rows, design, phase, nodes)
            missing = sum(row.estimate is None for row in mine)
            note = f"  without {missing} launches" if missing else ""
            before_nodes, before = old["totals"].get((design, phase), (0, float("nan")))
            lines.append(
                f"{design!s:18s} {phase:9s} {before_nodes:6d} {before:14.1f} {len(mine):10d} {nodes[phase][0]:6d} "
                f"{kernels * 1e6:14.1f} {whole * 1e6:14.1f}{note}"
            )
    return lines


FIELDS = ("commit", "batch", "length", "width", "phase", "kernel", "launches", "us", "bound")
NODES = "graph nodes"


def write(path: Path, rows: Sequence[Row], nodes: Nodes, commit: str) -> None:
    """Write the estimates, kernel by kernel, and the nodes of each phase as rows of their own."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        for design in dict.fromkeys(row.design for row in rows):
            for phase in dict.fromkeys(row.phase for row in rows):
                mine = [row for row in rows if (row.design, row.phase) == (design, phase)]
                for kernel in dict.fromkeys(row.kernel for row in mine):
                    found = [row.estimate for row in mine if row.kernel == kernel]
                    us = "" if None in found else f"{sum(each.seconds for each in found if each) * 1e6:.3f}"
                    bounds = " ".join(dict.fromkeys(each.bound for each in found if each))
                    writer.writerow([commit, *design, phase, kernel, len(found), us, bounds])
                us = f"{nodes[phase][0] * SECONDS_PER_NODE * 1e6:.3f}"
                writer.writerow([commit, *design, phase, NODES, nodes[phase][0], us, "node"])


def read_before(path: Path = BEFORE) -> dict:
    """What was stored of the tree before issue 17: the commit, and nodes and microseconds by design and phase."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    totals: dict[tuple[Design, str], tuple[int, float]] = {}
    for row in rows:
        key = ((int(row["batch"]), int(row["length"]), int(row["width"])), row["phase"])
        nodes, us = totals.get(key, (0, 0.0))
        own = int(row["launches"]) if row["kernel"] == NODES else 0
        totals[key] = nodes + own, us + float(row["us"] or "nan")
    return {"commit": rows[0]["commit"], "totals": totals}
