"""The runtimes that gates and ledger try, each a value: what makes it, and where it runs."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from alphabet_core import Alphabet, Recipe
from torch import Tensor

from alphabet_audit.errors import AuditError
from alphabet_audit.parity_plan import CPU, INTERPRETED, NATIVE

FUSED = "fused"
DEVICES = ("cpu", "cuda")


class Inference(Protocol):
    """Logits of values and masks, and which implementation a call takes."""

    def __call__(self, values: Tensor, *, observed: Tensor | None = None, valid: Tensor | None = None) -> Tensor: ...

    def path(self, values: Tensor, *, observed: Tensor | None = None, valid: Tensor | None = None) -> str: ...


class Trainer(Protocol):
    """Complete steps, and gradients alone."""

    def step(self, values: Tensor, targets: Tensor) -> Tensor: ...

    def accumulate(self, values: Tensor, targets: Tensor, share: float, **masks: Tensor) -> Tensor: ...

    def path(self, values: Tensor, *, observed: Tensor | None = None, valid: Tensor | None = None) -> str: ...


@dataclass(frozen=True)
class Runtime:
    """A pair of implementations of the same model. device: where tensors must be; plan: which cases it is tried on."""

    name: str
    device: str
    plan: str
    infer: Callable[[Alphabet], Inference]
    train: Callable[[Alphabet, Recipe], Trainer]


def cpu_runtime() -> Runtime:
    """alphabet-cpu."""
    from alphabet_cpu import CpuRuntime, CpuTrainer

    return Runtime(CPU, "cpu", "full", CpuRuntime, CpuTrainer)


def triton_runtime(device: str) -> Runtime:
    """alphabet-triton on a GPU, or with device "cpu" through Triton's interpreter at reduced shapes."""
    import alphabet_triton

    if device == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        raise AuditError("Triton's interpreter must be chosen before Python starts: set TRITON_INTERPRET=1")
    if not hasattr(alphabet_triton, "TritonTrainer"):
        raise AuditError("this alphabet-triton has no TritonTrainer: install the one of this checkout")
    plan = "full" if device == "cuda" else "reduced"
    name = NATIVE if device == "cuda" else INTERPRETED
    return Runtime(name, device, plan, alphabet_triton.TritonRuntime, alphabet_triton.TritonTrainer)


def has_cuda() -> bool:
    """Whether there is a device to run kernels on."""
    import torch

    return torch.cuda.is_available()


def choose_device(wanted: str | None) -> str:
    """The device that was asked for, if it is there; else CUDA where it is, and the CPU everywhere else."""
    if wanted is None:
        return "cuda" if has_cuda() else "cpu"
    if wanted not in DEVICES:
        raise AuditError(f"--device {wanted!r} is unknown; use one of {', '.join(DEVICES)}")
    if wanted == "cuda" and not has_cuda():
        raise AuditError("--device cuda: torch sees no CUDA device here; use --device cpu, whose ledger says cpu")
    return wanted


def ledger_runtime(device: str) -> Runtime:
    """The one that ALPHABET's arms run by."""
    return triton_runtime(device) if device == "cuda" else cpu_runtime()
