"""What a user sees of a running campaign: a live display on a terminal, a line now and then elsewhere."""

import time
from collections import Counter
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from alphabet_study.campaign.estimate import Estimate
from alphabet_study.campaign.plan import Plan
from alphabet_study.protocol.records import FAILED, Cell, Job, Record

# Seconds between two lines where output is no terminal.
INTERVAL = 30.0
# How many of the running fits are named.
NAMED = 8


class Progress:
    """Shows fits done, failed and left, the rate, the time left, and what runs now. Use it by `with`."""

    def __init__(self, console: Console, interval: float = INTERVAL) -> None:
        self.console = console
        self._interval = interval
        self._live = Live(console=console, refresh_per_second=2, transient=True) if console.is_terminal else None
        self._started = self._printed = time.monotonic()
        self._session = 0
        self._total = 0
        self._statuses: Counter[str] = Counter()
        self._estimate = Estimate({}, {})

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def begin(self, plan: Plan, statuses: Mapping[str, int], seconds: Mapping[Cell, list[float]]) -> None:
        """Note the plan, what earlier sessions did of it, and how long those fits took."""
        self._started = self._printed = time.monotonic()
        self._total, self._statuses = plan.size, Counter(statuses)
        self._estimate = Estimate(plan.task_of, seconds)
        known = sum(statuses.values())
        if known:
            self.say(f"resuming: {known:,} of {plan.size:,} fits are recorded already")

    def finish(self, record: Record) -> None:
        """Count a fit that has ended; name it if it failed."""
        self._session += 1
        self._statuses[record.outcome.status] += 1
        self._estimate.add(record.job.key.cell, record.seconds)
        if record.outcome.status == FAILED:
            self.say(f"failed: {record.job.key}: {record.outcome.reason}")

    def show(self, running: Collection[Job], left: Mapping[Cell, int]) -> None:
        """Bring the display up to date, or print a line if it is time for one."""
        now = time.monotonic()
        if self._live is None and now - self._printed < self._interval:
            return
        self._printed = now
        line = self.describe(running, left, now - self._started)
        if self._live is None:
            self.say(line)
        else:
            self._live.update(Text(line))

    def describe(self, running: Collection[Job], left: Mapping[Cell, int], elapsed: float) -> str:
        """The state of the campaign in one line; elapsed: seconds of this session."""
        done = sum(count for status, count in self._statuses.items() if status != FAILED)
        parts = [
            f"{done:,} of {self._total:,} fits done, {self._statuses[FAILED]:,} failed, {sum(left.values()):,} left"
        ]
        if self._session and elapsed > 0:
            parts.append(f"{60 * self._session / elapsed:.1f} a minute")
            seconds = self._estimate.seconds_left(left) / max(len(running), 1)
            parts.append(f"about {describe_duration(seconds)} to go")
        names = sorted(str(job.key) for job in running)
        if names:
            hidden = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            parts.append(f"now {', '.join(names[:NAMED])}{hidden}")
        return "; ".join(parts)

    def say(self, line: str) -> None:
        """Print a line that stays."""
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)


def describe_duration(seconds: float) -> str:
    """A duration in the two largest of its units."""
    minutes, rest = divmod(max(round(seconds), 0), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
