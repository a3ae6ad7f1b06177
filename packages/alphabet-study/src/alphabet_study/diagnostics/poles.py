"""The pole audit: do the poles that a model's margins rest on decide its predictions? Validation only.

The 32 poles of a checkpoint are ranked by their mean absolute contribution to the margin on the optimization fold. Then
poles are neutralized (replaced by their mean on that fold), or all others are, and validation is predicted again: by
the rank's top or bottom eight, by the cascaded bank, and by random poles of the same number, 64 draws of them.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from alphabet_core import (
    Alphabet,
    Examples,
    attribute,
    mean_descriptor,
    neutralize,
    pole_mask,
    predict_examples,
    rank_poles,
    retain,
)
from rich.table import Table
from scipy.stats import spearmanr
from torch import Tensor

from alphabet_study.diagnostics.contrasts import Interval, paired_interval
from alphabet_study.diagnostics.progress import Progress
from alphabet_study.diagnostics.published import POLE_CONTRASTS, POLE_FIGURES
from alphabet_study.diagnostics.rows import Kinds, Row, complete_rows
from alphabet_study.diagnostics.tables import effect, make_table, published_effect
from alphabet_study.diagnostics.variants import VariantFit, fit_variant, plan_fits
from alphabet_study.protocol.metrics import measure
from alphabet_study.protocol.settings import PAPER

# The variants whose head is affine and whose two banks have 32 poles.
AUDITED = ("full", "fixed-poles")
TOP, DRAWS = 8, 64
CASCADED = 1  # position of the bank in a descriptor
METRIC = "balanced_accuracy"
# What is removed or retained, by the names of the columns.
SUBSETS = ("top", "bottom", "random", "cascaded", "random_bank")
RESULTS: Kinds = {
    "score": float,
    "rank_correlation": float,
    "margin_error": float,
    "cascaded_share": float,
    "cascaded_in_top": int,
    **{f"score_without_{subset}": float for subset in SUBSETS},
    **{f"agreement_with_{subset}": float for subset in SUBSETS},
}
# Contrasts in points: the first column minus the second.
CONTRASTS = {
    "top 8 removed against random": ("score_without_random", "score_without_top"),
    "top 8 removed against bottom": ("score_without_bottom", "score_without_top"),
    "top 8 retained against random": ("agreement_with_top", "agreement_with_random"),
    "top 8 retained against bottom": ("agreement_with_top", "agreement_with_bottom"),
    "cascaded bank removed against random": ("score_without_random_bank", "score_without_cascaded"),
    "cascaded bank retained against random": ("agreement_with_cascaded", "agreement_with_random_bank"),
}


def plan_poles(
    tasks: Sequence[str],
    seeds: Sequence[int] = PAPER.final_seeds,
    *,
    epochs: int = PAPER.epochs,
    patience: int = PAPER.patience,
    resplit: bool = False,
) -> list[VariantFit]:
    """The fits to audit, which are those of the ablation: the same job trains the same checkpoint again."""
    return plan_fits(tasks, AUDITED, seeds, epochs=epochs, patience=patience, resplit=resplit)


def run_poles(
    fits: Sequence[VariantFit], root: Path | None, out: Path, progress: Progress | None = None
) -> pd.DataFrame:
    """One row of measurements per checkpoint; what `out` has already is not computed again."""
    with progress or Progress() as shown:
        return complete_rows(out, fits, partial(audit_fit, root=root), RESULTS, shown)


def audit_fit(fit: VariantFit, root: Path | None) -> Row:
    """Train a checkpoint and audit it."""
    fitted = fit_variant(fit, root)
    assert fitted.folds.validation is not None
    return audit_poles(fitted.model, fitted.folds.optimization, fitted.folds.validation, seed=fit.seed)


@torch.no_grad()
def audit_poles(model: Alphabet, optimization: Examples, validation: Examples, *, seed: int) -> Row:
    """The measurements of one checkpoint, by the names of RESULTS; the seed draws the random poles."""
    side_inputs: dict[str, Any] = optimization.side_inputs()  # or mypy takes them for batch_size too
    center = mean_descriptor(model, optimization.values, **side_inputs)
    ranked_on = attribute(model, predict_examples(model.describe, optimization), center)
    descriptor = predict_examples(model.describe, validation)
    seen = attribute(model, descriptor, center)
    logits = model.head(descriptor)
    importance = seen.contributions.abs().mean(dim=0)  # (banks, M)
    ranking = rank_poles(ranked_on)
    top, bottom = ranking[:TOP], ranking[-TOP:]
    cascaded = torch.zeros_like(importance, dtype=torch.bool)
    cascaded[CASCADED] = True

    draw = torch.Generator().manual_seed(seed)
    masks = {
        "top": [pole_mask(model, top)],
        "bottom": [pole_mask(model, bottom)],
        "random": draw_masks(importance.shape, TOP, draw),
        "cascaded": [cascaded],
        "random_bank": draw_masks(importance.shape, int(cascaded.sum()), draw),
    }
    row: Row = {
        "score": measure(METRIC, logits, validation.targets),
        "rank_correlation": correlate_ranks(ranked_on.contributions, seen.contributions),
        "margin_error": margin_error(logits, seen.margin),
        "cascaded_share": float(importance[CASCADED].sum() / importance.sum()),
        "cascaded_in_top": int((top[:, 0] == CASCADED).sum()),
    }
    for subset in SUBSETS:
        outputs = [model.head(neutralize(descriptor, center, mask)) for mask in masks[subset]]
        row[f"score_without_{subset}"] = mean([measure(METRIC, each, validation.targets) for each in outputs])
    for subset in SUBSETS:
        outputs = [model.head(retain(descriptor, center, mask)) for mask in masks[subset]]
        row[f"agreement_with_{subset}"] = mean([agreement(each, logits) for each in outputs])
    return row


def draw_masks(shape: Sequence[int], count: int, draw: torch.Generator) -> list[Tensor]:
    """The masks (banks, M) of DRAWS random subsets of `count` poles, each uniform among all subsets of that size."""
    masks = torch.zeros(DRAWS, shape[0] * shape[1], dtype=torch.bool)
    for mask in masks:
        mask[torch.randperm(len(mask), generator=draw)[:count]] = True
    return list(masks.unflatten(1, tuple(shape)))


def correlate_ranks(first: Tensor, second: Tensor) -> float:
    """Spearman's correlation of the poles' mean absolute contributions (N, banks, M) on two folds."""
    scores = (part.abs().mean(dim=0).flatten().numpy() for part in (first, second))
    return float(spearmanr(*scores).statistic)


def margin_error(logits: Tensor, margin: Tensor) -> float:
    """The largest difference between the margins of single-precision logits (N, K) and their sums over poles (N,)."""
    best = logits.topk(2, dim=1).values
    return float(((best[:, 0] - best[:, 1]).double() - margin).abs().max())


def agreement(outputs: Tensor, others: Tensor) -> float:
    """The share of examples for which two sets of outputs (N, K) predict the same class."""
    return float((outputs.argmax(dim=1) == others.argmax(dim=1)).double().mean())


def mean(values: Sequence[float]) -> float:
    """The plain mean."""
    return sum(values) / len(values)


def summarize_poles(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per variant and quantity: value, its Student interval over data sets low ... high and p_value.

    Contrasts are in points, averaged over seeds and then data sets. The other quantities have no interval; published
    numbers are those of the full model.
    """
    found = []
    for variant, group in rows.groupby("variant", sort=False):
        for name, (first, second) in CONTRASTS.items():
            by_task = 100 * (group[first] - group[second]).groupby(group["task"]).mean()
            found.append({"variant": variant, "quantity": name, **_fields(paired_interval(by_task))})
        figures = {
            "rank correlation": group["rank_correlation"].mean(),
            "cascaded share of attribution": group["cascaded_share"].mean(),
            "cascaded share of top 8": group["cascaded_in_top"].mean() / TOP,
            "checkpoints with a cascaded pole in top 8": (group["cascaded_in_top"] > 0).mean(),
            "largest error of a margin": group["margin_error"].max(),
        }
        found += [{"variant": variant, "quantity": name, "value": float(value)} for name, value in figures.items()]
    sizes = {"tasks": rows["task"].nunique(), "checkpoints": rows.groupby("variant").size().max()}
    return pd.DataFrame(found).assign(**sizes)


def pole_table(summary: pd.DataFrame) -> Table:
    """The summary as a table, the paper's numbers beside those of the full model."""
    rows = []
    for row in summary.to_dict("records"):
        name, learned = row["quantity"], row["variant"] == AUDITED[0]
        if name in CONTRASTS:
            ours = effect(row["value"], row["low"], row["high"])
            paper = published_effect(POLE_CONTRASTS[name] if learned else None)
        else:
            ours, paper = (f"{value:.3g}" for value in (row["value"], POLE_FIGURES[name]))
            paper = paper if learned else "-"
        rows.append((name, row["variant"], ours, paper))
    tasks, checkpoints = summary["tasks"].iloc[0], summary["checkpoints"].iloc[0]
    return make_table(
        f"Pole audit on validation, {tasks} task(s), {checkpoints} checkpoints per variant",
        ("quantity", "variant", "ours", "paper"),
        rows,
        "Removed: balanced accuracy lost, retained: agreement with the unmasked model kept, both in points more than "
        "under the control, with 95 % Student intervals over data sets. The paper: 17 data sets, 85 checkpoints.",
    )


def _fields(found: Interval) -> dict[str, float]:
    return {"value": found.mean, "low": found.low, "high": found.high, "p_value": found.p_value}
