"""What a case of the gallery is: someone else's launcher on CPU tensors, beside its definition in float64.

A module `cases_*.py` holds the cases of one source. A case is a function that returns what it compared; it imports the
source itself, since that happens inside the device's context and may fail.
"""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType

import torch
from torch import Tensor

# How far a result may be from the definition, as a part of the definition's largest entry.
# float32 has 24 bits; sums of some hundred terms and the approximate exponentials of a GPU cost the last six or seven.
FP32 = 1e-5
# Tensor cores cut float32 operands to 11 bits (tf32), and products of products add up.
TF32 = 5e-3
# Numbers stored in half precision have 11 bits, those in bfloat16 have 8.
FP16 = 5e-3
BF16 = 4e-2
EXACT = 0.0

Outputs = Tensor | Sequence[Tensor]


@dataclass(frozen=True)
class Compared:
    """One result of a launcher and what it should be."""

    name: str
    got: Tensor
    exact: Tensor

    @property
    def error(self) -> float:
        """The largest difference, as a part of the definition's largest entry; NaN where only one side is a number."""
        if self.got.shape != self.exact.shape:
            raise ValueError(f"{self.name} has shape {tuple(self.got.shape)}, its definition {tuple(self.exact.shape)}")
        got, exact = self.got.detach().double(), self.exact.detach().double()
        same = (got == exact) | (got.isnan() & exact.isnan())
        if exact.numel() == 0 or bool(same.all()):
            return 0.0
        finite = exact[exact.isfinite()]
        scale = float(finite.abs().max()) if finite.numel() else 0.0
        return float((got - exact).abs()[~same].max()) / (scale or 1.0)


Run = Callable[[], list[Compared]]


@dataclass(frozen=True)
class Case:
    """A named call of a launcher with the tolerance of its results.

    `fault` is for a launcher that is known to do what no kernel may: part of the message with which it is refused.
    `bounds` are those of `ptx_device`: "storage" for a launcher that passes a view and reaches beyond it on purpose.
    `quick` are the ten that the tests of this package run, too: they take a second and need no other package.
    """

    source: str
    name: str
    run: Run
    tolerance: float
    fault: str = ""
    bounds: str = "view"
    quick: bool = False


@dataclass(frozen=True)
class Source:
    """A package on the index and the cases of it; `cases` is filled by the decorator `case`."""

    package: str
    cases: list[Case] = field(default_factory=list)

    def case(
        self, name: str, tolerance: float, *, fault: str = "", bounds: str = "view", quick: bool = False
    ) -> Callable[[Run], Run]:
        """Declare the function below as a case."""

        def declare(run: Run) -> Run:
            self.cases.append(Case(self.package, name, run, tolerance, fault, bounds, quick))
            return run

        return declare


def normal(*shape: int, seed: int = 0, scale: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Normal numbers, the same in every run."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator, dtype=torch.float64) * scale).to(dtype)


def integers(low: int, high: int, *shape: int, seed: int = 0, dtype: torch.dtype = torch.int64) -> Tensor:
    """Integers from `low` to `high` - 1, the same in every run."""
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def compare(
    launcher: Callable[..., Outputs],
    definition: Callable[..., Outputs],
    *inputs: Tensor,
    gradients: bool = True,
    kept: Sequence[int] = (),
) -> list[Compared]:
    """The outputs of a launcher and of its definition in float64, and their gradients for one random cotangent.

    Inputs that are no floating-point numbers, and those whose positions are in `kept`, get no gradient.
    """

    def run(call: Callable[..., Outputs], dtype: torch.dtype | None) -> tuple[list[Tensor], list[Tensor]]:
        leaves = []
        for position, each in enumerate(inputs):
            leaf = each.detach().clone()
            if leaf.is_floating_point():
                leaf = leaf if dtype is None else leaf.to(dtype)
                leaf.requires_grad_(gradients and position not in kept)
            leaves.append(leaf)
        outputs = call(*leaves)
        outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
        results = [output.detach().clone() for output in outputs]
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        if wanted:
            cotangents = [normal(*each.shape, seed=100 + i).to(each.dtype) for i, each in enumerate(outputs)]
            torch.autograd.backward(outputs, cotangents)
        return results, [leaf.grad if leaf.grad is not None else torch.zeros(()) for leaf in wanted]

    (got, got_gradients), (exact, exact_gradients) = run(launcher, None), run(definition, torch.float64)
    names = [f"input {i}" for i, each in enumerate(inputs) if each.is_floating_point() and i not in kept]
    return [
        *(Compared(f"output {i}", *pair) for i, pair in enumerate(zip(got, exact, strict=True))),
        *(
            Compared(f"gradient of {name}", *pair)
            for name, *pair in zip(names, got_gradients, exact_gradients, strict=False)
        ),
    ]


def without_initialization(package: str) -> None:
    """Make the modules of a package importable without its `__init__`, which would load compiled CUDA code."""
    if package in sys.modules:
        return
    found = importlib.util.find_spec(package)
    if found is None or found.submodule_search_locations is None:
        raise ModuleNotFoundError(f"{package} is not installed; pins.txt has its version")
    module = ModuleType(package)
    module.__path__ = list(found.submodule_search_locations)
    module.__spec__ = found
    sys.modules[package] = module
