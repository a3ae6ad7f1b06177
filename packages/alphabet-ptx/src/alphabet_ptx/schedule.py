"""Run a block to its end: which threads execute which instruction next.

Threads that diverge are grouped by program counter, and the group furthest behind runs first: that joins them again
where their paths meet, as long as what follows a branch is put behind it. Where it is not, as at the end of a rotated
loop, a group may arrive early at an instruction that needs the others too; it waits there until they have arrived.
In another order than the usual one, groups of a block (see `orders`) run apart in the same way, and meet where they
have to wait for each other. Threads that read the same value in vain let others go first, then other programs.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from alphabet_ptx.conflicts import BatchClock, Conflict
from alphabet_ptx.datatypes import WARP, Array, Mask
from alphabet_ptx.errors import PtxError, WaitError
from alphabet_ptx.instructions import BRANCHES, EXITS, bind
from alphabet_ptx.machine import Block, Step
from alphabet_ptx.program import Instruction, Symbol


@dataclass(frozen=True)
class Bound:
    """An instruction ready to run: its guard, and either a step or where it jumps."""

    guard: str | None
    holds: Array | None
    negated: bool
    step: Step | None
    jump: int


def bind_program(block: Block) -> list[Bound]:
    """The instructions of the block's program, ready to run."""
    return [_bind(instruction, block) for instruction in block.program.instructions]


def _bind(instruction: Instruction, block: Block) -> Bound:
    try:
        guard = block.register(instruction.guard) if instruction.guard else None
        holds = block.view(guard, "pred") if guard else None
        step, jump = None, len(block.program.instructions)
        if instruction.opcode in BRANCHES:
            (target,) = instruction.operands
            if not isinstance(target, Symbol) or target.name not in block.program.labels:
                raise PtxError(f"branch to an unknown label {target}")
            jump = block.program.labels[target.name]
        elif instruction.opcode not in EXITS:
            step = bind(instruction, block)
        return Bound(guard, holds, instruction.negated, step, jump)
    except (IndexError, ValueError) as error:  # a pattern of operands that did not fit
        fault = PtxError(f"{instruction.opcode} with these operands is not covered")
        locate(fault, instruction)
        raise fault from error
    except PtxError as error:
        locate(error, instruction)
        raise


def locate(error: PtxError, instruction: Instruction) -> None:
    """Add to an error where in the program it happened."""
    error.line, error.instruction, error.source = instruction.line, instruction.text, instruction.source


