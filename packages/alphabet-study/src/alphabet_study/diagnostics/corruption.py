"""The corruption audit: frozen configurations, trained as a campaign's finals were, on a TEST that is corrupted.

The only diagnostic that reads TEST. It takes every job from a campaign whose finals have opened TEST already, under a
configuration that selection froze; what no campaign has opened stays sealed.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pandas as pd
import torch
from alphabet_core import DivergedError, Examples, predict_examples
from rich.table import Table
from torch import Tensor

from alphabet_study.diagnostics.contrasts import paired_interval
from alphabet_study.diagnostics.frozen import FrozenCampaign
from alphabet_study.diagnostics.progress import Progress
from alphabet_study.diagnostics.published import CORRUPTION_GAPS, CORRUPTION_PAIRED
from alphabet_study.diagnostics.rows import FitName, Kinds, Row, complete_rows
from alphabet_study.diagnostics.tables import effect, make_table, points, published_effect, share
from alphabet_study.errors import StudyError
from alphabet_study.protocol.fitting import find_candidate, fit_for_epochs
from alphabet_study.protocol.folds import take_all_of_train
from alphabet_study.protocol.metrics import measure
from alphabet_study.protocol.records import FINAL, Cell, FitKey
from alphabet_study.protocol.sealing import load_train, open_test
from alphabet_study.protocol.trainers import make_trainer
from alphabet_study.registry import find_task
from alphabet_study.registry.task import Task

ALPHABET, METRIC, CLEAN = "alphabet", "balanced_accuracy", "clean"
NOISES = {"noise 0.1": 0.1, "noise 0.2": 0.2}
AMPLITUDES = {"amplitude x0.5": 0.5, "amplitude x1.5": 1.5}
HALF_RATE = "half rate"
CORRUPTIONS = (*NOISES, *AMPLITUDES, HALF_RATE)
# What the same fit gave on TEST in the campaign, to be met again by the clean score.
CAMPAIGN = "campaign"
RESULTS: Kinds = {**dict.fromkeys((CLEAN, *CORRUPTIONS, CAMPAIGN), float), "parameters": int, "path": str}


@dataclass(frozen=True)
class CorruptionFit(FitName):
    """A campaign's final, trained again: its task, family and seed, and the configuration that was frozen."""

    task: str
    family: str
    seed: int
    candidate: str
    epochs: int
    frozen: str


def plan_corruption(
    campaign: FrozenCampaign, tasks: Sequence[str], families: Sequence[str], seeds: Sequence[int]
) -> list[CorruptionFit]:
    """The fits of these tasks, families and seeds; one that the campaign has not opened TEST for is refused."""
    fits = []
    for name in tasks:
        for family in families:
            for seed in seeds:
                job = campaign.final_job(Cell(name, family), find_task(name), seed)
                if job.epochs is None or job.frozen is None:
                    raise StudyError(
                        f"{job.key}: corruptions are defined for tasks whose finals train on all of TRAIN, the UCR ones"
                    )
                fits.append(CorruptionFit(name, family, seed, job.candidate, job.epochs, job.frozen))
    return fits


