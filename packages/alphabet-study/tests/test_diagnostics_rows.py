"""Rows of finished fits: nothing is computed twice, and a kill costs at most the last row."""

import io
import math
import struct
from dataclasses import dataclass

import pytest
from alphabet_study.diagnostics.progress import Progress
from alphabet_study.diagnostics.rows import FitName, RowFile, complete_rows
from alphabet_study.errors import StudyError
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console


@dataclass(frozen=True)
class Toy(FitName):
    task: str
    eps: float
    seed: int


RESULTS = {"score": float, "path": str}
NAMES = [Toy("A, quoted", 0.1, 1), Toy("A, quoted", 0.1, 2), Toy("B", 0.30000000000000004, 1)]


class Counting:
    """A fit that remembers for whom it ran."""

    def __init__(self):
        self.ran = []

    def __call__(self, name):
        self.ran.append(name)
        return {"score": name.eps / 3 * name.seed, "path": 'reference: "so", it says'}


def run(path, names=NAMES, fit=None):
    return complete_rows(path, names, fit or Counting(), RESULTS, Progress())


@pytest.mark.slow
def test_a_kill_at_any_byte_costs_at_most_the_row_that_was_being_written(tmp_path):
    path = tmp_path / "rows.csv"
    whole = run(path).drop(columns="seconds")
    content = path.read_bytes()
    ends = [position + 1 for position, byte in enumerate(content) if byte == ord("\n")]
    for length in range(len(content) + 1):
        path.write_bytes(content[:length])
        fit = Counting()
        assert run(path, fit=fit).drop(columns="seconds").equals(whole)
        kept = sum(end <= length for end in ends[1:])
        assert fit.ran == NAMES[kept:]
        # and the file that the second run leaves is whole
        fit = Counting()
        assert run(path, fit=fit).drop(columns="seconds").equals(whole)
        assert not fit.ran


def test_rows_are_on_the_disk_before_the_next_fit_starts(tmp_path):
    path = tmp_path / "rows.csv"
    seen = []

    def fit(name):
        seen.append(path.read_bytes().count(b"\n"))
        return Counting()(name)

    run(path, fit=fit)
    assert seen == [1, 2, 3]


def test_an_error_in_a_fit_keeps_the_rows_before_it(tmp_path):
    def fit(name):
        if name == NAMES[1]:
            raise RuntimeError("a planted error")
        return Counting()(name)

    with pytest.raises(RuntimeError, match="planted"):
        run(tmp_path / "rows.csv", fit=fit)
    again = Counting()
    run(tmp_path / "rows.csv", fit=again)
    assert again.ran == NAMES[1:]


def test_only_the_rows_that_were_asked_for_are_given_each_once_in_their_order(tmp_path):
    run(tmp_path / "rows.csv")
    some = run(tmp_path / "rows.csv", [NAMES[2], NAMES[0], NAMES[2]])
    assert list(some["task"]) == ["B", "A, quoted"]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(), min_size=1, max_size=5))
def test_numbers_read_back_to_the_same_bits(tmp_path_factory, numbers):
    path = tmp_path_factory.mktemp("bits") / "rows.csv"
    with RowFile(path, Toy, {"score": float}) as file:
        for seed, number in enumerate(numbers):
            file.append(Toy("A", 0.1, seed), {"score": number})
    with RowFile(path, Toy, {"score": float}) as file:
        back = [row["score"] for row in file.rows.values()]
    for number, found in zip(numbers, back, strict=True):
        same = struct.pack("d", number) == struct.pack("d", found)
        assert same or (math.isnan(number) and math.isnan(found))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("score", "points", 1), "line 1: the columns must be task,eps,seed,score"),
        (lambda text: text.replace("0.1", "zero", 1), "line 2, column eps: 'zero' is no float"),
        (lambda text: text + text.splitlines()[1] + "\n", "line 5: this fit has a row already"),
        (lambda text: text + "B,0.1\n", "line 5: 2 columns found, 7 expected"),
        (lambda text: text + '"\n', "is no CSV file"),
    ],
)
def test_a_file_that_holds_something_else_is_refused_by_line(tmp_path, change, words):
    path = tmp_path / "rows.csv"
    run(path)
    path.write_text(change(path.read_text()))
    with pytest.raises(StudyError, match=words):
        run(path)


def test_one_process_at_a_time_adds_rows(tmp_path):
    pytest.importorskip("fcntl", reason="this system cannot lock files")
    path = tmp_path / "rows.csv"
    with RowFile(path, Toy, RESULTS), pytest.raises(StudyError, match="another process is adding rows"):
        RowFile(path, Toy, RESULTS)
    with RowFile(path, Toy, RESULTS):
        pass  # the lock is gone


def test_a_folder_in_the_place_of_the_file_is_explained(tmp_path):
    with pytest.raises(StudyError, match="cannot be opened"):
        run(tmp_path)


def test_nothing_to_run_is_said(tmp_path):
    with pytest.raises(StudyError, match="nothing to run"):
        run(tmp_path / "rows.csv", [])


def test_rows_of_another_version_of_the_code_are_announced(tmp_path):
    path = tmp_path / "rows.csv"
    frame = run(path)
    path.write_text(path.read_text().replace(frame["sources"][0], "0" * 16))
    said = io.StringIO()
    complete_rows(path, NAMES, Counting(), RESULTS, Progress(Console(file=said)))
    assert "3 of 3 fits were done earlier" in said.getvalue()
    assert "3 rows" in said.getvalue()
    assert "another version of the code" in said.getvalue()


def test_every_fit_is_reported_where_output_is_no_terminal(tmp_path):
    said = io.StringIO()
    complete_rows(tmp_path / "rows.csv", NAMES, Counting(), RESULTS, Progress(Console(file=said)))
    assert [line.split(" in ")[0] for line in said.getvalue().splitlines()] == ["1 of 3", "2 of 3", "3 of 3"]
    assert "B/0.30000000000000004/1" in said.getvalue()


def test_a_terminal_gets_a_bar(tmp_path):
    said = io.StringIO()
    with Progress(Console(file=said, force_terminal=True, width=100)) as progress:
        complete_rows(tmp_path / "rows.csv", NAMES, Counting(), RESULTS, progress)
    assert "3/3" in said.getvalue()
