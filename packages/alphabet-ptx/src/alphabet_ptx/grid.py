"""Run all programs of a grid, one after another; while one waits for a value from another, others run.

A program that waits keeps its block, and the next program gets a block of its own. A GPU runs many programs at the same
time as well, but it does not promise to run all of them: that a grid ends here does not prove that it ends on a
GPU where fewer programs fit than wait for each other.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from alphabet_ptx.clock import Past
from alphabet_ptx.errors import PtxError
from alphabet_ptx.schedule import Schedule, locate

# Programs that may wait at the same time, and how often each is tried while nothing changes.
MOST_WAITING = 256
TRIES = 8


@dataclass
class _Program:
    """A program that has started."""

    schedule: Schedule
    ctaid: tuple[int, int, int]
    turns: Iterator[None]
    past: Past | None = None
    found: dict[int, bytes] = field(default_factory=dict)
    state: bytes = b""

    def go_on(self, steps: int) -> bool:
        """Run until the program ends or waits for another; whether it has ended. `steps` were taken before."""
        clock = self.schedule.block.clock
        if self.past is not None:
            clock.resume(self.past)
        self.schedule.block.take_over()
        self.schedule.steps = steps
        ended = True
        for _ in self.turns:
            self.past = clock.suspend()
            ended = False
            break
        return ended

    def is_stuck(self) -> bool:
        """Whether the program has read nothing new since this was asked last, and nothing else has changed either."""
        before, block = (self.found, self.state), self.schedule.block
        self.found, self.state = dict(block.polls.found), block.state()
        return before == (self.found, self.state)


def run_grid(schedule: Schedule, sizes: tuple[int, int, int]) -> None:
    """Run the programs of a grid in the order of the launch that `schedule` is prepared for."""
    columns, rows, layers = sizes
    pending = deque(schedule.block.order.programs(columns * rows * layers))
    free, waiting = [schedule], deque[_Program]()
    steps = in_vain = 0  # `in_vain`: turns since a program ended or read something new
    while pending or waiting:
        startable = bool(pending) and len(waiting) < MOST_WAITING
        if startable and in_vain >= len(waiting):
            number = pending.popleft()
            own = free.pop() if free else schedule.twin()
            ctaid = (number % columns, number // columns % rows, number // (columns * rows))
            program, is_new = _Program(own, ctaid, own.run(number, ctaid)), True
        else:
            program, is_new = waiting.pop(), False
        ended = program.go_on(steps)
        steps = program.schedule.steps
        if ended:
            free.append(program.schedule)
            in_vain = 0
            continue
        in_vain = in_vain + 1 if program.is_stuck() or is_new else 0
        # Who started last is asked first: in the usual chains it is the first that can go on.
        waiting.append(program) if is_new else waiting.appendleft(program)
        if not startable and in_vain > TRIES * len(waiting):
            _give_up(program, len(waiting), len(pending))
    schedule.steps = steps


def _give_up(program: _Program, waiting: int, pending: int) -> None:
    later = f", and {pending} have not started yet" if pending else ""
    error = PtxError(
        f"the program waits in a loop for a value from another program, and none of the {waiting} that are running "
        f"can go on{later}"
    )
    block = program.schedule.block
    locate(error, block.program.instructions[block.polls.pc])
    error.program = program.ctaid
    raise error
