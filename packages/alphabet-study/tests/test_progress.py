"""What a user sees of a campaign: changes, progress, time left, status."""

import re
from functools import partial
from io import StringIO
from pathlib import Path

import pytest
from alphabet_study.campaign.estimate import Estimate
from alphabet_study.campaign.progress import Progress, describe_duration
from alphabet_study.campaign.runner import describe_changes, run_campaign
from alphabet_study.campaign.status import failure_lines, status_table
from alphabet_study.campaign.store import Store
from alphabet_study.protocol.records import Cell
from alphabet_testing.study_campaigns import (
    HashedFit,
    InlineEngine,
    failing_fit,
    filled_store,
    make_task,
    run_small,
    small_plan,
)
from rich.console import Console


def test_changes_of_code_and_libraries_are_described_and_unknown_ones_are_not() -> None:
    now = {"sources": "new", "versions": {"torch": "2", "numpy": "1"}}
    assert describe_changes(now, now) == ""
    assert describe_changes({}, now) == ""
    old = {"sources": "old", "versions": {"torch": "1", "numpy": "1"}}
    assert describe_changes(old, now) == "sources old then, new now, torch 1 then, 2 now"


def make_progress(*, terminal: bool = False, interval: float = 0.0) -> tuple[Progress, StringIO]:
    out = StringIO()
    return Progress(Console(file=out, force_terminal=terminal, width=200), interval), out


def test_progress_says_what_is_done_failed_left_and_running(tmp_path: Path) -> None:
    plan = small_plan("A", families=("gru",))
    progress, out = make_progress()
    with filled_store(tmp_path / "store.sqlite", plan) as store, progress:
        engine = InlineEngine(partial(failing_fit, bad="A/gru/screen/3/7"))
        run_campaign(plan, store, engine, progress)
    text = out.getvalue()
    assert "0 of 8 fits done, 0 failed, 8 left; now A/gru/screen/0/7\n" in text
    assert re.search(
        r"1 of 8 fits done, 0 failed, 7 left; [\d.]+ a minute; about \d+ s to go; now A/gru/screen/1/7", text
    )
    assert "failed: A/gru/screen/3/7: planted\n" in text


def test_progress_is_a_line_now_and_then_where_there_is_no_terminal(tmp_path: Path) -> None:
    plan = small_plan("A")
    progress, out = make_progress(interval=3600.0)
    with filled_store(tmp_path / "store.sqlite", plan) as store, progress:
        run_campaign(plan, store, InlineEngine(HashedFit()), progress)
    assert out.getvalue() == ""


def test_progress_on_a_terminal_leaves_only_what_was_said(tmp_path: Path) -> None:
    plan = small_plan("A", families=("gru",))
    progress, out = make_progress(terminal=True)
    with filled_store(tmp_path / "store.sqlite", plan) as store, progress:
        run_campaign(plan, store, InlineEngine(partial(failing_fit, bad="A/gru/screen/3/7")), progress)
    assert "failed: A/gru/screen/3/7: planted" in out.getvalue()
    assert "fits done" in out.getvalue()


def test_time_left_comes_from_the_cell_then_the_family_then_all() -> None:
    tasks = {name: make_task(name, length=length) for name, length in (("A", 1000), ("B", 2000))}
    estimate = Estimate(tasks, {Cell("A", "gru"): [1.0, 2.0, 300.0], Cell("A", "lstm"): [6.0]})
    assert estimate.seconds_left({Cell("A", "gru"): 10}) == 20.0
    assert estimate.seconds_left({Cell("B", "gru"): 10}) == pytest.approx(40.0)
    assert estimate.seconds_left({Cell("B", "s4d"): 1}) == pytest.approx(8.0)
    estimate.add(Cell("B", "s4d"), 5.0)
    assert estimate.seconds_left({Cell("B", "s4d"): 2}) == 10.0
    assert Estimate(tasks, {}).seconds_left({Cell("A", "gru"): 10}) == 0.0


def test_durations_are_said_in_their_two_largest_units() -> None:
    said = {0.4: "0 s", 59.0: "59 s", 61.0: "1 min 01 s", 3600.0: "1 h 00 min", 90_000.0: "25 h 00 min", -5.0: "0 s"}
    assert {seconds: describe_duration(seconds) for seconds in said} == said


def test_status_shows_every_cell_and_names_failures(tmp_path: Path) -> None:
    path, plan = tmp_path / "store.sqlite", small_plan("A")
    run_small(path, plan, InlineEngine(partial(failing_fit, bad="A/gru/screen/3/7")))
    out = StringIO()
    with Store.read(path) as store:
        Console(file=out, width=200).print(status_table(store))
        assert failure_lines(store) == ["failed: A/gru/screen/3/7: planted"]
    lines = {line.split()[1]: line.split() for line in out.getvalue().splitlines()[2:]}
    assert lines["alphabet"][2:5] == ["4/4", "2/2", "2/2"]
    assert lines["gru"][2:5] == ["3/4", "0/2", "0/2"]
