"""The registry against the paper's table, against itself, and against the files where they are present."""

import csv
import re
from importlib import resources
from pathlib import Path

import pytest
from alphabet_study.data_root import ABSENT, VERIFIED, find_root, locate_files, presence
from alphabet_study.errors import StudyError
from alphabet_study.readers import READERS
from alphabet_study.registry import SUITES, TASKS, Task, find_task, find_tasks
from alphabet_study.registry.loading import parse_suite

PAPER_METRICS = {
    "Bal. Acc.": "balanced_accuracy",
    "Acc.": "accuracy",
    "Macro-F1": "macro_f1",
    "AUROC": "auroc",
    "AUPRC": "auprc",
    "MSE": "mse",
}
ARCHIVE_TASKS = [task for task in TASKS.values() if task.reader == "ucr"]
FORECASTS = [task for task in TASKS.values() if task.reader == "forecasting-csv"]


def paper_rows() -> list[dict[str, str]]:
    table = resources.files("alphabet_study").joinpath("statistics", "paper_test_results.csv")
    return list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))


def named(task: Task) -> str:
    return task.name


def test_the_tasks_are_the_papers_with_its_suites_and_metrics() -> None:
    reported = {
        (row["task"], row["suite"], row["metric"], row["direction"]) for row in paper_rows() if row["role"] == "report"
    }
    selecting = {row["task"]: row["metric"] for row in paper_rows() if row["role"] == "selection"}
    assert len(TASKS) == 82
    words = {name: word for word, name in PAPER_METRICS.items()}
    assert {(task.name, task.suite, words[task.metric], task.direction) for task in TASKS.values()} == reported
    for task in TASKS.values():
        assert words[task.selection_metric] == selecting.get(task.name, words[task.metric]), task.name


def test_suites_have_the_papers_sizes_and_rules() -> None:
    assert {suite: len(find_tasks(suite)) for suite in SUITES} == {"UCR": 30, "UEA-fault": 31, "general": 21}
    assert {task.final_training for task in find_tasks("UCR")} == {"full-train"}
    assert {task.final_training for task in find_tasks(["UEA-fault", "general"])} == {"checkpoint"}
    assert {task.split for task in ARCHIVE_TASKS} == {"stratified"}
    assert {task.split for task in FORECASTS} == {"predefined"}


def test_every_task_has_a_reader_that_exists_or_one_line_why_not() -> None:
    for task in TASKS.values():
        assert task.reader in READERS if task.no_reader is None else "\n" not in task.no_reader, task.name
    assert sum(task.no_reader is not None for task in TASKS.values()) == 5


def test_every_task_says_what_it_is_where_it_comes_from_and_whom_to_cite() -> None:
    for task in TASKS.values():
        assert task.title, task.name
        assert task.source.startswith("https://"), task.name
        assert re.search(r"\b(19|20)\d\d\b|https://", task.citation), task.name
        assert "{" not in task.title + task.source + task.citation + task.licence, task.name


def test_files_of_a_task_share_a_folder_that_no_other_task_uses() -> None:
    folders = {}
    for task in TASKS.values():
        parents = {Path(file.path).parent for file in task.files}
        assert len(parents) == bool(task.files), task.name
        assert all(len(Path(file.path).parts) == 3 for file in task.files), task.name
        assert len({file.name for file in task.files}) == len(task.files), task.name
        folders.update(dict.fromkeys(parents, task.name))
    assert len(folders) == sum(bool(task.files) for task in TASKS.values())


def test_test_files_are_not_among_train_files_unless_one_file_holds_both() -> None:
    for task in TASKS.values():
        train, test = set(task.files_train), set(task.files_test)
        assert train.isdisjoint(test) or (train == test and len(train) == 1), task.name
        assert bool(task.files) == (task.no_reader is None), task.name


def test_addresses_are_https_and_those_on_github_name_a_commit() -> None:
    for task in TASKS.values():
        for file in task.files:
            if file.address is not None:
                assert file.address.startswith("https://"), task.name
                pinned = re.match(r"https://raw\.githubusercontent\.com/[^/]+/[^/]+/[0-9a-f]{40}/", file.address)
                assert "github" not in file.address or pinned, task.name


