"""What a device's report means: which findings make a kernel wrong, and which are worth a look; with source lines."""

import linecache
from dataclasses import dataclass
from pathlib import Path

from alphabet_ptx.errors import PtxError, Source
from alphabet_ptx.launches import DeviceReport, Launch
from alphabet_ptx.races import Race


@dataclass(frozen=True)
class Verdict:
    """Findings by their weight: a fault or a race whose order changes the results is an error, other races are not."""

    errors: list[str]
    warnings: list[str]


def judge(report: DeviceReport) -> Verdict:
    """The findings of all launches, each in one paragraph."""
    errors: list[str] = []
    warnings: list[str] = []
    for launch in report:
        if launch.fault is not None:
            errors.append(describe_fault(launch, launch.fault))
        for race in launch.races:
            (errors if launch.races_matter else warnings).append(describe_race(launch, race))
    return Verdict(errors, warnings)


def describe_fault(launch: Launch, fault: PtxError) -> str:
    """A fault, the launch that committed it, and the source line."""
    return f"{launch.kernel}: {fault}{quote(fault.source, launch.file)}"


def describe_race(launch: Launch, race: Race) -> str:
    """A race, and whether it matters."""
    if launch.changed_fault is not None:
        effect = f"in another order the launch ends in a fault, {launch.changed_fault.reason}"
    elif launch.changed:
        effect = f"in the opposite order {', '.join(launch.changed)} gets other values"
    elif launch.changed is None:
        effect = "whether it matters was not tried"
    else:
        effect = "in the opposite order the results are the same"
    return f"{launch.kernel}: race, {effect}: {race}{quote(race.source, launch.file)}"


def quote(source: Source | None, file: str) -> str:
    """The source line itself, and the line from which it was called, as far as the files are there.

    `file` is the kernel's. Triton finds compiled kernels by their text, so the path in the PTX may be that of a copy.
    """
    lines = []
    while source is not None:
        name = Path(source.file).name
        text = linecache.getline(file if name == Path(file).name else source.file, source.line).strip()
        if text:
            lines.append(f"\n    {name}:{source.line}: {text}")
        source = source.caller
    return "".join(lines)
