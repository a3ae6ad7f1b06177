"""How alphabet-learn compares with the field's fast classifiers: accuracy, time to fit and to predict, size.

    python packages/alphabet-learn/bench/learn_bench.py OUT.csv --data ROOT --half design

One line per task and classifier, on the archives' own TRAIN and TEST, one thread each; the classifiers take turns on
every task, so that they share its noise. Times are processor seconds, after a fit to tiny data that compiles. Lines
that OUT.csv has already are not computed again, so a run can be interrupted and goes on. --run names what times may be
compared within, such as a machine and a day: ratios are taken within a run. Without --data: the tasks that come with
aeon.
"""

import argparse
import csv
import pickle
import time
import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from aeon.classification.convolution_based import MiniRocketClassifier, MultiRocketHydraClassifier
from aeon.classification.feature_based import Catch22Classifier
from aeon.datasets import load_from_ts_file
from alphabet_learn import AlphabetClassifier

HERE = Path(__file__).parent
REFERENCE = "MiniRocket"
CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "closed form": lambda: AlphabetClassifier(random_state=0),
    "closed form, unweighted": lambda: AlphabetClassifier(class_weight=None, random_state=0),
    "trained": lambda: AlphabetClassifier(method="trained", random_state=0),
    REFERENCE: lambda: MiniRocketClassifier(random_state=0),
    "MultiRocket-HYDRA": lambda: MultiRocketHydraClassifier(random_state=0),
    "catch22 + forest": lambda: Catch22Classifier(random_state=0, replace_nans=True),
}
HEADER = ("task", "suite", "half", "classifier", "accuracy", "balanced_accuracy", "fit_seconds", "predict_seconds",
          "bytes", "error", "run")  # fmt: skip


class Task(NamedTuple):
    """A task of the archives and where its files are."""

    name: str
    suite: str
    half: str
    folder: Path


def find_tasks(root: Path | None, half: str) -> list[Task]:
    """The tasks that are there, smallest files first; `halves.toml` says which half each belongs to."""
    halves = tomllib.loads((HERE / "halves.toml").read_text())
    where = {name: part for part, suites in halves.items() for names in suites.values() for name in names}
    folders = []
    if root is not None:
        folders = [(suite, folder) for suite in ("UCR", "UEA") for folder in sorted((root / suite).iterdir())]
    else:
        import aeon.datasets

        bundled = Path(aeon.datasets.__file__).parent / "data"
        folders = [("UCR", bundled / name) for name in ("ArrowHead", "GunPoint", "ItalyPowerDemand")]
        folders += [("UEA", bundled / name) for name in ("BasicMotions", "JapaneseVowels")]
    tasks = [Task(folder.name, suite, where.get(folder.name, "other"), folder) for suite, folder in folders]
    tasks = [task for task in tasks if half in ("all", task.half) and (task.folder / f"{task.name}_TRAIN.ts").exists()]
    return sorted(tasks, key=lambda task: (task.folder / f"{task.name}_TRAIN.ts").stat().st_size)


def read(task: Task, part: str) -> tuple[Any, Any]:
    """Series (n, channels, time), or a list of arrays of unequal length, and their labels."""
    series, labels = load_from_ts_file(str(task.folder / f"{task.name}_{part}.ts"))
    return series, labels


def fill(series: Any, length: int) -> Any:
    """Series of one length for classifiers that need it: zeros behind the end, as their authors do."""
    return np.stack([np.pad(each, ((0, 0), (0, length - each.shape[1]))) for each in series])


def run_once(make: Callable[[], Any], train: Any, labels: Any, test: Any) -> tuple[Any, Any, float, float]:
    """A fitted classifier, its predictions, and the processor seconds of both."""
    classifier = make()
    start = time.process_time()
    classifier.fit(train, labels)
    middle = time.process_time()
    found = classifier.predict(test)
    return classifier, found, middle - start, time.process_time() - middle


def compile_kernels(names: list[str]) -> None:
    """Fit every classifier to tiny data of one channel and of two."""
    rng = np.random.default_rng(0)
    for channels in (1, 2):
        tiny, labels = rng.standard_normal((8, channels, 40)), np.arange(8) % 2
        for name in names:
            CLASSIFIERS[name]().fit(tiny, labels).predict(tiny)


