"""The fused runtimes that gates and ledger try, each a value: its name, its device, and what makes it."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from alphabet_core import Alphabet, Recipe
from torch import Tensor

from alphabet_audit.declare.cases import CPU, INTERPRETED, NATIVE
from alphabet_audit.errors import AuditError

DEVICES = ("cpu", "cuda")


class Inference(Protocol):
    """Computes logits (B, K) of values (B, T, C) and masks, and says which implementation a call would take."""

    def __call__(self, values: Tensor, *, observed: Tensor | None = None, valid: Tensor | None = None) -> Tensor: ...

    def path(self, values: Tensor, *, observed: Tensor | None = None, valid: Tensor | None = None) -> str: ...


class Trainer(Protocol):
    """Runs complete steps or gradients alone, and says which implementation a call would take."""

    def step(self, values: Tensor, targets: Tensor) -> Tensor: ...

    def accumulate(self, values: Tensor, targets: Tensor, share: float, **masks: Tensor) -> Tensor: ...

    def path(self, values: Tensor, *, observed: Tensor | None = None, valid: Tensor | None = None) -> str: ...


@dataclass(frozen=True)
class Runtime:
    """A fused runtime. device: where its tensors must be; plan: the cases that it is tried on, "full" or "reduced"."""

    name: str
    device: str
    plan: str
    infer: Callable[[Alphabet], Inference]
    train: Callable[[Alphabet, Recipe], Trainer]


def cpu_runtime() -> Runtime:
    """The runtime of alphabet-cpu."""
    from alphabet_cpu import CpuRuntime, CpuTrainer

    return Runtime(CPU, "cpu", "full", CpuRuntime, CpuTrainer)


def triton_runtime(device: str) -> Runtime:
    """The runtime of alphabet-triton on a GPU, or with device "cpu" through Triton's interpreter at reduced shapes."""
    import alphabet_triton

    if device == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        raise AuditError("Triton's interpreter must be chosen before Python starts: set TRITON_INTERPRET=1")
    if not hasattr(alphabet_triton, "TritonTrainer"):
        raise AuditError(
            "the installed alphabet-triton has no TritonTrainer: install the one of the same version as alphabet-audit"
        )
    plan = "full" if device == "cuda" else "reduced"
    name = NATIVE if device == "cuda" else INTERPRETED
    return Runtime(name, device, plan, alphabet_triton.TritonRuntime, alphabet_triton.TritonTrainer)


def has_cuda() -> bool:
    """Whether torch sees a CUDA device."""
    import torch

    return torch.cuda.is_available()


def choose_device(wanted: str | None) -> str:
    """The device that was asked for, or an error if it is not here; by default CUDA if there is one, else the CPU."""
    if wanted is None:
        return "cuda" if has_cuda() else "cpu"
    if wanted not in DEVICES:
        raise AuditError(f"--device {wanted!r} is unknown; use one of {', '.join(DEVICES)}")
    if wanted == "cuda" and not has_cuda():
        raise AuditError("--device cuda: torch sees no CUDA device here; use --device cpu")
    return wanted


def ledger_runtime(device: str) -> Runtime:
    """The runtime that a ledger times as ALPHABET on a device."""
    return triton_runtime(device) if device == "cuda" else cpu_runtime()
