"""What a user sees while fits run: a bar on a terminal, a line per fit elsewhere, nothing without a console."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar


class Progress:
    """Shows how many fits are done, how long it may still take, and which one runs. Use it by `with`."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console
        self._bar: Bar | None = None
        if console is not None and console.is_terminal:
            self._bar = Bar(
                BarColumn(24),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                TextColumn("{task.description}"),
                console=console,
                transient=True,
            )
            self._line = self._bar.add_task("", total=None)
        self._done = self._total = 0
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, total: int, done: int) -> None:
        """Note the number of fits, and how many of them an earlier run has done."""
        self._done, self._total = done, total
        if done:
            self.say(f"{done:,} of {total:,} fits were done earlier")
        if self._bar is not None:
            self._bar.update(self._line, total=total - done, completed=0)

    def start(self, name: str) -> None:
        """Note the fit that runs now."""
        self._started = time.monotonic()
        if self._bar is not None:
            self._bar.update(self._line, description=name)

    def finish(self, name: str) -> None:
        """Count a fit that has ended."""
        self._done += 1
        if self._bar is not None:
            self._bar.advance(self._line)
        else:
            self.say(f"{self._done:,} of {self._total:,} in {time.monotonic() - self._started:.1f} s: {name}")

    def say(self, line: str) -> None:
        """Print a line that stays."""
        if self._console is not None:
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)
