"""What a measurement depends on: device, driver, versions, sources, threads, settings. Nothing names the machine."""

import atexit
import importlib.metadata
import importlib.util
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from alphabet_audit.errors import AuditError
from alphabet_audit.evidence.canonical import hash_of, hash_tree
from alphabet_audit.evidence.environment_form import (
    FRESH_KERNELS,
    GPU_IDENTITY,
    GPU_STATE,
    KEPT_KERNELS,
    LIBRARIES,
    OURS,
    VARIABLES,
)
from alphabet_audit.measure.vectors import describe_vectors

# Where numba, Triton and torch.compile keep what they compiled.
KERNEL_CACHES = ("NUMBA_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
_fresh: list[str] = []
IDENTIFYING = ("__init__.py", "version.py", "_version.py")
CORE = Path("/sys/devices/system/cpu/cpu0")
CORE_STATE = {
    "governor": "cpufreq/scaling_governor",
    "frequency": "cpufreq/scaling_cur_freq",
    "throttled": "thermal_throttle/core_throttle_count",
}


def describe_environment(device: str, vectors: str | None = None, *, compiled: bool = False) -> dict[str, Any]:
    """Everything that must stay the same for a run to be resumed; `git` is None outside a checkout.

    vectors: what a run on a CPU is restricted to; compiled: whether torch.compile is part of it
    """
    return {
        "device": describe_device(device),
        "system": {"platform": platform.system(), "machine": platform.machine(), "python": platform.python_version()},
        "versions": {name: find_version(name) for name in (*OURS, *LIBRARIES)},
        "sources": {name: hash_package(name) for name in OURS},
        "libraries": {name: hash_library(name) for name in LIBRARIES},
        "kernels": FRESH_KERNELS if has_fresh_kernels() else KEPT_KERNELS,
        "threads": describe_threads(),
        "settings": describe_settings(),
        "vectors": describe_vectors(vectors, compiled=compiled) if device == "cpu" else None,
        "git": describe_checkout(Path(__file__).resolve().parents[1]),
    }


def read_state(device: str) -> dict[str, Any]:
    """What may change while a run lasts (clocks, throttling, load), which is recorded and never compared."""
    if device == "cuda":
        return {"gpu": query_gpu(GPU_STATE)}
    load = [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else None
    return {"load": load, **{name: read_line(CORE / path) for name, path in CORE_STATE.items()}}


def describe_device(device: str) -> dict[str, Any]:
    """The device's type and name; of a CUDA device also its capability, driver and limits."""
    if device == "cuda":
        import torch

        major, minor = torch.cuda.get_device_capability()
        return {
            "type": device,
            "name": torch.cuda.get_device_name(),
            "capability": f"{major}.{minor}",
            "cuda": torch.version.cuda,
            "gpu": query_gpu(GPU_IDENTITY),
        }
    return {"type": device, "name": processor_name(), "cores": os.cpu_count()}


def processor_name() -> str:
    """The processor's name by the kernel, or else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def query_gpu(fields: tuple[str, ...]) -> dict[str, str] | None:
    """Fields of the first GPU by nvidia-smi, or None where that cannot be run."""
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return dict(zip(fields, (part.strip() for part in answer.splitlines()[0].split(",")), strict=False))


def read_line(path: Path) -> str | None:
    """The text of a file of one line, or None where it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return None


def find_version(module: str) -> str | None:
    """The version of the distribution that a module comes with, or None if it is not installed."""
    try:
        return importlib.metadata.version(module.replace("_", "-"))
    except importlib.metadata.PackageNotFoundError:
        return None


def hash_package(name: str) -> str | None:
    """The hash of one of our packages: of the names and hashes of all its files; None if it is not installed.

    As `alphabet_audit.judge.sources` computes it from a commit.
    """
    top = find_folder(name)
    if top is None:
        return None
    files = [path for path in top.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return hash_tree({path.relative_to(top).as_posix(): hash_of(path.read_bytes()) for path in files})


def hash_library(name: str) -> str | None:
    """The hash of the files that identify a library's build; None if it is not installed."""
    top = find_folder(name)
    if top is None or find_version(name) is None:
        return None
    files = [top / each for each in IDENTIFYING if (top / each).is_file()]
    return hash_tree({path.name: hash_of(path.read_bytes()) for path in files})


def find_folder(name: str) -> Path | None:
    """The folder that a package is imported from, or None if it is not installed."""
    spec = importlib.util.find_spec(name)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def use_fresh_kernels() -> None:
    """Let everything that is compiled from now on be compiled by this process, into a folder that ends with it.

    Compiled code on disk is code that no recorded hash covers. It must be called before kernels are imported.
    """
    if {"alphabet_cpu", "alphabet_baselines.compiling"} & set(sys.modules):
        raise AuditError("kernels were imported before the ledger began: start it in a process of its own")
    folder = tempfile.TemporaryDirectory(prefix="alphabet-audit-")
    atexit.register(folder.cleanup)
    os.environ |= {name: str(Path(folder.name) / name.lower()) for name in KERNEL_CACHES}
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"]
    _fresh.append(folder.name)


def has_fresh_kernels() -> bool:
    """Whether this process compiles into a folder of its own."""
    return bool(_fresh) and all(os.environ.get(name, "").startswith(_fresh[0]) for name in KERNEL_CACHES)


def describe_threads() -> dict[str, Any]:
    """The numbers of usable and used threads, and the environment variables that may have set them."""
    import torch

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "usable": usable,
        "torch": torch.get_num_threads(),
        "torch_interop": torch.get_num_interop_threads(),
        "variables": {name: os.environ.get(name) for name in VARIABLES},
    }


def describe_settings() -> dict[str, Any]:
    """The settings of torch that would make it compute in less than plain float32."""
    import torch

    return {
        "matmul_tf32": torch.backends.cuda.matmul.allow_tf32,
        "cudnn_tf32": torch.backends.cudnn.allow_tf32,
        "autocast": torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"),
        "matmul_precision": torch.get_float32_matmul_precision(),
    }


def require_plain_float32() -> None:
    """Switch off TF32 and every other reduced precision in torch."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")


def describe_checkout(folder: Path) -> dict[str, Any] | None:
    """The commit that the sources in a folder are from and whether they differ from it; None outside a checkout.

    A wheel in a virtual environment may lie inside some other project's checkout, whose commit says nothing about it:
    only sources that git tracks count.
    """

    def ask(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()

    try:
        ask("ls-files", "--error-unmatch", "--", "__init__.py")
        top = ask("rev-parse", "--show-toplevel")
        changed = ask("status", "--porcelain", "--", f"{top}/packages", f"{top}/audit")
        return {"commit": ask("rev-parse", "HEAD"), "dirty": bool(changed)}
    except (OSError, subprocess.SubprocessError):
        return None
