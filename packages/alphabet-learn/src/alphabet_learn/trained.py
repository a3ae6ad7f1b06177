"""The trained method: the paper's model of some thousand parameters, started on the data and stopped by validation.

Standardized by training data; a stratified fold of it set aside; early stopping by the loop that the study uses
(`alphabet_core.fit_validated`); size from a short list by validation loss; probabilities calibrated on what validation
folds gave. The same seed gives the same model on any number of threads: the time budget is nominal, computed from the
counts of series and tokens, and no clock is read.
"""

from collections.abc import Sequence
from numbers import Real
from operator import index
from typing import Any

import numpy as np
import torch
from alphabet_core import RECIPES, Alphabet, Examples, Recipe, mean_descriptor
from alphabet_cpu import CpuRuntime
from torch import Tensor

from alphabet_learn.calibration import Calibration
from alphabet_learn.clock import counts_tokens, median_step
from alphabet_learn.errors import LearnError
from alphabet_learn.notices import warn_user
from alphabet_learn.problem import Doubles, Kind, Problem
from alphabet_learn.series import Series
from alphabet_learn.standardizing import Scaler, fit_scaler, measure_targets
from alphabet_learn.trained_fitting import Flags, Member, Plan, one_thread
from alphabet_learn.trained_session import Session, choose_validation

SIZES = ((32, 8), (64, 16))
PREDICTION_BATCH = 256
BASELINE_TOKENS = 2**18  # the mean descriptor is taken over so many tokens at most
SCALES = np.exp(np.linspace(-3.0, 3.0, 121))
SCALE_SPREAD = 0.5


