"""What the kernels of a design move and compute, and how long an RTX 4090 would take at best: an estimate, not a run.

Traffic is every tensor that a launch reads or writes, once; what programs read again is taken to come from the cache.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from alphabet_core import Alphabet, AlphabetConfig
from alphabet_triton.launching import Launch
from alphabet_triton.static import list_inference, list_training

# From NVIDIA's data sheet: memory bandwidth, float32 and dense tf32 rates. A tf32x3 product takes three of tf32's.
BYTES_PER_SECOND = 1008e9
FLOAT32_PER_SECOND = 82.6e12
TF32X3_PER_SECOND = 82.6e12 / 3
SECONDS_PER_LAUNCH = 1.5e-6  # within a CUDA graph; assumed
# The audit's own file, read in place: the environment that compiles kernels has no alphabet-audit.
AUDIT_DESIGNS = Path(__file__).parents[2] / "alphabet-audit" / "src" / "alphabet_audit" / "data" / "designs.toml"
# (B, T, D) of the systems audit; C = 2, K = 5, M = D / 4. (32, 512, 64) is also the same-width design.
DESIGNS = tomllib.loads(AUDIT_DESIGNS.read_text())["shapes"]["parameter-matched"]
UNREAD = {"KEEP": {"pre", "scale_2"}, "STORE": {"states"}}  # by the flag that is down
UNUSED = {"ALONE": {"d_lifted", "d_scale", "d_states"}}  # by the flag that is up


@dataclass(frozen=True)
class Cost:
    """Of a launch, or of several together."""

    launches: int = 0
    bytes: float = 0.0
    products: float = 0.0
    others: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


def count_bytes(launch: Launch) -> float:
    """Traffic of one launch."""
    dead = {name for flag, names in UNREAD.items() if not launch.flags.get(flag, True) for name in names}
    dead |= {name for flag, names in UNUSED.items() if launch.flags.get(flag, False) for name in names}
    if launch.flags.get("WIDE", False):
        dead.discard("pre")
    if not launch.flags.get("NORMED", True):
        dead.add("scale")
    tensors = {t.data_ptr(): t for name, t in launch.tensors.items() if name not in dead}
    return float(sum(t.numel() * t.element_size() for t in tensors.values()))


def count_operations(launch: Launch, batch: int) -> tuple[float, float]:
    """Operations in tensor cores and elsewhere, a multiply-add being two; halos and rows of padding not counted."""
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
    return 0, 0  # fold, head and the optimizer: bound by their launch


def estimate(launch: Launch, batch: int) -> Cost:
    """The larger of the times for traffic and for arithmetic, after the launch itself."""
    moved, (products, others) = count_bytes(launch), count_operations(launch, batch)
    seconds = max(moved / BYTES_PER_SECOND, products / TF32X3_PER_SECOND + others / FLOAT32_PER_SECOND)
    return Cost(1, moved, products, others, SECONDS_PER_LAUNCH + seconds)


def list_launches(batch: int, length: int, width: int, *, train: bool) -> list[Launch]:
    """Of a design, in one of its phases."""
    model = Alphabet(AlphabetConfig(channels=2, width=width, modes=width // 4, outputs=5))
    return (list_training if train else list_inference)(model, batch, length, masked=False)


def print_estimates() -> None:
    """Two tables: launch by launch at the anchor, and a line for each design and phase."""
    print("\nRTX 4090, ESTIMATED from its data sheet and 1.5 us a launch; nothing ran on a GPU.")
    print("Of a step only our kernels are counted, not what torch adds: sums, loss and the frames' constraint.")
    for train in (False, True):
        print(f"\n{'step' if train else 'inference'} at (32, 512, 64)\n{'kernel':20s}      MB  MFLOP  us, estimated")
        for launch in list_launches(32, 512, 64, train=train):
            cost = estimate(launch, 32)
            flops = (cost.products + cost.others) / 1e6
            print(f"{launch.name:20s} {cost.bytes / 1e6:7.2f}  {flops:5.0f}  {cost.seconds * 1e6:13.1f}")
    print("\n(B, T, D)          phase      launches      MB  compulsory MB  MFLOP  us, estimated")
    for batch, length, width in DESIGNS:
        for train in (False, True):
            launches = list_launches(batch, length, width, train=train)
            cost = sum((estimate(launch, batch) for launch in launches), Cost())
            # In, and out: values, and logits or the moved state of the optimizer; weights are small beside them.
            compulsory = 4 * batch * (length * 2 + 5)
            print(
                f"{f'({batch}, {length}, {width})':18s} {'step' if train else 'inference':9s} {cost.launches:9d} "
                f"{cost.bytes / 1e6:7.1f}  {compulsory / 1e6:13.2f}  {(cost.products + cost.others) / 1e6:5.0f}  "
                f"{cost.seconds * 1e6:13.1f}"
            )