def run_corruption(
    fits: Sequence[CorruptionFit],
    campaign: FrozenCampaign,
    root: Path | None,
    out: Path,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """One row per task, family, seed and corruption, with the score; what `out` has already is not computed again."""
    for name in dict.fromkeys(fit.task for fit in fits):
        campaign.check_data(find_task(name), root)
    with progress or Progress() as shown:
        rows = complete_rows(out, fits, partial(measure_corrupted, campaign=campaign, root=root), RESULTS, shown)
    kept = [name for name in rows.columns if name not in (CLEAN, *CORRUPTIONS)]
    return rows.melt(kept, [CLEAN, *CORRUPTIONS], "corruption", "score")


def measure_corrupted(fit: CorruptionFit, campaign: FrozenCampaign, root: Path | None) -> Row:
    """Train a final as the campaign did, then score it on TEST, clean and corrupted."""
    task = find_task(fit.task)
    job = campaign.final_job(Cell(fit.task, fit.family), task, fit.seed)
    train = load_train(task, root)
    folds = take_all_of_train(task, train)
    trainer = make_trainer(fit.family, find_candidate(job, campaign.settings), task.loss, folds, seed=fit.seed)
    try:
        outcome = fit_for_epochs(trainer, folds.optimization, fit.epochs, fit.seed)
    except DivergedError as error:
        raise StudyError(f"{fit}: {error}; leave the task out by naming the others") from error
    test = folds.scaler(open_test(job, task, root, train), targets=False)
    row: Row = {}
    for name in (CLEAN, *CORRUPTIONS):
        corrupted = corrupt(test, name, task)
        outputs = predict_examples(trainer.predict, corrupted.to(trainer.device)).cpu()
        row[name] = measure(METRIC, outputs, test.targets)
    campaign.check_data(task, root)  # again: files may have changed since the first row began
    final = FitKey(fit.task, fit.family, FINAL, 0, fit.seed)
    return {
        **row,
        CAMPAIGN: campaign.test_score(final, METRIC),
        "parameters": outcome.parameters,
        "path": outcome.path,
    }


def corrupt(test: Examples, name: str, task: Task) -> Examples:
    """The examples, standardized by TRAIN, under one of CORRUPTIONS; always the same for a task."""
    if test.side_inputs():
        raise StudyError(
            f"task {task.name}: corruptions are defined for complete series of equal length, but it has "
            f"{', '.join(test.side_inputs())}; leave it out"
        )
    if name in NOISES:
        return replace(test, values=test.values + NOISES[name] * draw_noise(test.values, task))
    if name in AMPLITUDES:
        return replace(test, values=test.values * AMPLITUDES[name])
    if name == HALF_RATE:
        return replace(test, values=halve_rate(test.values))
    if name == CLEAN:
        return test
    raise StudyError(f"corruption must be one of {', '.join(CORRUPTIONS)}; got {name!r}")


def draw_noise(values: Tensor, task: Task) -> Tensor:
    """Standard normal noise of the same shape: one draw per task, for every family, seed and strength."""
    seed = int.from_bytes(hashlib.sha256(task.name.encode()).digest()[:4], "big")
    return torch.randn(values.shape, generator=torch.Generator().manual_seed(seed))


def halve_rate(values: Tensor) -> Tensor:
    """Every second token (N, T, C) kept, and those between interpolated linearly; a last one without successor holds.

    Nothing is filtered before, so that what lies above the new rate aliases.
    """
    kept = values[:, 0::2]
    following = torch.cat([kept[:, 1:], kept[:, -1:]], dim=1)
    restored = values.clone()
    restored[:, 1::2] = ((kept + following) / 2.0)[:, : values.shape[1] // 2]
    return restored


def summarize_corruption(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per corruption: ALPHABET's mean over tasks beside the other families'.

    gap: ALPHABET's mean minus the best family's, in points. paired: ALPHABET minus each task's best family, with its
    Student interval low ... high over tasks. NaN where there is no other family or no ALPHABET.
    """
    means = rows.groupby(["corruption", "family", "task"], sort=False)["score"].mean().unstack("task")
    found = []
    for corruption in rows["corruption"].unique():
        families = means.loc[corruption]
        across = families.mean(axis=1)
        others = families.drop(index=ALPHABET, errors="ignore")
        row = {
            "corruption": corruption,
            "tasks": families.shape[1],
            "seeds": rows["seed"].nunique(),
            "families": len(families),
            "alphabet": across.get(ALPHABET, float("nan")),
        }
        if len(others) > 0 and ALPHABET in families.index:
            best = across.drop(index=ALPHABET)
            row |= {"best": best.max(), "best_family": best.idxmax(), "worst": best.min()}
            row["gap"] = 100 * (row["alphabet"] - row["best"])
            paired = paired_interval(100 * (families.loc[ALPHABET] - others.max()))
            row["paired"], row["low"], row["high"], row["p_value"] = paired
        found.append(row)
    columns = ("best", "best_family", "worst", "gap", "paired", "low", "high", "p_value")
    summary = pd.DataFrame(found)
    return summary.assign(**{name: float("nan") for name in columns if name not in summary})


def corruption_table(summary: pd.DataFrame, rows: pd.DataFrame) -> Table:
    """The summary as a table, the paper's numbers beside ours."""
    lines = []
    for row in summary.to_dict("records"):
        name = row["corruption"]
        best = "-" if pd.isna(row["best"]) else f"{share(row['best'])} {row['best_family']}"
        lines.append(
            (
                name,
                share(row["alphabet"]),
                best,
                points(row["gap"]),
                points(CORRUPTION_GAPS.get(name)),
                effect(row["paired"], row["low"], row["high"]),
                published_effect(CORRUPTION_PAIRED.get(name)),
            )
        )
    clean = rows[rows["corruption"] == CLEAN]
    error = (clean["score"] - clean[CAMPAIGN]).abs().max()
    first = summary.iloc[0]
    return make_table(
        f"Corruption audit, balanced accuracy on TEST, {first['families']} families x {first['tasks']} task(s) x "
        f"{first['seeds']} seed(s)",
        ("corruption", "alphabet", "best other", "gap (points)", "paper", "gap to each task's best", "paper"),
        lines,
        f"Clean scores differ from the campaign's by at most {error:.2g}. Applied after standardization by TRAIN; "
        "intervals are Student's, 95 %, over tasks. The paper: ten families, 17 UCR tasks, five seeds.",
    )
