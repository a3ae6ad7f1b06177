"""One fit, from its job to its record: the only place where models meet data."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import torch
from alphabet_baselines import Candidate
from alphabet_core import DivergedError, Examples, fit, fit_validated, predict_examples
from torch import Tensor

from alphabet_study.errors import StudyError
from alphabet_study.protocol.folds import Folds, make_folds, take_all_of_train
from alphabet_study.protocol.metrics import balanced_accuracy_at, best_threshold, measure, reported_metrics
from alphabet_study.protocol.records import DIVERGED, DONE, FINAL, Job, Outcome, Record
from alphabet_study.protocol.sealing import load_train, open_test
from alphabet_study.protocol.settings import Settings
from alphabet_study.protocol.trainers import Trainer, make_trainer
from alphabet_study.protocol.versions import machine_name, source_digest
from alphabet_study.registry.task import Task


def run_job(job: Job, task: Task, settings: Settings, root: Path | None) -> Record:
    """Run one fit in this process, on one thread, and return its record. Divergence is a result; other errors raise."""
    with one_thread():
        started = time.perf_counter()
        if job.key.stage == FINAL:
            outcome = run_final(job, task, settings, root)
        else:
            outcome = run_selection(job, task, settings, make_folds(task, load_train(task, root), settings))
        seconds = time.perf_counter() - started
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    return Record(job, outcome, seconds, finished, machine_name(), source_digest())


def run_selection(job: Job, task: Task, settings: Settings, folds: Folds) -> Outcome:
    """A fit on the optimization fold, scored on the validation fold at its checkpoint. All that it sees is `folds`."""
    trainer = make_trainer(job.key.family, find_candidate(job, settings), task.loss, folds, seed=job.key.seed)
    try:
        return fit_to_checkpoint(trainer, task, settings, folds, job.key.seed)[0]
    except DivergedError as error:
        return _diverged(trainer, error)


def run_final(job: Job, task: Task, settings: Settings, root: Path | None) -> Outcome:
    """The frozen configuration's final training by the task's rule, then its metrics on TEST."""
    train = load_train(task, root)
    folds = make_folds(task, train, settings) if job.epochs is None else take_all_of_train(task, train)
    trainer = make_trainer(job.key.family, find_candidate(job, settings), task.loss, folds, seed=job.key.seed)
    try:
        if job.epochs is None:
            outcome, validated = fit_to_checkpoint(trainer, task, settings, folds, job.key.seed)
        else:
            outcome, validated = fit_for_epochs(trainer, folds.optimization, job.epochs, job.key.seed), None
    except DivergedError as error:
        return _diverged(trainer, error)
    test = folds.scaler(open_test(job, task, root, train), targets=task.objective == "forecasting")
    outputs = predict_examples(trainer.predict, test.to(trainer.device)).cpu()
    results = {name: measure(name, outputs, test.targets) for name in reported_metrics(task)}
    if task.metric == "auroc" and folds.outputs == 2 and validated is not None and folds.validation is not None:
        # This metric needs a threshold, and validation alone may choose it.
        threshold = best_threshold(validated, folds.validation.targets)
        results["balanced_accuracy"] = balanced_accuracy_at(threshold, outputs, test.targets)
    return replace(outcome, test=results)


def fit_to_checkpoint(
    trainer: Trainer, task: Task, settings: Settings, folds: Folds, seed: int
) -> tuple[Outcome, Tensor]:
    """A fit with validation, checkpoint and early stopping; its outcome, and the validation fold's outputs (N, K)."""
    assert folds.validation is not None
    optimization, validation = (part.to(trainer.device) for part in (folds.optimization, folds.validation))
    fitted = fit_validated(
        trainer.step,
        optimization,
        validation,
        epochs=settings.epochs,
        patience=settings.patience,
        seed=seed,
        predict=trainer.predict,
    )
    outputs = predict_examples(trainer.predict, validation).cpu()
    outcome = Outcome(
        DONE,
        score=measure(task.selection_metric, outputs, folds.validation.targets),
        validation_loss=fitted.validation_loss,
        best_epoch=fitted.best_epoch,
        epochs=fitted.epochs,
        parameters=trainer.parameters,
        path=trainer.path,
    )
    return outcome, outputs


def fit_for_epochs(trainer: Trainer, examples: Examples, epochs: int, seed: int) -> Outcome:
    """A fit without validation, for a number of epochs that selection has frozen."""
    examples = examples.to(trainer.device)
    losses = fit(
        trainer.step,
        examples.values,
        examples.targets,
        epochs=epochs,
        seed=seed,
        time_delta=examples.time_delta,
        observed=examples.observed,
        valid=examples.valid,
    )
    if not math.isfinite(losses[-1]):
        raise DivergedError(f"training diverged: the last epoch's loss is {losses[-1]}")
    return Outcome(DONE, epochs=epochs, parameters=trainer.parameters, path=trainer.path)


def find_candidate(job: Job, settings: Settings) -> Candidate:
    """The candidate that a job names, out of its family's list."""
    for candidate in settings.candidates(job.key.family):
        if candidate.key == job.candidate:
            return candidate
    raise StudyError(f"{job.key}: {job.candidate} is none of the candidates of protocol {settings.name!r}")


def _diverged(trainer: Trainer, error: DivergedError) -> Outcome:
    return Outcome(DIVERGED, str(error), parameters=trainer.parameters, path=trainer.path)


@contextmanager
def one_thread() -> Iterator[None]:
    """Set torch to one thread: sums are then rounded alike in any worker, and small models gain nothing from more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
