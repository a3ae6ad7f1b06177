"""What the GPU suite's tests share: the device, launches with their inputs, and the table of what was compared."""

import csv
import gc
import hashlib
from contextlib import ExitStack
from pathlib import Path

import torch
from alphabet_core import Alphabet, AlphabetConfig
from alphabet_ptx import execute, ptx_device
from alphabet_testing.kernels.graphs import cuda_graphs
from alphabet_triton.configurations import configuration, list_configurations, list_inference, list_training
from alphabet_triton.launching import Launch, TritonDevice
from time_model.designs import compile_launch
from time_model.inputs import fill, marked

FIELDS = ("what", "tensor", "largest difference", "relative to the largest entry", "tolerance", "verdict")
# A native launch and executed PTX compute the same instructions; they differ in how tensor cores and approximate
# instructions round. Twice what the kernels are allowed against float64 (docs/gpu.md), relative to the largest entry.
TOLERANCE = 1e-5


class Gpu:
    """A device to test: `native`, or executed PTX, on which tensors stay on the CPU."""

    def __init__(self, suite: str, stack: ExitStack, *, captures: bool) -> None:
        self.native = suite == "native"
        self.home = torch.device("cuda" if self.native else "cpu")
        self.graphs = None
        if not self.native:
            stack.enter_context(ptx_device("sm_89"))
            self.graphs = stack.enter_context(cuda_graphs()) if captures else None

    def to(self, value):
        """A tensor, model or dictionary of tensors on the device."""
        if isinstance(value, dict):
            return {name: self.to(each) for name, each in value.items()}
        return value.to(self.home)

    def forget_memory(self) -> None:
        """Give back what torch's allocator keeps: a freed tensor's memory is then really gone."""
        gc.collect()
        if self.native:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()


class Ledger:
    """A table of comparisons; with a folder, each is written as it happens."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def compare(self, what: str, tensor: str, found, wanted, tolerance: float = TOLERANCE) -> bool:
        """Whether two tensors agree, relative to the largest entry of `wanted`; NaN agrees with NaN only."""
        found, wanted = found.detach().cpu().double(), wanted.detach().cpu().double()
        same = (found == wanted) | (found.isnan() & wanted.isnan())
        difference = (
            float((found - wanted).abs().masked_fill(same, 0.0).nan_to_num(torch.inf).amax()) if found.numel() else 0.0
        )
        scale = float(wanted.nan_to_num(0.0, 0.0, 0.0).abs().amax()) if wanted.numel() else 0.0
        relative = difference / scale if scale else (0.0 if difference == 0.0 else float("inf"))
        verdict = relative <= tolerance
        self.note(
            what, tensor, f"{difference:.3e}", f"{relative:.3e}", f"{tolerance:.0e}", "same" if verdict else "DIFFERS"
        )
        return verdict

    def note(self, *row: str) -> None:
        if self.folder is None:
            return
        path = self.folder / "differences.csv"
        fresh = not path.exists()
        with path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            if fresh:
                writer.writerow(FIELDS)
            writer.writerow(row)


def name_of(launch: Launch) -> str:
    """A name for a launch's configuration, for tests and files."""
    return f"{launch.name}-{hashlib.sha256(repr(configuration(launch)).encode()).hexdigest()[:10]}"


def list_launches(*, small: bool) -> list[Launch]:
    """One launch of every configuration, or with `small` those of one small model, recorded with memory marked."""
    with marked():
        if not small:
            return list(list_configurations())
        model = Alphabet(AlphabetConfig(2, 16, 4, 3))
        launches = [*list_inference(model, 1, 40, masked=True), *list_training(model, 1, 40, masked=True)]
        return list({configuration(launch): launch for launch in launches}.values())


def launch_with_inputs(launch: Launch, home) -> Launch:
    """The launch on tensors of its own, filled, on a device; tensors that share memory still do."""
    filled = fill(launch.tensors)
    storages: dict[int, torch.Tensor] = {}
    moved = {}
    for name, tensor in filled.items():
        place = tensor.untyped_storage().data_ptr()
        whole = storages.setdefault(place, torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage()).to(home))
        moved[name] = whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return Launch(launch.kernel, launch.grid, moved, launch.scalars, launch.blocks, launch.flags)


def expected(launch: Launch, folder: Path | None) -> dict[str, torch.Tensor]:
    """What executed PTX makes of the launch's tensors, computed here and now on the CPU, and kept in a folder."""
    own = launch_with_inputs(launch, torch.device("cpu"))
    execute(compile_launch(launch, "sm_89"), launch.grid, {**own.tensors, **launch.scalars})
    if folder is not None:
        (folder / "expected").mkdir(exist_ok=True)
        torch.save(
            {name: tensor.clone() for name, tensor in own.tensors.items()},
            folder / "expected" / f"{name_of(launch)}.pt",
        )
    return dict(own.tensors)


def run_natively(launch: Launch, home) -> dict[str, torch.Tensor]:
    """What Triton's own launch makes of the launch's tensors."""
    own = launch_with_inputs(launch, home)
    TritonDevice().run(own)
    return dict(own.tensors)
