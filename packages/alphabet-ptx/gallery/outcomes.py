"""What the launches of a case did, in a form that fits into a row."""

from collections.abc import Sequence
from typing import Any


def describe(launches: Sequence[Any]) -> dict[str, Any]:
    """How many launches, steps and races there were, and the first fault.

    `raced` are the kernels with races, `changed` those whose results depend on the order.
    """
    faults = [str(launch.fault) for launch in launches if launch.fault is not None]
    return {
        "launches": len(launches),
        "steps": sum(launch.report.steps for launch in launches if launch.report is not None),
        "races": sum(len(launch.races) for launch in launches),
        "raced": " ".join(sorted({launch.kernel for launch in launches if launch.races})),
        "changed": " ".join(sorted({launch.kernel for launch in launches if launch.changed})),
        "fault": faults[0] if faults else "",
    }
