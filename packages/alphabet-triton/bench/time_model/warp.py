"""Cycles of one warp alone: instructions are issued in order, each when what it reads is there and its unit is free."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from time_model.ada import LATENCIES, SCHEDULERS, WHOLE, kind_of, unit_of
from time_model.sass import Code, Instruction


@dataclass
class Warp:
    """When registers are ready and units free, and the cycle at which the next instruction may be issued."""

    clock: float = 0.0
    ready: dict[str, float] = field(default_factory=dict)
    free: dict[str, float] = field(default_factory=dict)
    copies: list[float] = field(default_factory=list)  # groups of asynchronous copies: when each has arrived
    pending: float = 0.0  # when the copies of the group that is being made arrive

    def issue(self, instruction: Instruction) -> None:
        opcode, kind = instruction.opcode, kind_of(instruction.opcode)
        unit, cycles = unit_of(opcode)
        start = max([self.clock, *(self.ready.get(name, 0.0) for name in instruction.reads)])
        if opcode.startswith("DEPBAR"):
            start = max(start, self._copies_done(instruction))
        if unit is not None:
            start = max(start, self.free.get(unit, 0.0))
            self.free[unit] = start + cycles * (1 if unit in WHOLE else SCHEDULERS)
        done = start + max(LATENCIES[kind], cycles)
        for name in instruction.writes:
            self.ready[name] = done
        if opcode.startswith("LDGSTS"):
            self.pending = max(self.pending, done)
        if opcode.startswith("LDGDEPBAR"):
            self.copies.append(self.pending)
        self.clock = start + (LATENCIES["barrier"] if opcode.startswith("BAR") else 1)

    def skip(self, cycles: float) -> None:
        """Let time pass, and everything that is under way move with it."""
        self.clock += cycles
        self.pending += cycles
        for times in (self.ready, self.free):
            for name in times:
                times[name] += cycles
        self.copies = [time + cycles for time in self.copies]

    def _copies_done(self, instruction: Instruction) -> float:
        """When all but the newest groups of copies have arrived; how many may be missing is the last operand."""
        missing = int(instruction.text.rsplit(",", 1)[1].strip(" ;"), 0) if "," in instruction.text else 0
        arrived = self.copies[: len(self.copies) - missing] if missing else self.copies
        return max(arrived, default=0.0)


def count_cycles(code: Code, trips: Sequence[float], runs: Sequence[bool]) -> float:
    """Cycles of one warp from its first instruction to its last, `trips` for each loop in all.

    runs: for each instruction, whether it is executed
    """
    warp = Warp()
    _run(code, trips, runs, range(len(code.instructions)), -1, 1.0, warp)
    return max([warp.clock, *warp.ready.values()])


def _run(
    code: Code, trips: Sequence[float], runs: Sequence[bool], numbers: range, depth: int, entries: float, warp: Warp
) -> None:
    """Run a stretch of code; a loop in it runs twice, and what its second time took is taken for every further one."""
    inner = {
        min(loop.body): (loop, count) for loop, count in zip(code.loops, trips, strict=True) if loop.depth == depth + 1
    }
    number = numbers.start
    while number < numbers.stop:
        loop, count = inner.get(number, (None, 0.0))
        if loop is None:
            if runs[number]:
                warp.issue(code.instructions[number])
            number += 1
            continue
        body = range(min(loop.body), max(loop.body) + 1)
        each = count / entries if entries else 0.0
        for turn in range(min(2, round(each))):
            begun = warp.clock
            _run(code, trips, runs, body, loop.depth, count, warp)
            if turn == 1:
                warp.skip((each - 2) * (warp.clock - begun))
        number = body.stop
