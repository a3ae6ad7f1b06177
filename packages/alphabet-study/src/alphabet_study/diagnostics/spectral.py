"""The moment-matched spectral control: how well lags that nobody names are recovered, beside the exact Bayes decision.

Classes agree in their autocovariances up to lag 4 and differ at lag 5 (`alphabet_core.spectral_control`). Every
estimator sees the same paths of a seed; neural ones train for all epochs, and no epoch is selected.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import torch
from alphabet_baselines import FAMILIES, build
from alphabet_core import Alphabet, Examples, TrainingStep, fit, predict_examples
from alphabet_core.early_stopping import Predict
from alphabet_core.spectral_control import SEEDS, balanced_accuracy, bayes_decision, draw_paths
from alphabet_cpu import CpuRuntime, CpuTrainer
from rich.table import Table
from torch import Tensor

from alphabet_study.diagnostics.contrasts import paired_interval
from alphabet_study.diagnostics.progress import Progress
from alphabet_study.diagnostics.published import SPECTRAL_ACCURACY, SPECTRAL_EXCESS
from alphabet_study.diagnostics.rows import FitName, Kinds, Row, complete_rows
from alphabet_study.diagnostics.tables import make_table, points, share
from alphabet_study.diagnostics.variants import RECIPE, WIDTH, variant_config
from alphabet_study.errors import StudyError

BAYES = "bayes"
# Nearest class mean of the raw autocovariances up to a lag: blind to what differs, and told where to look.
PROTOTYPES = {"autocovariances-4": 4, "autocovariances-8": 8}
VARIANTS = ("energy-only", "full")
RIVALS = ("lru", "s4d")
SEPARATIONS = (0.1, 0.2, 0.4, 0.8)
LENGTHS = (128, 256, 512, 1024)
# The separation at which the rivals are trained and the length is varied.
MAIN_SEPARATION = 0.4
PATHS, EPOCHS = 512, 60
CHANCE = 0.5
RESULTS: Kinds = {"score": float, "parameters": int, "path": str}


@dataclass(frozen=True)
class SpectralFit(FitName):
    """One estimator on the paths of one seed: `paths` to train on and half as many to validate.

    epochs is 0 for what is not trained.
    """

    estimator: str
    eps: float
    length: int
    seed: int
    paths: int
    epochs: int


class Paths(NamedTuple):
    """The realized paths (N, T, 1) of a seed with their classes (N,)."""

    train: Tensor
    train_labels: Tensor
    validation: Tensor
    labels: Tensor


def plan_spectral(
    *,
    separations: Sequence[float] = SEPARATIONS,
    lengths: Sequence[int] = LENGTHS,
    seeds: Sequence[int] = SEEDS,
    paths: int = PATHS,
    epochs: int = EPOCHS,
) -> list[SpectralFit]:
    """All fits: every separation at the first length, then the full model at .4 over the other lengths."""
    if not separations or not lengths or not seeds:
        raise StudyError("name at least one separation, length and seed")
    if not all(0.0 < eps < 1.0 for eps in separations):
        raise StudyError(f"a separation must lie strictly between 0 and 1; got {list(separations)}")
    if min(lengths) <= max(PROTOTYPES.values()) or paths < 8 or epochs < 1:
        raise StudyError(
            f"lengths must exceed {max(PROTOTYPES.values())}, paths be at least 8 and epochs at least 1; got "
            f"{list(lengths)}, {paths} and {epochs}"
        )
    points_and_estimators: list[tuple[float, int, str]] = []
    for eps in separations:
        rivals = RIVALS if eps == MAIN_SEPARATION else ()
        points_and_estimators += [(eps, lengths[0], name) for name in (BAYES, *PROTOTYPES, *VARIANTS, *rivals)]
    points_and_estimators += [(MAIN_SEPARATION, length, name) for length in lengths for name in (BAYES, "full")]
    return [
        SpectralFit(name, eps, length, seed, paths, 0 if name == BAYES or name in PROTOTYPES else epochs)
        for eps, length, name in dict.fromkeys(points_and_estimators)
        for seed in seeds
    ]


def run_spectral(fits: Sequence[SpectralFit], out: Path, progress: Progress | None = None) -> pd.DataFrame:
    """One row per fit with its balanced accuracy on validation; what `out` has already is not computed again."""
    with progress or Progress() as shown:
        return complete_rows(out, fits, run_estimator, RESULTS, shown)


def run_estimator(fit: SpectralFit) -> Row:
    """The balanced accuracy of one estimator on the validation paths of its seed."""
    paths = realize_paths(fit)
    parameters, path = 0, "exact"
    if fit.estimator == BAYES:
        predicted = bayes_decision(paths.validation, fit.eps)
    elif fit.estimator in PROTOTYPES:
        predicted = nearest_prototype(paths, PROTOTYPES[fit.estimator])
    else:
        predicted, parameters, path = train_and_predict(fit, paths)
    return {"score": balanced_accuracy(predicted, paths.labels), "parameters": parameters, "path": path}


def realize_paths(fit: SpectralFit) -> Paths:
    """The paths of a seed, the same for every estimator."""
    generator = torch.Generator().manual_seed(fit.seed)
    train = draw_paths(fit.paths, fit.length, fit.eps, generator)
    return Paths(*train, *draw_paths(fit.paths // 2, fit.length, fit.eps, generator))


def autocovariances(paths: Tensor, highest: int) -> Tensor:
    """The raw autocovariances (N, highest + 1) of paths (N, T, 1): means of x[t] x[t + k] over the pairs there are."""
    x = paths.squeeze(-1).double()
    length = x.shape[1]
    return torch.stack([(x[:, lag:] * x[:, : length - lag]).mean(dim=1) for lag in range(highest + 1)], dim=1)


def nearest_prototype(paths: Paths, highest: int) -> Tensor:
    """The class whose mean autocovariances over the training paths are nearest, for each validation path."""
    train, validation = (autocovariances(part, highest) for part in (paths.train, paths.validation))
    prototypes = torch.stack([train[paths.train_labels == label].mean(dim=0) for label in (0, 1)])
    return torch.cdist(validation, prototypes).argmin(dim=1)


def train_and_predict(fit_name: SpectralFit, paths: Paths) -> tuple[Tensor, int, str]:
    """The classes that a freshly trained model predicts, its number of parameters, and how its steps were computed."""
    torch.manual_seed(fit_name.seed)
    if fit_name.estimator in FAMILIES:
        choice = FAMILIES[fit_name.estimator].choices[0]
        step = TrainingStep(build(fit_name.estimator, channels=1, outputs=2, width=WIDTH, choice=choice), RECIPE)
        predict: Predict = step.model
        path = "torch"
    else:
        model = Alphabet(variant_config(fit_name.estimator, channels=1, outputs=2))
        step = fused = CpuTrainer(model, RECIPE)
        predict = CpuRuntime(model)
        path = fused.path(paths.train)
    fit(step, paths.train, paths.train_labels, epochs=fit_name.epochs, seed=fit_name.seed)
    outputs = predict_examples(predict, Examples(paths.validation, paths.labels))
    return outputs.argmax(dim=1), sum(parameter.numel() for parameter in step.parameters), path


def summarize_spectral(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per estimator, separation and length, with the paper's numbers where it has them.

    score and sd over seeds; excess: the mean over seeds of the share of Bayes' excess over chance on the same paths,
    with its Student interval low ... high. Columns of published numbers are NaN where there is none.
    """
    bayes = rows[rows["estimator"] == BAYES].set_index(["eps", "length", "seed"])["score"]
    found = []
    for (estimator, eps, length), group in rows.groupby(["estimator", "eps", "length"], sort=False):
        scores = group.set_index(["eps", "length", "seed"])["score"]
        ceiling = bayes.reindex(scores.index) - CHANCE
        excess = paired_interval(((scores - CHANCE) / ceiling.where(ceiling > 0)).dropna().to_list() or [float("nan")])
        key = (estimator, eps, length)
        found.append(
            {
                "estimator": estimator,
                "eps": eps,
                "length": length,
                "seeds": len(scores),
                "score": scores.mean(),
                "sd": scores.std(ddof=1),
                "published_score": SPECTRAL_ACCURACY.get(key, float("nan")),
                "excess": excess.mean,
                "low": excess.low,
                "high": excess.high,
                "published_excess": SPECTRAL_EXCESS.get(key, float("nan")),
                "parameters": int(group["parameters"].iloc[0]),
            }
        )
    return pd.DataFrame(found).sort_values(["length", "eps"], kind="stable", ignore_index=True)


def spectral_table(summary: pd.DataFrame) -> Table:
    """The summary as a table, the paper's numbers beside ours."""
    rows = []
    for row in summary.itertuples():
        bounds = "" if pd.isna(row.low) else f" [{100 * row.low:.1f}, {100 * row.high:.1f}]"
        rows.append(
            (
                row.estimator,
                f"{row.eps:g}",
                str(row.length),
                share(row.score),
                share(row.sd),
                share(row.published_score),
                points(100 * (row.score - row.published_score)),
                "-" if pd.isna(row.excess) else f"{100 * row.excess:.1f}{bounds}",
                "-" if pd.isna(row.published_excess) else f"{100 * row.published_excess:.1f}",
                f"{row.parameters:,}",
            )
        )
    seeds = int(summary["seeds"].max())
    return make_table(
        f"Moment-matched control, balanced accuracy on validation, {seeds} seed(s)",
        ("estimator", "eps", "T", "ours", "SD", "paper", "points", "% of Bayes' excess", "paper", "parameters"),
        rows,
        "Seeds draw other paths than the paper's did. % of Bayes' excess over chance: mean over seeds with its 95 % "
        "Student interval.",
    )
