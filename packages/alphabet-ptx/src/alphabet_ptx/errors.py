"""The error type of this package."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A place in the kernel's Python source; `caller` is where a function that was inlined there is called."""

    file: str
    line: int
    caller: "Source | None" = None

    def __str__(self) -> str:
        here = f"{self.file.rpartition('/')[2]}:{self.line}"
        return here if self.caller is None else f"{here}, called from {self.caller}"


class PtxError(RuntimeError):
    """A mistake in a call of this package, or a fault that an executed kernel commits.

    For a fault of a kernel the attributes say where: `program` (the three program ids), `thread`, `line` of the PTX,
    `instruction` and, where the PTX carries line information, `source`.
    """

    def __init__(self, reason: str, *, thread: int | None = None, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.thread = thread
        self.line = line
        self.program: tuple[int, int, int] | None = None
        self.instruction: str | None = None
        self.source: Source | None = None

    def __str__(self) -> str:
        places = {
            "program": self.program,
            "thread": self.thread,
            "PTX line": self.line,
            "instruction": self.instruction and f"`{self.instruction}`",
            "source": self.source,
        }
        where = ", ".join(f"{name} {place}" for name, place in places.items() if place is not None)
        return f"{self.reason} ({where})" if where else self.reason


class WaitError(PtxError):
    """An instruction needs threads that have not arrived yet; it is a fault if they never do."""