@pytest.mark.parametrize("task", FORECASTS, ids=named)
def test_forecasting_geometry_follows_from_the_options(task: Task) -> None:
    options = task.options
    assert task.channels is not None
    assert task.length == options["context"]
    assert task.outputs == options["horizon"] * task.channels
    window = options["context"] + options["horizon"]
    if "rows" in options:
        train, validation, test = options["rows"]
        assert task.train_size == train - window + 1 + validation - window + 1
        assert task.test_size == test - window + 1


def archive_geometry(task: Task, root: Path | None) -> tuple[int | None, ...]:
    """Sizes, longest series, channels and classes of the .ts files, counted without the study's reader."""
    longest, sizes = 0, []
    labels: set[str] = set()
    channels: set[int] = set()
    for split in ("train", "test"):
        (path,) = locate_files(task, root, split)
        text = path.read_text(encoding="utf-8-sig")
        lines = re.split(r"^@data\s*$", text, flags=re.MULTILINE | re.IGNORECASE)[1].split("\n")
        series = [line.split(":") for line in lines if line.strip()]
        channels |= {len(fields) - 1 for fields in series}
        longest = max(longest, *(field.count(",") + 1 for fields in series for field in fields[:-1]))
        labels |= {fields[-1].strip() for fields in series}
        sizes.append(len(series))
    assert len(channels) == 1, task.name
    return (*sizes, longest, channels.pop(), len(labels))


def declared_geometry(task: Task) -> tuple[int | None, ...]:
    return task.train_size, task.test_size, task.length, task.channels, task.outputs


@pytest.mark.parametrize("task", [task for task in ARCHIVE_TASKS if task.embedded], ids=named)
def test_declared_geometry_is_that_of_the_bundled_files(task: Task) -> None:
    assert archive_geometry(task, None) == declared_geometry(task)


@pytest.fixture(scope="module")
def data_root() -> Path:
    root = find_root(None)
    if root is None:
        pytest.skip("no data root: set ALPHABET_DATA to check real files")
    return root


@pytest.mark.slow
def test_declared_geometry_is_that_of_the_archives_files(data_root: Path) -> None:
    for task in ARCHIVE_TASKS:
        if presence(task, data_root).status == VERIFIED:
            assert archive_geometry(task, data_root) == declared_geometry(task), task.name


def test_declared_geometry_is_that_of_the_forecasting_files(data_root: Path) -> None:
    for task in FORECASTS:
        if presence(task, data_root).status == ABSENT:
            continue
        (path,) = locate_files(task, data_root, "train")
        header, *rows = path.read_bytes().rstrip().split(b"\n")
        assert header.count(b",") == task.channels, task.name
        window = task.options["context"] + task.options["horizon"]
        if "rows" in task.options:
            assert len(rows) >= sum(task.options["rows"]), task.name
        else:
            test = int(len(rows) * task.options["shares"][2])
            assert task.test_size == test - window + 1, task.name
            assert task.train_size == len(rows) - test - 2 * (window - 1), task.name


def test_recordings_that_validate_are_among_those_of_train() -> None:
    for task in TASKS.values():
        validating = task.options.get("validation", [])
        assert set(validating) < {file.name for file in task.files_train} or not validating, task.name
        assert task.split == "predefined" or not validating, task.name
    assert len(find_task("Paderborn (KAT)").options["validation"]) == 28


def test_a_task_is_found_by_its_name_and_near_names_are_offered() -> None:
    assert find_task("GunPoint") is TASKS["GunPoint"]
    with pytest.raises(StudyError, match="no task 'gunpoint'; did you mean GunPoint"):
        find_task("gunpoint")
    with pytest.raises(StudyError, match=r"did you mean PAM \(PAMAP2\)\?"):
        find_task("pamap2")
    with pytest.raises(StudyError, match="the suites are UCR, UEA-fault, general"):
        find_task("zzzz")


