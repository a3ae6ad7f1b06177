"""TEST, sealed: TRAIN is read without touching it, and it is opened only for a final whose configuration is frozen.

`load_train` is all that selection calls. `open_test` asks for the job of a final, which carries the hash of the frozen
configuration; the campaign has written that hash down before it made the job, and refuses a second, different one.
"""

from pathlib import Path

from alphabet_core import Examples

from alphabet_study.data import Reader, TrainData
from alphabet_study.data_root import locate_files, task_folder
from alphabet_study.errors import StudyError
from alphabet_study.protocol.records import FINAL, Job
from alphabet_study.readers import READERS
from alphabet_study.registry.task import Task

# The task read last, kept because fits of one task follow each other; its key is the declaration and the files.
_kept: dict[object, TrainData] = {}


def load_train(task: Task, root: Path | None) -> TrainData:
    """The task's TRAIN, read once as long as no other task is asked for and its files stay as they are."""
    reader = find_reader(task)
    found = [(str(path), path.stat()) for path in locate_files(task, root, "train")]
    key = repr(task), tuple((name, state.st_size, state.st_mtime_ns) for name, state in found)
    if key not in _kept:
        train = reader.train(task, task_folder(task, root))
        _kept.clear()
        _kept[key] = train
    return _kept[key]


def open_test(job: Job, task: Task, root: Path | None, train: TrainData) -> Examples:
    """The task's TEST, raw, for a final that carries the hash of its frozen configuration."""
    if job.key.stage != FINAL or job.frozen is None:
        raise StudyError(
            f"{job.key}: TEST of {task.name} is sealed; it opens for final fits of a frozen configuration only"
        )
    return find_reader(task).test(task, task_folder(task, root), train)


def find_reader(task: Task) -> Reader:
    """The reader of a task's format, or the reason why there is none."""
    if task.reader is None:
        raise StudyError(f"task {task.name} cannot be read: {task.no_reader}")
    return READERS[task.reader]
