"""The estimates of all launches of the audit's designs."""

import time
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alphabet_core import Alphabet, AlphabetConfig
from alphabet_ptx import CompiledKernel, compile_kernel
from alphabet_ptx.resources import read_usage
from alphabet_triton import launching
from alphabet_triton.configurations import configuration, list_inference, list_training, signature
from alphabet_triton.launching import Launch

from time_model.ada import L2_BYTES
from time_model.cost import Estimate, Shape, estimate
from time_model.inputs import fill, marked
from time_model.sass import Code, disassemble
from time_model.trips import LoopsDifferError, Trips, count_trips

# The audit's own file, read in place: the environment that compiles kernels has no alphabet-audit.
DECLARED = Path(__file__).parents[3] / "alphabet-audit" / "src" / "alphabet_audit" / "data" / "designs.toml"
PHASES = {"inference": list_inference, "step": list_training}
# Trees from before the kernels were compiled for every alignment do not have it.
UNALIGNED = getattr(launching, "UNALIGNED", ())

Design = tuple[int, int, int]


@dataclass(frozen=True)
class Row:
    """The estimate of one launch of a design and phase; `launch` is its number there, from 0."""

    design: Design
    phase: str
    launch: int
    kernel: str
    grid: tuple[int, ...]
    warps: int
    registers: int
    estimate: Estimate | None  # None: its loops could not be matched
    problem: str = ""


def list_designs() -> list[Design]:
    """The audit's shapes (B, T, D), each once."""
    shapes = tomllib.loads(DECLARED.read_text())["shapes"]
    return list(dict.fromkeys(tuple(shape) for group in shapes.values() for shape in group))


def list_launches(design: Design, phase: str) -> list[Launch]:
    """The launches of a call at a shape (B, T, D) with the audit's other sizes, recorded, not run."""
    batch, length, width = design
    model = Alphabet(AlphabetConfig(channels=2, width=width, modes=width // 4, outputs=5))
    with marked():
        return PHASES[phase](model, batch, length, masked=False)


def compile_launch(launch: Launch, arch: str) -> CompiledKernel:
    """A launch's kernel, compiled as Triton would for this call."""
    return compile_kernel(
        launch.kernel, signature(launch), launch.constants, arch=arch, warps=launch.blocks.warps,
        stages=launch.blocks.stages, divisible=("TS",) if "TS" in launch.scalars else (),
        unaligned=[name for name in launch.tensors if name in UNALIGNED],
    )  # fmt: skip


class Model:
    """Estimates of launches; what was compiled or executed before is not compiled or executed again."""

    def __init__(self, arch: str = "sm_89") -> None:
        self.arch = arch
        self._code: dict[Any, tuple[CompiledKernel, Code, int]] = {}
        self._trips: dict[Any, Trips] = {}

    def compile(self, launch: Launch) -> tuple[CompiledKernel, Code, int]:
        """A launch's kernel as PTX, as machine code, and the registers of its threads."""
        key = (*configuration(launch), *signature(launch).items())
        if key not in self._code:
            compiled = compile_launch(launch, self.arch)
            self._code[key] = compiled, disassemble(compiled.cubin), read_usage(compiled.cubin)[0]
        return self._code[key]

    def trips(self, launch: Launch, compiled: CompiledKernel, code: Code) -> Trips:
        """How often a program of the launch runs each loop."""
        grid = launch.grid if "%nctaid" in compiled.ptx or "atom." in compiled.ptx else ()
        key = (*configuration(launch), *signature(launch).items(), *launch.scalars.items(), grid)
        if key not in self._trips:
            given = {**fill(launch.tensors), **launch.scalars}
            self._trips[key] = count_trips(code, compiled, launch.grid, given)
        return self._trips[key]

    def estimate(self, launch: Launch, *, in_l2: bool = True) -> tuple[Estimate, int]:
        """A launch's estimate, and the registers of its threads."""
        compiled, code, registers = self.compile(launch)
        programs = 1
        for size in launch.grid:
            programs *= size
        shape = Shape(programs, compiled.warps, registers, compiled.shared)
        moved = float(sum(t.numel() * t.element_size() for t in _distinct([launch])))
        return estimate(code, self.trips(launch, compiled, code), shape, moved, in_l2=in_l2), registers


def estimate_designs(
    designs: Iterable[Design], say: Callable[[str], None] = lambda _: None, model: Model | None = None
) -> list[Row]:
    """The estimates of every launch of both phases of designs; `say` gets how far it is and how long it may take."""
    model, rows = model or Model(), []
    pending = [(design, phase) for design in designs for phase in PHASES]
    begun = time.monotonic()
    for number, (design, phase) in enumerate(pending):
        launches = list_launches(design, phase)
        in_l2 = sum(t.numel() * t.element_size() for t in _distinct(launches)) <= L2_BYTES
        for order, launch in enumerate(launches):
            done = (number + order / len(launches)) / len(pending)
            left = f", some {(time.monotonic() - begun) * (1 / done - 1):.0f} s left" if done > 0.05 else ""
            say(f"{design} {phase}, {number + 1} of {len(pending)}: launch {order + 1} of {len(launches)}{left}")
            try:
                found, registers = model.estimate(launch, in_l2=in_l2)
                problem = ""
            except LoopsDifferError as error:
                found, registers, problem = None, model.compile(launch)[2], str(error)
            warps = launch.blocks.warps
            rows.append(Row(design, phase, order, launch.name, launch.grid, warps, registers, found, problem))
    return rows


def _distinct(launches: Iterable[Launch]) -> list[Any]:
    """The tensors of launches, each storage once."""
    tensors = [tensor for launch in launches for tensor in launch.tensors.values()]
    return list({tensor.untyped_storage().data_ptr(): tensor for tensor in tensors}.values())
