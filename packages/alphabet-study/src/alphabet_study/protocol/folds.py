"""What models are trained on: TRAIN split into an optimization and a validation fold, standardized by the former."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from alphabet_core import Examples
from torch import Tensor

from alphabet_study.data import TrainData
from alphabet_study.errors import StudyError
from alphabet_study.protocol.settings import Settings
from alphabet_study.registry.task import Task


@dataclass(frozen=True)
class Scaler:
    """The mean and spread of each channel (C,), by which values, and forecasts of the same channels, are standardized.

    A channel that never varies, or that was never observed, keeps its scale.
    """

    mean: Tensor
    spread: Tensor

    def __call__(self, examples: Examples, *, targets: bool) -> Examples:
        """The examples standardized, zero where nothing was observed; `targets` too where they are forecasts."""
        values = (examples.values - self.mean) / self.spread
        present = present_entries(examples)
        if present is not None:
            values = torch.where(present, values, 0.0)
        if not targets:
            return replace(examples, values=values)
        steps = examples.targets.unflatten(1, (-1, len(self.mean)))  # (N, horizon, C)
        return replace(examples, values=values, targets=((steps - self.mean) / self.spread).flatten(1))


@dataclass(frozen=True)
class Folds:
    """All that a fit sees of a task before TEST is opened. TEST cannot be reached through it: nothing leads to a file.

    validation is None where the final trains on all of TRAIN.
    """

    optimization: Examples
    validation: Examples | None
    scaler: Scaler
    outputs: int

    @property
    def channels(self) -> int:
        """The number of channels of a token."""
        return self.optimization.values.shape[2]


def make_folds(task: Task, train: TrainData, settings: Settings) -> Folds:
    """The two folds of a task, the same for every family, candidate and seed."""
    if train.validation is not None:
        return _standardize(task, train, train.examples, train.validation)
    held_out = choose_validation(train.examples.targets, settings)
    return _standardize(task, train, train.examples.take(~held_out), train.examples.take(held_out))


def take_all_of_train(task: Task, train: TrainData) -> Folds:
    """All of TRAIN as one fold, for a final without validation."""
    return _standardize(task, train, train.examples, None)


def _standardize(task: Task, train: TrainData, optimization: Examples, validation: Examples | None) -> Folds:
    scaler = fit_scaler(task, optimization)
    forecasts = task.objective == "forecasting"
    return Folds(
        scaler(optimization, targets=forecasts),
        None if validation is None else scaler(validation, targets=forecasts),
        scaler,
        count_outputs(task, train),
    )


def choose_validation(targets: Tensor, settings: Settings) -> Tensor:
    """The mask (N,) of the validation fold: the declared share of each class, rounded, and at least one of each class.

    A class with a single example stays in the optimization fold, where it can be learned. Targets of several labels,
    which have no class, are drawn without regard to them.
    """
    share, draw = settings.validation_share, np.random.default_rng(settings.split_seed)
    classes = targets.numpy() if targets.ndim == 1 else np.zeros(len(targets), np.int64)
    held_out = torch.zeros(len(targets), dtype=torch.bool)
    for label in np.unique(classes):
        rows = draw.permutation(np.flatnonzero(classes == label))
        count = max(1, int(share * len(rows) + 0.5)) if len(rows) > 1 else 0
        held_out[torch.from_numpy(rows[:count])] = True
    if not held_out.any() or held_out.all():
        raise StudyError(
            f"TRAIN has {len(targets)} examples of {len(np.unique(classes))} classes, too few to set a validation fold "
            "aside: a class needs at least two examples"
        )
    return held_out


def fit_scaler(task: Task, examples: Examples) -> Scaler:
    """The scaler of these examples, or one that changes nothing where the task is declared so."""
    values = examples.values
    channels = values.shape[2]
    if not task.standardize:
        return Scaler(torch.zeros(channels), torch.ones(channels))
    present = present_entries(examples)
    weights = torch.ones(*values.shape[:2], 1) if present is None else present
    weights = weights.expand_as(values).double()
    count = weights.sum(dim=(0, 1)).clamp(min=1.0)
    mean = (values.double() * weights).sum(dim=(0, 1)) / count
    spread = ((values.double() - mean).square() * weights).sum(dim=(0, 1)).div(count).sqrt()
    # Rounding leaves a constant channel a spread of about 1e-16 of its value.
    constant = spread <= 1e-9 * mean.abs().clamp(min=1e-30)
    return Scaler(mean.float(), torch.where(constant, 1.0, spread).float())


def present_entries(examples: Examples) -> Tensor | None:
    """The mask (N, T, C or 1) of entries that may be read, or None where all may."""
    observed, valid = examples.observed, examples.valid
    if observed is not None and observed.ndim == 2:
        observed = observed.unsqueeze(-1)
    if valid is None:
        return observed
    return valid.unsqueeze(-1) if observed is None else observed & valid.unsqueeze(-1)


def count_outputs(task: Task, train: TrainData) -> int:
    """The number of outputs that a model needs: classes as TRAIN has them, or columns of its targets."""
    found = len(train.classes) if task.objective == "classification" else train.examples.targets.shape[1]
    if task.outputs is not None and found != task.outputs:
        raise StudyError(f"task {task.name} is declared with {task.outputs} outputs, but its TRAIN has {found}")
    return found
