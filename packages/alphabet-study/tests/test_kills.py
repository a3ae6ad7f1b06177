"""A campaign is killed a hundred times at random moments, and ends as if nothing had happened."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from alphabet_testing.processes import run_python
from alphabet_testing.study_campaigns import HashedFit, InlineEngine, deterministic_export, run_small, small_plan

# The processes of a campaign are found by this variable, which they inherit.
MARK = "ALPHABET_TEST_KILLS"

KILLING = """
import contextlib, json, os, random, select, signal, sys, time
from pathlib import Path
from alphabet_study.campaign.engines.local import LocalEngine
from alphabet_study.campaign.store import Store
from alphabet_testing.study_campaigns import HashedFit, run_small, small_plan

folder, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
plan = small_plan("A", "B", "C", "D", "E")
draw = random.Random(seed)
# Not this process's own output: a worker that outlived its parent would hold it open.
log = os.open(folder / "log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)


class Reporting(LocalEngine):
    # Says when the first fits are done, so that kills can be aimed at a campaign at work.
    def wait(self, seconds):
        records = super().wait(seconds)
        if records:
            os.write(report, b".")
        return records


killed = working = rounds = 0
while killed < kills:
    path = folder / f"{rounds}.sqlite"
    reading, report = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        try:
            run_small(path, plan, Reporting(HashedFit(seconds=0.02), 2))
            os._exit(0)
        except BaseException as error:
            print(type(error), error, file=sys.stderr, flush=True)
            os._exit(1)
    os.close(report)
    with contextlib.suppress(ProcessLookupError):
        os.setpgid(child, child)  # whoever comes first, so that the group exists when it is killed
    if killed % 2:
        select.select([reading], [], [], 60.0)
        time.sleep(draw.uniform(0.0, 0.1))
    else:
        time.sleep(draw.uniform(0.0, 0.4))
    ended, status = os.waitpid(child, os.WNOHANG)
    if not ended:
        (os.killpg if draw.random() < 0.5 else os.kill)(child, signal.SIGKILL)
        ended, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        killed += 1
        working += bool(select.select([reading], [], [], 0)[0] and os.read(reading, 1))
    else:
        assert os.WEXITSTATUS(status) == 0, (folder / "log").read_text()
        rounds += 1  # that campaign is complete: kill another one
    os.close(reading)
run_small(folder / f"{rounds}.sqlite", plan, LocalEngine(HashedFit(), 2))
print(json.dumps({"killed": killed, "working": working, "campaigns": rounds + 1}))
"""


def marked_processes(mark: str) -> list[int]:
    """The processes that inherited a variable, by /proc."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.mark.slow
def test_a_campaign_that_was_killed_a_hundred_times_ends_like_an_undisturbed_one(tmp_path: Path) -> None:
    mark = f"{os.getpid()}-{tmp_path.name}"
    code = f"import sys; sys.argv = ['', {str(tmp_path)!r}, '100', '20261117']\n{KILLING}"
    report = json.loads(run_python(code, **{MARK: mark}).stdout)
    assert report["killed"] == 100
    assert report["working"] >= 25  # half of the kills wait for the first fit, and must not all come too late
    undisturbed = tmp_path / "undisturbed.sqlite"
    run_small(undisturbed, small_plan("A", "B", "C", "D", "E"), InlineEngine(HashedFit()))
    expected = deterministic_export(undisturbed)
    for number in range(report["campaigns"]):
        assert deterministic_export(tmp_path / f"{number}.sqlite") == expected
    if Path("/proc/self/environ").exists():
        # Workers whose parent was killed end by themselves, as soon as they notice.
        for _ in range(300):
            if not marked_processes(mark):
                break
            time.sleep(0.1)
        assert marked_processes(mark) == []


SLOW_CAMPAIGN = """
import sys
from pathlib import Path
from rich.console import Console
from alphabet_study.campaign.engines.local import LocalEngine
from alphabet_study.campaign.progress import Progress
from alphabet_study.campaign.runner import run_campaign
from alphabet_testing.study_campaigns import HashedFit, filled_store, small_plan

plan = small_plan("A", families=("gru",))
console = Console(file=sys.stdout, force_terminal=False)
engine = LocalEngine(HashedFit(seconds=float(sys.argv[2])), 1)
with filled_store(Path(sys.argv[1]), plan) as store, engine, Progress(console, 0.0) as progress:
    summary = run_campaign(plan, store, engine, progress)
print(summary.interrupted, summary.statuses.total(), flush=True)
"""


def start_slow_campaign(path: Path, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-u", "-c", SLOW_CAMPAIGN, str(path), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)


def read_until(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return line
    raise AssertionError(f"{text!r} was never printed")


@pytest.mark.slow
def test_the_first_interrupt_lets_running_fits_finish_and_the_same_call_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with start_slow_campaign(path, 1.0) as process:
        read_until(process, "now A/gru/screen/0/7")
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: workers get it too
        read_until(process, "interrupted: the running fits finish; Ctrl-C again drops them")
        # A fit may have ended just before the interrupt, in which case it is the next one that finishes.
        said = read_until(process, "True").split()
    assert process.returncode == 0
    assert said in (["True", "1"], ["True", "2"])
    run_small(path, small_plan("A", families=("gru",)), InlineEngine(HashedFit()))
    run_small(tmp_path / "undisturbed.sqlite", small_plan("A", families=("gru",)), InlineEngine(HashedFit()))
    assert deterministic_export(path) == deterministic_export(tmp_path / "undisturbed.sqlite")


@pytest.mark.slow
def test_the_second_interrupt_drops_running_fits(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with start_slow_campaign(path, 600.0) as process:
        read_until(process, "now A/gru/screen/0/7")
        os.killpg(process.pid, signal.SIGINT)
        read_until(process, "interrupted: the running fits finish")
        os.killpg(process.pid, signal.SIGINT)
        assert read_until(process, "True").split() == ["True", "0"]
    assert process.returncode == 0
    summary = run_small(path, small_plan("A", families=("gru",)), InlineEngine(HashedFit()))
    assert summary.left == 0
