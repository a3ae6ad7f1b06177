"""What a launch does, in a form that can be compared: with programs at once and one after another."""

from dataclasses import dataclass, field

import numpy as np
from alphabet_ptx import PtxError, execute


@dataclass(frozen=True)
class Outcome:
    """The bytes of all arrays, races, counts, and the fault if there was one."""

    arrays: tuple
    races: tuple = ()
    steps: int = 0
    instructions: tuple = ()
    fault: str = ""
    together: int = field(default=1, compare=False)


def find_outcome(kernel, grid, arguments, **options):
    """The outcome of a launch; its arrays are changed."""
    try:
        report = execute(kernel, grid, arguments, **options)
    except PtxError as error:
        return Outcome(_bytes(arguments), fault=str(error))
    counts = tuple(sorted(report.instructions.items()))
    return Outcome(_bytes(arguments), tuple(report.races), report.steps, counts, together=report.together)


def _bytes(arguments):
    return tuple(argument.tobytes() for argument in arguments if isinstance(argument, np.ndarray))


def assert_same(outcome, expected):
    """Require equal outcomes, and name what differs."""
    for name in ("fault", "races", "steps", "instructions", "arrays"):
        assert getattr(outcome, name) == getattr(expected, name), name