def test_tasks_are_found_by_names_suites_and_all_each_once_in_order() -> None:
    assert find_tasks("all") == tuple(TASKS.values())
    assert [task.name for task in find_tasks(["Rock", "ACSF1", "Rock"])] == ["ACSF1", "Rock"]
    assert find_tasks(["ucr", "GunPoint"]) == find_tasks("UCR")
    assert find_tasks([]) == ()
    with pytest.raises(StudyError, match="'Coffe' is neither a task nor a suite; did you mean Coffee"):
        find_tasks(["GunPoint", "Coffe"])


DECLARATION = """
[defaults]
suite = "UCR"
objective = "classification"
metric = "accuracy"
selection_metric = "accuracy"
split = "stratified"
final_training = "checkpoint"
reader = "ucr"
geometry = { channels = 2 }
folder = "UCR/{name}"
files_train = ["{name}_[1-3].ts"]
files_test = ["{name}_{part}.ts"]
source = "https://example.org/{record}"
citation = "nobody, 2020"
title = "made"
origin = "here"

[origins.here]
address = "https://example.org/{record}/{part}/{file}"

[tasks.Made]
fill = { record = 7 }
geometry = { outputs = 3 }
sha256."Made_2.ts" = "%s"
""" % ("0" * 64)


LIKE = """
[tasks.Second]
like = "Made"
geometry = { length = 9 }
"""


def test_a_task_like_another_takes_all_but_its_hashes() -> None:
    first, second = parse_suite(DECLARATION + LIKE, "made.toml")
    assert (second.channels, second.outputs, second.length) == (2, 3, 9)
    assert second.files_train[1].path == "UCR/Second/Second_2.ts"
    assert second.files_train[1].sha256 is None
    assert (first.source, first.length) == (second.source, None)
    for wrong in (LIKE.replace('"Made"', '"Nobody"'), LIKE.replace('"Made"', '"Second"')):
        with pytest.raises(StudyError, match="task Second is like"):
            parse_suite(DECLARATION + wrong, "made.toml")


def test_defaults_ranges_and_placeholders_are_filled_in() -> None:
    (task,) = parse_suite(DECLARATION, "made.toml")
    assert (task.channels, task.outputs, task.length) == (2, 3, None)
    assert task.source == "https://example.org/7"
    assert [file.path for file in task.files_train] == [f"UCR/Made/Made_{number}.ts" for number in (1, 2, 3)]
    assert [file.sha256 for file in task.files_train] == [None, "0" * 64, None]
    assert task.files_test[0].address == "https://example.org/7/test/Made_test.ts"


@pytest.mark.parametrize(
    ("found", "instead", "message"),
    [
        ("fill = {", "fil = {", "task Made has the unknown key 'fil'"),
        ("{ record = 7 }", "{}", r"nothing fills the placeholder \{record\}"),
        ("Made_2.ts", "Made_9.ts", "a hash for Made_9.ts, which is none of its files"),
        ("0" * 64, "0" * 63, "64 hexadecimal digits"),
        ('origin = "here"', 'origin = "there"', "origin 'there' is not in"),
        ("outputs = 3", "outputs = 0", "geometry has outputs = 0"),
        ("outputs = 3", "outputs = true", "geometry has outputs = True"),
        ("outputs = 3", "output = 3", "geometry has output = 3"),
        ("[origins.here]", "[origin.here]", r"unknown table \[origin\]"),
        ('citation = "nobody, 2020"', "", "lacks a field: .*citation"),
        ('metric = "accuracy"', 'metric = "precision"', "metric must be one of"),
        ('reader = "ucr"', "", "either a reader or"),
        ("[tasks.Made]", "[tasks.Made", "made.toml: not valid TOML"),
        ("UCR/{name}", "../{name}", "below the data root"),
    ],
)
def test_a_declaration_that_is_wrong_says_where(found: str, instead: str, message: str) -> None:
    assert found in DECLARATION
    with pytest.raises(StudyError, match=message):
        parse_suite(DECLARATION.replace(found, instead, 1), "made.toml")
