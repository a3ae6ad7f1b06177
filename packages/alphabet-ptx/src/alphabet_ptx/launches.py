"""What a device did: one record per launch, and all of them as a report."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from alphabet_ptx.errors import PtxError
from alphabet_ptx.execution import Report
from alphabet_ptx.races import Race


@dataclass
class Launch:
    """One launch: what was launched, from which source file, and what its execution found.

    `report` is None while it has not ended, and stays so if a fault ended it; `fault` is that fault. `changed` names
    the arrays that come out different when programs and warps run in another order, None if this was not tried or
    ended in a fault, which is then `changed_fault`.
    """

    kernel: str
    grid: tuple[int, int, int]
    warps: int
    stages: int
    shared: int
    ptx: str = field(repr=False)
    file: str = ""
    seconds: float = 0.0
    report: Report | None = None
    fault: PtxError | None = None
    changed: list[str] | None = None
    changed_fault: PtxError | None = None

    @property
    def races(self) -> list[Race]:
        """The races of this launch."""
        return self.report.races if self.report else []

    @property
    def races_matter(self) -> bool:
        """Whether another order was seen to change the results."""
        return bool(self.changed) or self.changed_fault is not None

    def __str__(self) -> str:
        grid = " x ".join(map(str, self.grid))
        head = f"{self.kernel}, grid {grid}, {self.warps} warps"
        if self.fault:
            return f"{head}: fault: {self.fault}"
        if self.report is None:
            return f"{head}: did not end"
        found = f", {len(self.races)} races" if self.races else ""
        return f"{head}: {self.report.steps:,} steps in {self.seconds:.2f} s{found}"


class DeviceReport(Sequence[Launch]):
    """The launches of a device in their order."""

    def __init__(self, launches: Sequence[Launch] = ()) -> None:
        self.launches = list(launches)
        self.taken = 0

    def __len__(self) -> int:
        return len(self.launches)

    def __getitem__(self, index: int) -> Launch:  # type: ignore[override]  # no slices
        return self.launches[index]

    def __iter__(self) -> Iterator[Launch]:
        return iter(self.launches)

    @property
    def races(self) -> list[Race]:
        """The races of all launches."""
        return [race for launch in self.launches for race in launch.races]

    @property
    def faults(self) -> list[PtxError]:
        """The faults that ended launches."""
        return [launch.fault for launch in self.launches if launch.fault is not None]

    def take_new(self) -> "DeviceReport":
        """The launches since this was called last."""
        new = DeviceReport(self.launches[self.taken :])
        self.taken = len(self.launches)
        return new

    def __str__(self) -> str:
        lines = [str(launch) for launch in self.launches]
        return "\n".join(lines) if lines else "no launches"
