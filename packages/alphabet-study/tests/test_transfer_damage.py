"""Malformed exports are refused, with the line and column or the entry that is wrong."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from alphabet_study.campaign.transfer import read_csv
from alphabet_study.errors import StudyError
from alphabet_study.protocol.records import CONFIRM, DONE, FINAL, SCREEN
from alphabet_testing.study_exports import edit, edit_description, make_export, make_store, set_in


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return make_store(tmp_path)


@pytest.fixture
def exported(tmp_path: Path, store: Path) -> Path:
    return make_export(tmp_path, store)


def set_field(row: int, column: int, text: str, rows: list[list[str]]) -> None:
    rows[row][column] = text


# The lines of A/alphabet: 1 to 4 are its screen, 5 and 6 its confirmation, 7 and 8 its finals.
SCREENED, CONFIRMED, TRAINED = 3, 5, 7
FAMILY, STAGE, SLOT, SEED, FROZEN, STATUS, SCORE, PARAMETERS, TEST, SECONDS = 1, 2, 3, 4, 7, 8, 10, 14, 16, 17


def test_the_lines_that_are_changed_below_are_what_they_seem(exported: Path) -> None:
    records = read_csv(exported).records
    found = {line: (records[line - 1].job.key.stage, records[line - 1].outcome.status) for line in (3, 5, 7)}
    assert found == {SCREENED: (SCREEN, DONE), CONFIRMED: (CONFIRM, DONE), TRAINED: (FINAL, DONE)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (partial(set_field, 0, 0, "Task"), r"fits.csv, line 1: the header must be task,family,"),
        (partial(set_field, 3, 3, "two"), r"fits.csv, line 4, column slot: 'two' is not understood"),
        (partial(set_field, 3, 10, "high"), r"fits.csv, line 4, column score: 'high' is not understood"),
        (
            partial(set_field, 3, 2, "rehearsal"),
            r"line 4, column stage: 'rehearsal' .* must be one of screen, confirm, final",
        ),
        (partial(set_field, 3, 8, "fine"), r"line 4, column status: 'fine' .* must be one of done, diverged, failed"),
        (partial(set_field, 3, 16, "[1]"), r"line 4, column test: .* a JSON object"),
        (partial(set_field, 3, 16, "{"), r"line 4, column test: '\{' is not understood"),
        (partial(set_field, 3, 5, ""), r"line 4, column candidate: '' is not understood: it must not be empty"),
        (partial(set_field, 3, 0, "C"), r"line 4: fits.json has no digests of C's data"),
        (
            partial(set_field, SCREENED, SCORE, ""),
            r"line 4, column score: A/alphabet/screen/2/7 is done, but has no fin",
        ),
        (partial(set_field, CONFIRMED, SCORE, "nan"), r"line 6, column score: A/alphabet/confirm/0/11 is done, but"),
        (partial(set_field, CONFIRMED, SCORE, "inf"), r"line 6, column score: A/alphabet/confirm/0/11 is done, but"),
        (partial(set_field, SCREENED, SLOT, "99"), r"line 4: A/alphabet/screen/99/7 is no fit of the settings 'small'"),
        (partial(set_field, SCREENED, SEED, "8"), r"line 4: A/alphabet/screen/2/8 is no fit"),
        (partial(set_field, TRAINED, SEED, "99"), r"line 8: A/alphabet/final/0/99 is no fit"),
        (partial(set_field, TRAINED, SLOT, "1"), r"line 8: A/alphabet/final/1/23 is no fit"),
        (partial(set_field, SCREENED, FAMILY, "rnn"), r"line 4, column family: 'rnn' is none of alphabet, "),
        (
            partial(set_field, SCREENED, SLOT, str(2**63)),
            r"line 4, column slot: .* too large for an integer of 64 bits",
        ),
        (partial(set_field, SCREENED, PARAMETERS, str(-(2**80))), r"line 4, column parameters: .* too large"),
        (partial(set_field, SCREENED, PARAMETERS, "9" * 5000), r"line 4, column parameters: '9{100}\.\.\.' is not"),
        (partial(set_field, SCREENED, FROZEN, "f"), r"line 4, column frozen: A/alphabet/screen/2/7 is no final"),
        (partial(set_field, SCREENED, SECONDS, "nan"), r"line 4, column seconds: 'nan' .* must be finite"),
        (
            partial(set_field, TRAINED, TEST, '{"accuracy": "high"}'),
            r"line 8, column test: .* accuracy must be a finite",
        ),
        (partial(set_field, TRAINED, TEST, '{"accuracy": NaN}'), r"line 8, column test: .* accuracy must be a finite"),
        (
            partial(set_field, TRAINED, TEST, '{"accuracy": 1e999}'),
            r"line 8, column test: .* accuracy must be a finite",
        ),
        (partial(set_field, TRAINED, TEST, '{"accuracy": true}'), r"line 8, column test: .* accuracy must be a finite"),
        (partial(set_field, TRAINED, TEST, "[" * 100_000), r"line 8, column test: .* is not understood"),
        (
            partial(set_field, TRAINED, TEST, "{}"),
            r"line 8, column test: A/alphabet/final/0/23 .* has no metrics on TEST",
        ),
        (partial(set_field, TRAINED, STATUS, "diverged"), r"line 8, column test: A/alphabet/final/0/23 has metrics on"),
        (partial(set_field, TRAINED, STATUS, "failed"), r"line 8, column test: A/alphabet/final/0/23 has metrics on"),
        (
            partial(set_field, SCREENED, TEST, '{"accuracy": 1.0}'),
            r"line 4, column test: A/alphabet/screen/2/7 has metrics on TEST, which only a final",
        ),
        (lambda rows: rows[3].pop(), r"line 4: 20 columns found, 21 expected"),
        (lambda rows: rows.append(rows[3]), r"line 34: A/alphabet/screen/2/7 occurs twice"),
        (lambda rows: rows.pop(), r"has 31 fits, but fits.json beside it describes 32"),
        (lambda rows: rows.clear(), r"fits.csv, line 1: the header must be"),
    ],
)
def test_a_malformed_file_is_refused_with_line_and_column(exported: Path, change: Callable, message: str) -> None:
    edit(exported, change)
    with pytest.raises(StudyError, match=message):
        read_csv(exported)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "other"}', "\x00"])
def test_a_malformed_description_is_refused(exported: Path, text: str) -> None:
    exported.with_suffix(".json").write_text(text)
    with pytest.raises(StudyError, match=r"fits.json does not describe an export"):
        read_csv(exported)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda found: found["data"]["B"].pop("test"), "data of B must have a digest of each of train and test"),
        (lambda found: found["data"]["B"].clear(), "data of B must have a digest of each of train and test"),
        (partial(set_in, ("data", "B", "validation"), "third"), "data of B must have a digest of each of train and"),
        (partial(set_in, ("data", "B", "train"), None), "data of B must have a digest of each of train and test"),
        (partial(set_in, ("data", "B", "train"), "\ud800"), "data of B must have a digest of each of train and test"),
        (partial(set_in, ("data", "B"), "train test"), "AttributeError"),
        (partial(set_in, ("fits",), float("inf")), "OverflowError"),
        (partial(set_in, ("settings", "shapes"), [98, 99, 0, 1, 2, 3]), "IndexError"),
        (partial(set_in, ("openings",), None), "TypeError"),
        (partial(set_in, ("openings", 0), {}), "KeyError: 'task'"),
        (partial(set_in, ("openings", 0, "task"), "C"), "openings: C/alphabet has no digests of its data"),
        (partial(set_in, ("openings", 0, "family"), "rnn"), "openings: A/rnn has .* no known family"),
        (partial(set_in, ("openings", 0, "family"), "gru"), "openings: A/gru .* occurs twice"),
        (partial(set_in, ("openings", 0, "frozen"), ""), "openings: A/alphabet must have texts as frozen"),
        (partial(set_in, ("openings", 0, "opened"), None), "openings: A/alphabet must have texts as frozen"),
        (partial(set_in, ("openings", 0, "epochs"), 2**63), "openings: epochs of A/alphabet must be an integer"),
        (partial(set_in, ("openings", 0, "epochs"), True), "openings: epochs of A/alphabet must be an integer"),
        (partial(set_in, ("planned",), None), "TypeError"),
        (partial(set_in, ("planned", 0), {}), "KeyError: 'task'"),
        (partial(set_in, ("planned", 0, "task"), ""), "planned: /alphabet has no name of a task"),
        (partial(set_in, ("planned", 0, "task"), ["A"]), "planned: .* has no name of a task"),
        (partial(set_in, ("planned", 0, "family"), "rnn"), "planned: A/rnn has .* no known family"),
        (partial(set_in, ("planned", 0, "family"), "gru"), "planned: A/gru .* occurs twice"),
    ],
)
def test_a_description_with_a_malformed_entry_is_refused(exported: Path, change: Callable, message: str) -> None:
    edit_description(exported, change)
    with pytest.raises(StudyError, match=rf"fits.json does not describe an export \(.*{message}"):
        read_csv(exported)


def test_a_csv_file_without_its_description_is_refused(exported: Path) -> None:
    exported.with_suffix(".json").unlink()
    with pytest.raises(StudyError, match=r"fits.json is missing: .* copy both files"):
        read_csv(exported)


def test_bytes_that_are_no_text_and_files_that_are_not_there_are_refused(tmp_path: Path, exported: Path) -> None:
    exported.write_bytes(b"\xff\xfe" + exported.read_bytes())
    with pytest.raises(StudyError, match="cannot be read"):
        read_csv(exported)
    exported.unlink()
    with pytest.raises(StudyError, match="cannot be read"):
        read_csv(exported)
    with pytest.raises(StudyError, match=r"must end in \.csv"):
        read_csv(tmp_path / "fits.txt")
