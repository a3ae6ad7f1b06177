"""The seal: selection holds nothing through which TEST can be reached, and no TEST file is opened while it runs."""

import dataclasses
import gc
import subprocess
import sys
import textwrap
import types

import pytest
import torch
from alphabet_study.data_root import task_folder
from alphabet_study.errors import StudyError
from alphabet_study.protocol.folds import make_folds
from alphabet_study.protocol.records import FINAL, SCREEN, FitKey, Job
from alphabet_study.protocol.sealing import find_reader, load_train, open_test
from alphabet_study.protocol.settings import PAPER
from alphabet_study.registry import TASKS

TASK = TASKS["GunPoint"]
# Selection runs here with Python's own record of every file that is opened.
WATCHED = textwrap.dedent("""
    import sys
    opened = []
    sys.addaudithook(lambda event, arguments: opened.append(str(arguments[0])) if event == "open" else None)
    from alphabet_study.protocol.fitting import run_job
    from alphabet_study.protocol.records import FINAL, SCREEN, FitKey, Job
    from alphabet_study.protocol.settings import Settings
    from alphabet_study.registry import TASKS
    settings = Settings(name="test", epochs=2)
    task = TASKS["ItalyPowerDemand"]
    candidate = settings.candidates("cnn1d")[0].key
    run_job(Job(FitKey(task.name, "cnn1d", SCREEN, 0, 7), candidate), task, settings, None)
    assert any(name.endswith("ItalyPowerDemand_TRAIN.ts") for name in opened), "the watch sees nothing"
    assert not any("TEST" in name for name in opened), "selection opened TEST"
    run_job(Job(FitKey(task.name, "cnn1d", FINAL, 0, 23), candidate, 2, "frozen"), task, settings, None)
    assert any(name.endswith("ItalyPowerDemand_TEST.ts") for name in opened), "the final did not open TEST"
""")


def reachable(start):
    """Everything that references lead to from an object; modules, classes and functions, which lead anywhere, apart."""
    found, queue = {}, [start]
    while queue:
        item = queue.pop()
        if id(item) in found or isinstance(item, types.ModuleType | types.FunctionType | type):
            continue
        found[id(item)] = item
        queue += gc.get_referents(item)
    return list(found.values())


def shares_a_series(tensor, series):
    """Whether a tensor holds one of these series (N, T, C), in whatever units: ranks survive standardization."""
    if tensor.ndim != 3 or tensor.shape[1:] != series.shape[1:]:
        return False
    ranks = {tuple(row.argsort().tolist()) for row in tensor[..., 0]}
    return any(tuple(row.argsort().tolist()) in ranks for row in series[..., 0])


def test_test_cannot_be_reached_from_what_selection_holds():
    train = load_train(TASK, None)
    test = find_reader(TASK).test(TASK, task_folder(TASK, None), train)
    held = reachable(make_folds(TASK, train, PAPER))
    tensors = [item for item in held if isinstance(item, torch.Tensor)]
    assert any(shares_a_series(tensor, train.examples.values) for tensor in tensors)  # the search finds what is there
    assert not any(shares_a_series(tensor, test.values) for tensor in tensors)
    assert not any(hasattr(item, "read") or "TEST" in str(item) for item in held if not isinstance(item, torch.Tensor))


@pytest.mark.slow
def test_no_test_file_is_opened_while_selection_runs():
    ran = subprocess.run([sys.executable, "-c", WATCHED], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    "job",
    [
        Job(FitKey("GunPoint", "gru", SCREEN, 0, 7), "gru/032/01x16/A", frozen="pretended"),
        Job(FitKey("GunPoint", "gru", FINAL, 0, 23), "gru/032/01x16/A", 12),
    ],
    ids=["of the screen", "without a frozen configuration"],
)
def test_a_job_cannot_open_test(job):
    with pytest.raises(StudyError, match="sealed"):
        open_test(job, TASK, None, load_train(TASK, None))


def test_a_task_without_a_reader_says_why():
    task = next(task for task in TASKS.values() if task.reader is None)
    with pytest.raises(StudyError, match=task.name):
        load_train(task, None)


def test_a_file_that_changes_is_read_again(tmp_path):
    for split in ("TRAIN", "TEST"):
        source = task_folder(TASK, None) / f"GunPoint_{split}.ts"
        (tmp_path / "UCR" / "GunPoint").mkdir(parents=True, exist_ok=True)
        (tmp_path / "UCR" / "GunPoint" / source.name).write_bytes(source.read_bytes())
    loose = dataclasses.replace(TASK, train_size=None)
    first = load_train(loose, tmp_path)
    assert load_train(loose, tmp_path) is first
    train = tmp_path / "UCR" / "GunPoint" / "GunPoint_TRAIN.ts"
    train.write_bytes(b"\n".join(train.read_bytes().rstrip().split(b"\n")[:-5]) + b"\n")
    assert len(load_train(loose, tmp_path).examples) == len(first.examples) - 5