class Trained:
    """An engine: `fit`, then `scores` and `probabilities`.

    sizes: pairs (width, modes), tried in this order; the one with the lowest validation loss is kept. A loss of
    labels below 0.01 is as good as any: it ends the epochs and the search.
    budget_seconds: nominal time for all fits together, two cores assumed; None for no limit. It limits epochs and
    leaves out sizes. A slower machine takes longer for the same result.
    ensemble: how many models of that size, each with its own seed and validation fold, whose scores are averaged.
    epochs, patience: at most so many, until the validation loss has not improved for so many.
    recipe: of `alphabet_core.RECIPES`, by name, or one of your own.
    adapt: whether lifts start on the data (docs/initial-values.md).
    With fewer than five series, or fewer than two classes of two, there is no validation: models of the first size are
    trained on everything for 50 epochs, or `epochs` if that is less, and probabilities are not calibrated.

    After `fit`: models, all of one size; members, how each came about; scaler; time_unit, the model's unit of time in
    the user's; target_mean and target_deviation (K,) of a regression; baseline, the training series' mean descriptor
    by each model, from which contributions are measured; calibration, None for a regression.
    """

    def __init__(
        self,
        *,
        sizes: Sequence[tuple[int, int]] = SIZES,
        budget_seconds: float | None = 60.0,
        ensemble: int = 1,
        epochs: int = 100,
        patience: int = 8,
        recipe: str | Recipe = "B",
        adapt: bool = True,
        validation_share: float = 0.2,
        verbose: bool = True,
    ) -> None:
        _check_counts(ensemble=ensemble, epochs=epochs, patience=patience)
        if budget_seconds is not None and not (isinstance(budget_seconds, Real) and budget_seconds > 0):
            raise LearnError(f"budget_seconds is {budget_seconds!r}: pass a positive number, or None for no limit.")
        if not 0 < validation_share < 1:
            raise LearnError(f"validation_share is {validation_share!r}: pass a share between 0 and 1, such as 0.2.")
        if not isinstance(recipe, Recipe) and recipe not in RECIPES:
            raise LearnError(f"recipe is {recipe!r}: pass one of {', '.join(RECIPES)}, or a Recipe of alphabet_core.")
        self.sizes = _read_sizes(sizes)
        self.budget_seconds = budget_seconds
        self.ensemble = ensemble
        self.epochs = epochs
        self.patience = patience
        self.recipe = recipe if isinstance(recipe, Recipe) else RECIPES[recipe]
        self.adapt = adapt
        self.validation_share = validation_share
        self.verbose = verbose

        self.models: list[Alphabet] = []
        self.members: list[Member] = []
        self.size: tuple[int, int] = self.sizes[0]
        self.scaler: Scaler
        self.time_unit = 1.0
        self.target_mean: Doubles
        self.target_deviation: Doubles
        self.baseline: list[Tensor] = []
        self.calibration: Calibration | None = None
        self.kind: Kind = "classification"

    def fit(self, series: Series, problem: Problem, *, seed: int) -> None:
        """Train on series; those of weight 0 are left out of everything.

        An interrupt (Ctrl-C) after the first epoch ends training with a warning and keeps the best model so far.
        """
        if not problem.weights.all():
            kept = np.flatnonzero(problem.weights)
            series, problem = series.take(kept), Problem(problem.kind, problem.targets[kept], problem.weights[kept])
        scaler, time_unit = fit_scaler(series), 1.0 if series.times is None else median_step(series.times)
        target_mean, target_deviation = _standardize_targets(problem)
        varies = target_deviation > 0  # what rounding left of a constant's difference from its mean is no target
        departure = np.where(varies, problem.targets - target_mean, 0.0)
        targets = _as_columns(departure / np.where(varies, target_deviation, 1.0), problem.kind)
        values, side_inputs = _as_inputs(scaler(series), time_unit)
        examples = Examples(values, torch.from_numpy(targets).float(), **side_inputs)
        plan = Plan(
            examples,
            torch.from_numpy(problem.weights).float(),
            problem.kind,
            self.recipe,
            self.patience,
            self.adapt,
            fused=examples.time_delta is None,
        )
        members = self._fit_members(plan, problem, seed)
        self.scaler, self.time_unit = scaler, time_unit
        self.target_mean, self.target_deviation = target_mean, target_deviation
        self.kind, self.size = problem.kind, members[0].size
        self.members, self.models = members, [member.model for member in members]
        with one_thread():
            self.baseline = [_mean_descriptor(model, examples, seed) for model in self.models]
        self.calibration = None if problem.kind == "regression" else _calibrate(members, problem)

    def scores(self, series: Series) -> Doubles:
        """Scores (N, K): the models' mean logits, the second minus the first for two classes; or predicted values."""
        return _as_scores(self.outputs(series), self.kind) * self.target_deviation + self.target_mean

    def probabilities(self, series: Series) -> Doubles:
        """Probabilities (N, classes or labels): logits times a scale fitted to those of validation folds."""
        if self.calibration is None:
            raise LearnError("A regression has no probabilities; use predict in place of predict_proba.")
        return self.calibration.probabilities(self.scores(series))

    def outputs(self, series: Series) -> Doubles:
        """The mean of the models' outputs (N, K), two of them for two classes; regressions' are standardized."""
        standardized = self.scaler(series)
        regular = _on_unit_grid(standardized, self.time_unit)
        # A runtime keeps weights that it folded, so each call has its own: calls may run side by side.
        runtimes = [CpuRuntime(model) for model in self.models]
        outputs = np.empty((series.count, self.models[0].config.outputs))
        for mask in (regular, ~regular):  # kernels run the former, the reference the latter
            rows = np.flatnonzero(mask)
            for start in range(0, len(rows), PREDICTION_BATCH):
                part = rows[start : start + PREDICTION_BATCH]
                values, side_inputs = _as_inputs(standardized.take(part), self.time_unit)
                outputs[part] = torch.stack([run(values, **side_inputs).double() for run in runtimes]).mean(dim=0)
        return outputs

    def _fit_members(self, plan: Plan, problem: Problem, seed: int) -> list[Member]:
        """The model of the best size, then further ones of that size."""
        seeds = [int(number) for number in np.random.default_rng(seed).integers(2**31, size=self.ensemble)]
        folds = [choose_validation(problem, self.validation_share, number) for number in seeds]
        sizes = self.sizes if folds[0] is not None else self.sizes[:1]
        session = Session(
            plan,
            epochs=self.epochs,
            budget=self.budget_seconds,
            fits=len(sizes) + self.ensemble - 1,
            verbose=self.verbose,
        )
        candidates: list[Member] = []
        for size in sizes:
            candidate = session.fit(size, folds[0], seed=seeds[0], dispensable=bool(candidates))
            candidates += [] if candidate is None else [candidate]
            if candidate is not None and plan.settles(candidate.validation_loss):
                break
        if not candidates and session.interrupted:
            raise KeyboardInterrupt
        if not candidates:
            raise LearnError(
                "Training diverged for every size: look for extreme values in X, or lower the recipe's learning rate."
            )
        best = min(candidates, key=lambda candidate: candidate.validation_loss)
        further = [session.fit(best.size, fold, seed=s) for fold, s in zip(folds[1:], seeds[1:], strict=True)]
        members = [best, *(member for member in further if member is not None)]
        session.end(best)
        if session.interrupted:
            warn_user(
                f"Training was interrupted: the estimator keeps the best model so far, {best.size[0]} wide with "
                f"{best.size[1]} modes, after {best.epochs} epochs ({len(members)} of {self.ensemble} models).",
            )
        return members


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise LearnError(f"{name} is {count!r}: pass a positive integer.")


