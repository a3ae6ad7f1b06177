"""Estimates of what the kernels of each design move and compute, and of the least time on an RTX 4090. Nothing is run.

The traffic of a launch is every tensor that it reads or writes, counted once: what several programs read is assumed to
come from the cache.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from alphabet_core import Alphabet, AlphabetConfig
from alphabet_triton.configurations import list_inference, list_training
from alphabet_triton.launching import Launch

# From NVIDIA's data sheet: memory bandwidth, float32 and dense tf32 rates. A tf32x3 product takes three of tf32's.
BYTES_PER_SECOND = 1008e9
FLOAT32_PER_SECOND = 82.6e12
TF32X3_PER_SECOND = 82.6e12 / 3
SECONDS_PER_LAUNCH = 1.5e-6  # within a CUDA graph; assumed
# The audit's own file, read in place: the environment that compiles kernels has no alphabet-audit.
DECLARED = Path(__file__).parents[2] / "alphabet-audit" / "src" / "alphabet_audit" / "data" / "designs.toml"
# Tensors that a kernel is given but does not access if a flag is not set, and if a flag is set.
UNTOUCHED_WITHOUT = {"KEEP": {"pre", "scale_2"}, "STORE": {"states"}}
UNTOUCHED_WITH = {"ALONE": {"d_lifted", "d_scale", "d_states"}}


@dataclass(frozen=True)
class Cost:
    """The cost of some launches: their number, bytes moved, operations in tensor cores and others, and seconds."""

    launches: int = 0
    bytes: float = 0.0
    products: float = 0.0
    others: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


def count_bytes(launch: Launch) -> float:
    """The traffic of one launch, in bytes."""
    untouched = {
        name for flag, names in UNTOUCHED_WITHOUT.items() if not launch.flags.get(flag, True) for name in names
    }
    untouched |= {name for flag, names in UNTOUCHED_WITH.items() if launch.flags.get(flag, False) for name in names}
    if launch.flags.get("WIDE", False):
        untouched.discard("pre")
    if not launch.flags.get("NORMED", True):
        untouched.add("scale")
    tensors = {t.data_ptr(): t for name, t in launch.tensors.items() if name not in untouched}
    return float(sum(t.numel() * t.element_size() for t in tensors.values()))


def count_operations(launch: Launch, batch: int) -> tuple[float, float]:
    """The operations in tensor cores and elsewhere; a multiply-add is two, halos and padding are not counted."""
    s = launch.scalars
    tokens = batch * s.get("T", 0)
    match launch.name:
        case "edge_fwd_kernel":
            return 2 * tokens * s["D"] * s["N"], tokens * s["D"] * (10 * s["C"] + 20)
        case "reader_fwd_kernel":
            return 12 * tokens * s["D"] * s["N"], tokens * s["D"] * 40
        case "scan_fwd_kernel":
            return 0, tokens * s["M"] * (8 * 14 + 40)
        case "scan_bwd_kernel":
            return 0, tokens * s["M"] * (8 * 14 + 80)
        case "norm_bwd_kernel":
            return 2 * tokens * s["D"] * s["N"], tokens * s["D"] * 25
        case "outer_bwd_kernel":
            return 2 * tokens * s["L"] * s["R"], tokens * s["R"] * 10
        case "reader_bwd_kernel":
            return 4 * tokens * s["D"] * s["N"], tokens * s["D"] * 40
        case "edge_bwd_kernel":
            return 0, tokens * s["D"] * (20 + 6 * s["C"])
        case "turn_kernel":  # eight terms, in one substep
            return 0, 8 * 2 * launch.tensors["moved"].numel() * s["D"]
        case "orthonormalize_kernel":
            return 0, 2 * 2 * launch.tensors["moved"].numel() * s["D"]
    return 0, 0  # fold, head and the optimizer: bound by their launch


def estimate(launch: Launch, batch: int) -> Cost:
    """The cost of a launch; its time is that of launching and the larger of those for traffic and for arithmetic."""
    moved, (products, others) = count_bytes(launch), count_operations(launch, batch)
    seconds = max(moved / BYTES_PER_SECOND, products / TF32X3_PER_SECOND + others / FLOAT32_PER_SECOND)
    return Cost(1, moved, products, others, SECONDS_PER_LAUNCH + seconds)


def list_launches(batch: int, length: int, width: int, *, train: bool) -> list[Launch]:
    """The launches of a training step, or else of inference, at a shape (B, T, D) with the audit's other sizes."""
    model = Alphabet(AlphabetConfig(channels=2, width=width, modes=width // 4, outputs=5))
    return (list_training if train else list_inference)(model, batch, length, masked=False)


def print_estimates() -> None:
    """Print two tables: each launch at one shape, and a line for each design and phase."""
    print("\nRTX 4090, ESTIMATED from its data sheet and 1.5 us a launch; nothing ran on a GPU.")
    print("A step counts the kernels of this package, not what torch adds: sums, loss and the frames' constraint.")
    for train in (False, True):
        print(f"\n{'step' if train else 'inference'} at (32, 512, 64)\n{'kernel':20s}      MB  MFLOP  us, estimated")
        for launch in list_launches(32, 512, 64, train=train):
            cost = estimate(launch, 32)
            flops = (cost.products + cost.others) / 1e6
            print(f"{launch.name:20s} {cost.bytes / 1e6:7.2f}  {flops:5.0f}  {cost.seconds * 1e6:13.1f}")
    print("\n(B, T, D)          phase      launches      MB  compulsory MB  MFLOP  us, estimated")
    for batch, length, width in tomllib.loads(DECLARED.read_text())["shapes"]["parameter-matched"]:
        for train in (False, True):
            launches = list_launches(batch, length, width, train=train)
            cost = sum((estimate(launch, batch) for launch in launches), Cost())
            # Values in, logits out; weights and the state of the optimizer are small beside them.
            compulsory = 4 * batch * (length * 2 + 5)
            print(
                f"{f'({batch}, {length}, {width})':18s} {'step' if train else 'inference':9s} {cost.launches:9d} "
                f"{cost.bytes / 1e6:7.1f}  {compulsory / 1e6:13.2f}  {(cost.products + cost.others) / 1e6:5.0f}  "
                f"{cost.seconds * 1e6:13.1f}"
            )
