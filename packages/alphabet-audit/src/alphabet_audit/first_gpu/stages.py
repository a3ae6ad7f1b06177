"""What a first run on a GPU does: commands in the checkout, in order, each with a limit; about an hour in all."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

GPU_TESTS = "packages/alphabet-triton/tests/gpu"
KERNEL_TIMES = "packages/alphabet-triton/bench/kernel_times.py"
DESCRIBE = """
import importlib.metadata, json, platform, subprocess, sys
import torch
def git(*words):
    try:
        return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout.rstrip()
    except (OSError, subprocess.CalledProcessError) as error:
        return str(error)
found = {"python": sys.version, "platform": platform.platform(), "torch": torch.__version__, "cuda": torch.version.cuda}
found["devices"] = [str(torch.cuda.get_device_properties(i)) for i in range(torch.cuda.device_count())]
try:
    import triton
    found["triton"] = triton.__version__
except ImportError as error:
    found["triton"] = str(error)
found["commit"], found["changed files"] = git("rev-parse", "HEAD"), git("status", "--porcelain").splitlines()
found["installed"] = sorted(f"{each.name} {each.version}" for each in importlib.metadata.distributions())
print(json.dumps(found, indent=1))
"""


@dataclass(frozen=True)
class Stage:
    """A command and what it shows; `limit` in minutes. `tool`, if given, must be on the path, or it is not run."""

    name: str
    shows: str
    limit: float
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    tool: str | None = None
    needs_gpu: bool = True


def list_stages(out: Path, *, on_ptx: bool = False) -> list[Stage]:
    """The stages of a run that writes to a folder; `on_ptx`, only the suite, on executed PTX and small models."""
    about = Stage("environment", "Python, torch, Triton, device, commit", 1, python("-c", DESCRIBE), needs_gpu=False)
    if on_ptx:
        # Of a name of its own: who runs this first and then the suite natively must not find the suite done.
        name, shows = "suite-on-ptx", "the suite on executed PTX, small models"
        return [about, Stage(name, shows, 30, suite(out, name), kept(out, name, "ptx"), needs_gpu=False)]
    uncached = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    watched = {**uncached, "ALPHABET_GPU_SMALL": "1"}
    launches = ("-m", "not captures")  # a graph is captured with torch's caching allocator only
    return [
        about,
        Stage("device", "driver, clocks, temperature", 1, ("nvidia-smi", "-q"), tool="nvidia-smi"),
        Stage(
            "suite", "every configuration natively against executed PTX; graphs replayed", 14,
            suite(out, "suite"), kept(out, "suite", "native"),
        ),
        Stage(
            "uncached", "launches without torch's caching allocator", 5,
            suite(out, "uncached", *launches), {**kept(out, "uncached", "native"), **uncached},
        ),
        *(
            Stage(
                tool, f"launches under compute-sanitizer's {tool}", 4,
                (*sanitizer(out, tool), *suite(out, tool, *launches)), {**kept(out, tool, "native"), **watched},
                tool="compute-sanitizer",
            )
            for tool in ("memcheck", "racecheck")
        ),
        Stage("parity", "the audit's gates", 5, python("-m", "alphabet_audit", "parity", "--out", str(out / "parity"))),
        Stage("times", "every kernel's time beside its estimate", 6, python(KERNEL_TIMES, str(out / "times.csv"))),
        Stage(
            "ledger", "ALPHABET against nine families, 90 cells", 20,
            python("-m", "alphabet_audit", "ledger", "--device", "cuda", "--out", str(out / "ledger")),
        ),
    ]  # fmt: skip


def python(*arguments: str) -> tuple[str, ...]:
    """A command of this environment's Python."""
    return (sys.executable, *arguments)


def suite(out: Path, name: str, *arguments: str) -> tuple[str, ...]:
    """The suite's command; its results go to a file of that name."""
    return python("-m", "pytest", GPU_TESTS, "-p", "no:cacheprovider", f"--junitxml={out / name}.xml", *arguments)


def kept(out: Path, name: str, device: str) -> dict[str, str]:
    """The environment in which the suite runs on a device and keeps what it compared."""
    return {"ALPHABET_GPU_OUT": str(out / name), "ALPHABET_GPU_SUITE": device}


def sanitizer(out: Path, tool: str) -> tuple[str, ...]:
    """The beginning of a command that compute-sanitizer watches."""
    return ("compute-sanitizer", "--tool", tool, "--error-exitcode", "9", "--log-file", str(out / f"{tool}.txt"))
