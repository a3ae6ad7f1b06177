"""Compile every configuration that dispatch can select, with no GPU: `nox -s gpu-static`.

Prints what each uses of a multiprocessor, writes it as JSON, and fails if any spills, uses the stack or has an opcode
that alphabet-ptx cannot execute. It then prints, or with `--estimate` prints only, launches, traffic and estimated time
on an RTX 4090 of every design (`roofline.py`).
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch
import triton
from alphabet_ptx import compile_kernel, list_unknown, resources
from alphabet_triton.configurations import list_configurations, signature
from alphabet_triton.launching import UNALIGNED, Launch
from roofline import print_estimates

ARCHITECTURES = ("sm_80", "sm_89", "sm_90")
EXECUTED = ("sm_80", "sm_89")  # sm_90's products are wgmma, which alphabet-ptx does not execute


def inspect(launch: Launch, arch: str) -> dict[str, Any]:
    """The resources of one configuration on one architecture, as a row of the report."""
    blocks = launch.blocks
    compiled = compile_kernel(
        launch.kernel, signature(launch), launch.constants, arch=arch, warps=blocks.warps, stages=blocks.stages,
        divisible=("TS",) if "TS" in launch.scalars else (),
        unaligned=[name for name in launch.tensors if name in UNALIGNED],
    )  # fmt: skip
    used = resources(compiled)
    return {
        "kernel": launch.name,
        "arch": arch,
        "flags": dict(launch.flags),
        "blocks": dict(blocks.sizes),
        "warps": blocks.warps,
        "registers": used.registers,
        "stack": used.stack,
        "spills": used.spill_stores + used.spill_loads,
        "shared": used.shared,
        "instructions": sum(used.instructions.values()),
        "mix": dict(used.instructions),
        "unknown": list_unknown(compiled) if arch in EXECUTED else [],
    }


def main() -> None:
    """Compile every configuration, print and save what it uses, and exit with 1 if any of them fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", choices=ARCHITECTURES, action="append", help="default: all three")
    parser.add_argument("--estimate", action="store_true", help="compile nothing")
    parser.add_argument("--json", type=Path, default=Path("gpu-static.json"))
    options = parser.parse_args()
    if options.estimate:
        print_estimates()
        return
    launches, rows = list(list_configurations()), []
    print(
        f"triton {triton.__version__}, torch {torch.__version__}: {len(launches)} configurations; nothing runs on a GPU"
    )
    for arch in options.arch or ARCHITECTURES:
        for number, launch in enumerate(launches):
            if sys.stderr.isatty():
                print(f"\r\033[K{arch} {number + 1} of {len(launches)}", end="", file=sys.stderr, flush=True)
            rows.append(inspect(launch, arch))
    options.json.write_text(json.dumps({"triton": triton.__version__, "rows": rows}, indent=1) + "\n")
    print("\nkernel               arch   configurations  registers  shared bytes  instructions  stack  spills")
    for name in sorted({row["kernel"] for row in rows}):
        for arch in options.arch or ARCHITECTURES:
            mine = [row for row in rows if (row["kernel"], row["arch"]) == (name, arch)]
            spans = {key: f"{min(r[key] for r in mine)}-{max(r[key] for r in mine)}" for key in (
                "registers", "shared", "instructions", "stack", "spills")}  # fmt: skip
            print(f"{name:20s} {arch}  {len(mine):14d}  {spans['registers']:>9s}  {spans['shared']:>12s}  "
                  f"{spans['instructions']:>12s}  {spans['stack']:>5s}  {spans['spills']:>6s}")  # fmt: skip
    bad = [row for row in rows if row["stack"] or row["spills"] or row["unknown"]]
    for row in bad:
        print("FAIL", {name: entry for name, entry in row.items() if name != "mix"})
    clean = f"{len(rows) - len(bad)} of {len(rows)}"
    print(f"{clean} without stack and spills; on {', '.join(EXECUTED)} every opcode can be executed")
    print(f"all figures: {options.json}")
    print_estimates()
    if bad:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
