"""The estimate of one launch: what a multiprocessor's units have to do, against how long one program takes alone."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from time_model import ada
from time_model.sass import Code
from time_model.trips import Trips
from time_model.warp import count_cycles


@dataclass(frozen=True)
class Shape:
    """How a launch is spread: programs, warps of each, registers of a thread, bytes of shared memory of a program."""

    programs: int
    warps: int
    registers: int
    shared: int

    @property
    def resident(self) -> int:
        """How many programs a multiprocessor holds at the same time."""
        per_warp = math.ceil(self.registers * ada.WARP / 256) * 256  # registers are given in units of 256
        by_registers = ada.REGISTERS // (
            per_warp * math.ceil(self.warps / 4) * 4 if self.warps > 4 else per_warp * self.warps
        )
        by_shared = ada.SHARED_BYTES // (self.shared + ada.SHARED_RESERVED)
        return max(1, min(by_registers, by_shared, ada.MOST_WARPS // self.warps, ada.MOST_PROGRAMS))


@dataclass(frozen=True)
class Estimate:
    """The estimate of a launch; `seconds` is without what a graph's node costs.

    instructions: by class, of one warp, inside and outside of loops; units: cycles that each unit of the busiest
    multiprocessor works; serial: cycles of the longest program alone; waves: how often the multiprocessors are filled;
    requested: bytes that loads and stores of global memory ask for, tensors: bytes of the tensors given
    """

    instructions: Mapping[str, tuple[float, float]]
    units: Mapping[str, float]
    serial: float
    waves: int
    warps_per_scheduler: float
    requested: float
    tensors: float
    seconds: float
    bound: str


def estimate(code: Code, loops: Trips, shape: Shape, tensors: float, *, in_l2: bool = True) -> Estimate:
    """The estimate of a launch whose programs run their loops so often: on average, and the longest of them."""
    trips = loops.mean
    depth = {}  # instruction -> its innermost loop
    for number, loop in enumerate(code.loops):
        depth.update(dict.fromkeys(loop.body, number))  # inner loops come later than those around them
    runs = is_executed(code)
    inside, outside, units, requested = Counter(), Counter(), Counter(), 0.0
    for number, instruction in enumerate(code.instructions):
        if not runs[number]:
            continue
        times = trips[depth[number]] if number in depth else 1.0
        kind = ada.kind_of(instruction.opcode)
        (inside if number in depth else outside)[kind] += times
        unit, cycles = ada.unit_of(instruction.opcode)
        if unit is not None:
            units[unit] += times * cycles
        units["issue"] += times / ada.SCHEDULERS
        if kind == "global":
            requested += times * ada.bytes_of(instruction.opcode) * ada.WARP
    serial, usual = count_cycles(code, loops.most, runs), count_cycles(code, loops.mean, runs)
    busiest = math.ceil(shape.programs / ada.MULTIPROCESSORS)
    waves = math.ceil(busiest / shape.resident)
    work = {unit: busiest * shape.warps * cycles for unit, cycles in units.items()}
    work["L2"] = busiest * shape.warps * requested / ada.L2_BYTES_PER_CYCLE
    work["serial"] = (waves - 1) * usual + serial  # the longest program comes last
    bounds = {name: cycles / ada.CYCLES_PER_SECOND for name, cycles in work.items()}
    if not in_l2:
        bounds["DRAM"] = tensors / ada.DRAM_BYTES_PER_SECOND
    bound = max(bounds, key=lambda name: bounds[name])
    kinds = sorted({*inside, *outside})
    return Estimate(
        instructions={kind: (inside[kind], outside[kind]) for kind in kinds},
        units={name: cycles for name, cycles in work.items() if name != "serial"},
        serial=serial,
        waves=waves,
        warps_per_scheduler=min(busiest, shape.resident) * shape.warps / ada.SCHEDULERS,
        requested=requested * shape.warps * shape.programs,
        tensors=tensors,
        seconds=bounds[bound],
        bound=bound,
    )


def is_executed(code: Code) -> list[bool]:
    """For each instruction whether it counts: not unreachable padding, nor what prepares the call of a slow path."""
    runs, reachable = [], True
    called = {number for number, each in enumerate(code.instructions) if each.is_slow_call}
    targets = {each.step.target for each in code.instructions}
    slow = set()
    for number in called:
        first = number
        while first not in targets and first > 0 and code.instructions[first - 1].step.target is None:
            first -= 1
        slow |= set(range(first, number + 1))
    for number, instruction in enumerate(code.instructions):
        reachable = reachable or number in targets
        itself = instruction.step.target == number  # the padding's first instruction jumps to itself
        runs.append(reachable and not itself and number not in slow and instruction.base != "NOP")
        if not instruction.step.falls or itself:
            reachable = False
    return runs