@dataclass(frozen=True)
class Wait:
    """A group of threads that waits for others at an instruction.

    `alive` are those that had not ended by then, and `progress` the block's count of what else can be waited for.
    """

    group: Mask
    alive: Mask
    progress: int
    error: WaitError

    def is_over(self, there: Mask, alive: Mask, progress: int, *, apart: bool) -> bool:
        """Whether to try again: there was progress, a thread arrived, or one ended in a warp none of which waits.

        Threads of a warp that run apart may end before the others wait where all would have come together.
        """
        if progress != self.progress:
            return True
        ended, waiting = (np.flatnonzero(threads) // WARP for threads in (self.alive & ~alive, self.group))
        return bool((there != self.group).any() or (ended.size and (apart or not np.isin(ended, waiting).any())))


class Schedule:
    """Runs blocks of one bound program; counts how often each instruction ran."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.code = bind_program(block)
        self.share = 1  # how many programs take part in a step
        self.launch(0)

    def launch(self, limit: int) -> None:
        """Start counting for another grid, which may take `limit` steps."""
        self.hits = [0] * len(self.code)
        self.limit = limit
        self.steps = 0

    def twin(self) -> "Schedule":
        """Another schedule, for another block of the same launch at the same time; they count together."""
        schedule = Schedule(self.block.twin())
        schedule.hits, schedule.limit = self.hits, self.limit
        return schedule

    def run(self, number: int, ctaid: tuple[int, int, int]) -> Iterator[None]:
        """Run one block of the grid to its end; yields where all its threads wait for a value from another one."""
        block = self.block
        block.start(number, ctaid)
        try:
            yield from self._run()
            block.end()
        except PtxError as error:
            locate(error, block.program.instructions[block.pc])
            error.program = ctaid
            raise

    def run_batch(self, first: int, grid: tuple[int, int, int]) -> None:
        """Run programs at once, from number `first` on; raises Conflict if one by one they may do something else."""
        block, end = self.block, len(self.code)
        assert isinstance(block.clock, BatchClock)
        assert block.deferred is not None
        block.start_batch(first, grid)
        counters = np.zeros(block.threads, np.int64)
        try:
            while (alive := counters < end).any():
                block.alive = alive
                pc = int(counters.min())
                behind = counters == pc
                horizon = int(counters.min(initial=end, where=~behind))
                group = None if behind.all() else behind
                programs = block.taking_part(group)
                block.clock.look_at(programs)
                self.share = block.programs if programs is None else int(np.count_nonzero(programs))
                self._run_group(pc, group, horizon, counters, ())
                if block.polls.in_vain:
                    raise Conflict("a program may be waiting for another one")
            block.end()
        except PtxError as error:
            raise Conflict("a program has a fault, or its threads wait for each other") from error
        block.deferred.carry_out()

    def _run(self) -> Iterator[None]:
        block, end = self.block, len(self.code)
        apart = not block.order.lockstep
        groups = block.order.groups(block.threads) if apart else None
        counters = np.zeros(block.threads, np.int64)
        waits: dict[int, Wait] = {}
        idle: Mask | None = None  # threads that poll in vain, until others have run
        while (alive := counters < end).any():
            block.alive = alive
            over = [
                pc for pc, wait in waits.items() if wait.is_over(counters == pc, alive, block.progress, apart=apart)
            ]
            for pc in over[:1] if apart else over:
                del waits[pc]
            ready = alive & ~np.isin(counters, list(waits))
            if not ready.any():  # no thread is left that could arrive
                block.pc, wait = next(iter(waits.items()))
                raise wait.error
            if idle is not None and not (ready & ~idle).any():
                yield
                block.polls.forgive()
                idle = None
            if idle is not None:
                ready &= ~idle
            if apart and over:
                pc, horizon = over[0], over[0] + 1
                behind = counters == pc
            else:
                if groups is not None:
                    ready &= groups == block.order.choose(groups[ready])
                running = counters[ready]
                pc = int(running.min())
                horizon = int(running.min(initial=end, where=running > pc))
                behind = ready & (counters == pc)
            try:
                self._run_group(pc, None if behind.all() else behind, horizon, counters, waits)
            except WaitError as error:
                pc = block.pc
                self.hits[pc] -= 1  # it did not run
                counters[behind] = pc
                waits[pc] = Wait(behind, alive, block.progress, error)
            if block.polls.in_vain:
                idle = behind if idle is None else idle | behind
                block.polls.forgive()
            else:
                idle = None

    def _run_group(self, pc: int, group: Mask | None, horizon: int, counters: Array, waits: Collection[int]) -> None:
        """Run a group of threads until it splits, ends or meets others: those ahead of it, or some that wait."""
        block, code, hits, share = self.block, self.code, self.hits, self.share
        while pc < horizon and pc not in waits:
            bound = code[pc]
            block.pc = pc
            hits[pc] += share
            self.steps += share
            if self.steps > self.limit:
                raise PtxError(f"the kernel has not ended after {self.limit} steps; a larger `limit` allows more")
            mask = group
            if bound.guard is not None:
                taken = self._evaluate(bound, group)
                count = np.count_nonzero(taken)
                if count == 0:
                    pc += 1
                    continue
                mask = None if count == block.threads else taken
            if bound.step is not None:
                bound.step(mask)
                pc += 1
                continue
            if mask is group or np.array_equal(self._everyone(mask), self._everyone(group)):
                pc = bound.jump
                if block.polls.in_vain:
                    break
                continue
            counters[self._everyone(group)] = pc + 1
            counters[self._everyone(mask)] = bound.jump
            return
        counters[self._everyone(group)] = pc

    def _everyone(self, group: Mask | None) -> Mask:
        return np.ones(self.block.threads, np.bool_) if group is None else group

    def _evaluate(self, bound: Bound, group: Mask | None) -> Mask:
        """The threads of the group in which the guard holds."""
        assert bound.guard is not None
        assert bound.holds is not None
        if self.block.unknown[bound.guard] is not None:
            self.block.require([bound.guard], group, "a predicate")
        holds = ~bound.holds if bound.negated else bound.holds
        return holds.copy() if group is None else holds & group
