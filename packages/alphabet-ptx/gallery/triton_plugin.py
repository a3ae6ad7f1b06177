"""A pytest plugin that runs Triton's own tests on alphabet-ptx's device: `pytest -p triton_plugin --ptx-log FILE ...`.

Of each test function at most three parametrizations run: the first, the middle one and the last. A line is written to
the log when a test starts and one when it ends, so that `run.py` knows which test took the process down, and what is
left after an interruption. The option `--ptx-arch` is that of alphabet-ptx's own plugin.
"""

import json
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from alphabet_ptx.driver import ptx_device
from outcomes import describe

PARAMETRIZATIONS = 3
# Tests that no time limit of a day would let end.
LEFT_OUT = {"test_load_store_same_ptr": "65 million programs"}


class TimeLimitError(BaseException):
    """A test took longer than it may; no `except Exception` of a test stops it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--ptx-log", type=Path, required=True, help="file that a line is appended to per start and end")
    parser.addoption("--ptx-seconds", type=int, default=240, help="how much processor time one test may take")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Gallery(config), "alphabet-ptx gallery")


class Gallery:
    """Keeps the device open for the session, chooses tests, and notes how each went."""

    def __init__(self, config: pytest.Config) -> None:
        self.log: Path = config.getoption("--ptx-log")
        self.seconds: int = config.getoption("--ptx-seconds")
        self.stack = ExitStack()
        # Modules ask for the device while they are collected.
        self.device = self.stack.enter_context(ptx_device(arch=config.getoption("--ptx-arch")))

    def pytest_unconfigure(self) -> None:
        self.stack.close()

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        last = {row["test"]: row["outcome"] for row in map(json.loads, lines)}
        done = {test for test, outcome in last.items() if outcome != "interrupted"}
        functions: dict[str, list[pytest.Item]] = defaultdict(list)
        for item in items:
            functions[item.nodeid.partition("[")[0]].append(item)
        chosen = [item for group in functions.values() for item in spread(group, PARAMETRIZATIONS)]
        for item in chosen:
            reason = LEFT_OUT.get(name(item).partition("::")[2])
            if reason and name(item) not in done:
                done.add(name(item))
                self.write(test=name(item), outcome="left out", reason=reason)
        left = [item for item in chosen if name(item) not in done]
        config.hook.pytest_deselected(items=[item for item in items if item not in left])
        items[:] = left

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.device.report.launches.clear()
        self.outcome: dict[str, Any] = {"outcome": "passed", "reason": ""}
        self.test = name(item)
        self.write(test=self.test, outcome="started")
        # Time of the processor, so that a busy machine makes no difference; compilers run in other processes.
        signal.signal(signal.SIGPROF, self.stop)
        signal.setitimer(signal.ITIMER_PROF, self.seconds)
        start = time.perf_counter()
        yield
        signal.setitimer(signal.ITIMER_PROF, 0)
        spent = round(time.perf_counter() - start, 2)
        self.write(test=self.test, seconds=spent, **self.outcome, **describe(self.device.report))

    def pytest_keyboard_interrupt(self) -> None:
        self.write(test=self.test, outcome="interrupted")

    def stop(self, *_: object) -> None:
        raise TimeLimitError(f"more than {self.seconds} s")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Iterator[None]:
        result = yield
        report = result.get_result()
        if report.failed and call.excinfo is not None:
            error = call.excinfo.value
            self.outcome = {"outcome": "failed", "reason": f"{type(error).__name__}: {error}"[:600]}
        elif report.skipped:
            self.outcome = {"outcome": "skipped", "reason": str(report.longrepr[2])[:200] if report.longrepr else ""}

    def write(self, **line: Any) -> None:
        with self.log.open("a") as file:
            file.write(json.dumps(line) + "\n")


def name(item: pytest.Item) -> str:
    """The test's file and name, without the folders above."""
    return item.nodeid.rpartition("/")[2]


def spread(items: list[pytest.Item], count: int) -> list[pytest.Item]:
    """At most `count` items, from the first to the last at equal distances."""
    if len(items) <= count:
        return items
    return [items[round(i * (len(items) - 1) / (count - 1))] for i in range(count)]
