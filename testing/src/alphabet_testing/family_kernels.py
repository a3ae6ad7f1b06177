"""For tests of the families' compiled kernels: gradients of any function, and kernels with a planted fault."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

Differentiated = tuple[Tensor, ...]


def differentiate(function: Callable[..., Tensor], arguments: Sequence[Tensor]) -> Differentiated:
    """The function's outputs, and the gradients of a weighted sum of them, one for each argument."""
    leaves = [argument.clone().requires_grad_() for argument in arguments]
    outputs = function(*leaves)
    weights = torch.linspace(-1, 1, outputs.numel(), dtype=outputs.dtype).view(outputs.shape)
    return outputs.detach(), *torch.autograd.grad((outputs * weights).sum(), leaves)


def worst_difference(found: Differentiated, expected: Differentiated) -> float:
    """The largest difference of outputs and gradients, each in units of its largest value."""
    pairs = zip(found, expected, strict=True)
    return max(((a.double() - b).abs().max() / b.abs().max().clamp_min(1e-30)).item() for a, b in pairs)


def bits_by_threads(function: Callable[..., Tensor], arguments: Sequence[Tensor]) -> list[Differentiated]:
    """Outputs and gradients with one, two, five and eight of torch's threads."""
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5, 8):
            torch.set_num_threads(threads)
            found.append(differentiate(function, arguments))
    finally:
        torch.set_num_threads(before)
    return found


def plant(module: ModuleType, right: str, wrong: str) -> dict[str, Any]:
    """The names of a module of kernels with a fault in its source, run as Python runs it, without numba."""
    assert module.__file__ is not None
    source = Path(module.__file__).read_text(encoding="utf-8")
    assert right in source
    lines = source.replace(right, wrong).splitlines()
    names: dict[str, Any] = {}
    exec(compile("\n".join(line for line in lines if not line.startswith("@")), "planted", "exec"), names)
    return names