def _read_sizes(sizes: Any) -> tuple[tuple[int, int], ...]:
    """Pairs (width, modes) of Python's integers, of any sequence of pairs."""
    try:
        pairs = tuple((index(width), index(modes)) for width, modes in sizes)
    except (TypeError, ValueError):
        pairs = ()
    if not pairs or not all(0 < 2 * modes <= width for width, modes in pairs):
        raise LearnError(
            f"sizes is {sizes!r}: pass a list of pairs (width, modes) of integers with 0 < 2 * modes <= width."
        )
    return pairs


def _on_unit_grid(series: Series, unit: float) -> Flags:
    """The mask (N,) of series whose tokens are one unit apart."""
    return np.ones(series.count, np.bool_) if series.times is None else counts_tokens(series.times / unit, series.valid)


def _as_inputs(series: Series, unit: float) -> tuple[Tensor, dict[str, Tensor]]:
    """The values and side inputs of a model, with the clock in its unit, or left out where it only counts tokens."""
    inputs = series.side_inputs()
    if series.times is not None:
        time_delta = inputs.pop("time_delta")
        if not _on_unit_grid(series, unit).all():
            inputs["time_delta"] = time_delta / unit
    return series.tensor(), inputs


def _standardize_targets(problem: Problem) -> tuple[Doubles, Doubles]:
    """The mean and deviation (K,) of a regression's targets, the latter 0 if they are constant; 0 and 1 for labels."""
    if problem.kind != "regression":
        return np.zeros(problem.outputs), np.ones(problem.outputs)
    return measure_targets(problem.targets, np.ones(len(problem.targets)))[:2]


def _as_columns(targets: Doubles, kind: str) -> Doubles:
    """One column per output of the model, which has two for two classes."""
    return np.hstack((1.0 - targets, targets)) if kind == "classification" and targets.shape[1] == 1 else targets


def _as_scores(outputs: Doubles, kind: str) -> Doubles:
    """One column per score: that of two classes is how far the second's logit is above the first's."""
    return outputs[:, 1:] - outputs[:, :1] if kind == "classification" and outputs.shape[1] == 2 else outputs


def _calibrate(members: list[Member], problem: Problem) -> Calibration:
    """One scale for all scores, fitted to what each model gives for its own validation fold; 1 without such folds."""
    rows = np.concatenate([member.held_out for member in members])
    scores = _as_scores(np.concatenate([member.outputs for member in members]), problem.kind)
    targets, weights = problem.targets[rows], problem.weights[rows]
    if problem.kind == "classification" and problem.outputs > 1:
        return Calibration("multiclass", np.array([_fit_scale(scores, targets, weights)]))
    # A sigmoid is the softmax over the scores 0 and s, for one column or for each of several labels.
    flat, hits = scores.reshape(-1), targets.reshape(-1)
    pairs, indicators = np.stack((np.zeros_like(flat), flat), axis=1), np.stack((1.0 - hits, hits), axis=1)
    scale = _fit_scale(pairs, indicators, np.repeat(weights, problem.outputs))
    return Calibration("binary" if problem.kind == "classification" else "multilabel", np.full(problem.outputs, scale))


def _fit_scale(scores: Doubles, indicators: Doubles, weights: Doubles) -> float:
    """The most probable of `SCALES` for the softmax over scores (N, K), true classes marked by 1 in indicators (N, K).

    Training has minimized the same likelihood, so that scores are logits already and few series should not change that:
    the scale's logarithm is taken for normal around 0 beforehand, with `SCALE_SPREAD`.
    """
    spread = scores - scores.max(axis=1, keepdims=True)
    penalties = [
        weights @ (np.log(np.exp(scale * spread).sum(axis=1)) - scale * (indicators * spread).sum(axis=1))
        + 0.5 * (np.log(scale) / SCALE_SPREAD) ** 2
        for scale in SCALES
    ]
    return float(SCALES[np.argmin(penalties)])


def _mean_descriptor(model: Alphabet, examples: Examples, seed: int) -> Tensor:
    """The mean descriptor (banks, M, coordinates) of the training series, or of a random part of many tokens."""
    count = max(1, BASELINE_TOKENS // examples.values.shape[1])
    rows = np.random.default_rng(seed).permutation(len(examples))[:count]
    part = examples.take(torch.from_numpy(np.sort(rows)))
    return mean_descriptor(model, part.values, batch_size=PREDICTION_BATCH, **part.side_inputs())