def measure(task: Task, name: str, run: str) -> dict[str, Any]:
    """One line of the table."""
    (train, labels), (test, truth) = read(task, "TRAIN"), read(task, "TEST")
    if isinstance(train, list) and not name.startswith(("closed", "trained")):
        length = max(each.shape[1] for each in (*train, *test))
        train, test = fill(train, length), fill(test, length)
    row: dict[str, Any] = {
        "task": task.name, "suite": task.suite, "half": task.half, "classifier": name, "error": "", "run": run,
    }  # fmt: skip
    try:
        classifier, found, fit, predict = run_once(CLASSIFIERS[name], train, labels, test)
    except Exception as error:  # a classifier that refuses a task is a result
        return {**row, "error": str(error).replace("\n", " ")[:120]}
    hits = found == truth
    recalls = [hits[truth == label].mean() for label in np.unique(truth)]
    return {
        **row,
        "accuracy": f"{hits.mean():.6f}",
        "balanced_accuracy": f"{np.mean(recalls):.6f}",
        "fit_seconds": f"{fit:.4f}",
        "predict_seconds": f"{predict:.4f}",
        "bytes": len(pickle.dumps(classifier)),
    }


def print_table(rows: list[dict[str, Any]]) -> None:
    """Means and ratios to MiniRocket of the same run, over the tasks that both have."""
    rows = [row for row in rows if not row["error"]]
    reference = {(row["run"], row["task"]): row for row in rows if row["classifier"] == REFERENCE}
    for suite in ("UCR", "UEA"):
        print(
            f"\n{suite}: mean accuracy; geometric means of times and sizes in units of {REFERENCE}'s; wins/ties/losses"
        )
        for run, name in sorted({(row["run"], row["classifier"]) for row in rows}, key=_place):
            mine = [row for row in rows if (row["run"], row["classifier"], row["suite"]) == (run, name, suite)]
            both = [(row, reference[run, row["task"]]) for row in mine if (run, row["task"]) in reference]
            if not both:
                continue
            gains = np.array([float(row["accuracy"]) - float(other["accuracy"]) for row, other in both])
            ratios = [
                np.exp(np.mean([np.log(float(row[key]) / float(other[key])) for row, other in both]))
                for key in ("fit_seconds", "predict_seconds", "bytes")
            ]
            score = np.mean([float(row["accuracy"]) for row, _ in both])
            balanced = np.mean([float(row["balanced_accuracy"]) for row, _ in both])
            print(
                f"{name:24} {len(both):3d} tasks  accuracy {score:.4f} ({gains.mean():+.4f})  balanced {balanced:.4f}  "
                f"fit {ratios[0]:6.2f}x  predict {ratios[1]:6.2f}x  size {ratios[2]:6.2f}x  "
                f"{(gains > 0).sum()}/{(gains == 0).sum()}/{(gains < 0).sum()}  {run}"
            )


def _place(run_and_name: tuple[str, str]) -> tuple[int, str]:
    """Where a classifier of a run stands in the table."""
    run, name = run_and_name
    return list(CLASSIFIERS).index(name), run


def main() -> None:
    """Append the missing lines to OUT.csv, then print the table of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--half", choices=("design", "confirmation", "all"), default="all")
    parser.add_argument("--run", default="")
    parser.add_argument("--task", action="append")
    parser.add_argument("--classifier", action="append", choices=list(CLASSIFIERS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    tasks = [task for task in find_tasks(options.data, options.half) if not options.task or task.name in options.task]
    rows: list[dict[str, Any]] = []
    if options.out.exists():
        with options.out.open(newline="") as file:
            rows = list(csv.DictReader(file))
    done = {(row["task"], row["classifier"]) for row in rows if row["run"] == options.run}
    print("compiling kernels", flush=True)
    compile_kernels(options.classifier or list(CLASSIFIERS))
    with options.out.open("a", newline="") as file:
        writer = csv.DictWriter(file, HEADER)
        if not rows:
            writer.writeheader()
        for number, task in enumerate(tasks, start=1):
            for name in options.classifier or list(CLASSIFIERS):
                if (task.name, name) in done:
                    continue
                row = measure(task, name, options.run)
                rows.append(row)
                writer.writerow(row)
                file.flush()
                said = (
                    row["error"] or f"{float(row['accuracy']):.3f}, {row['fit_seconds']} s, {row['predict_seconds']} s"
                )
                print(f"{number:2d}/{len(tasks)} {task.name:26} {name:24} {said}", flush=True)
    print_table(rows)


if __name__ == "__main__":
    main()
