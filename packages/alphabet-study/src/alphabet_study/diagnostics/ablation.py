"""The structural ablation: the full model and four variants of its size on 17 UCR tasks, validation only."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd
from alphabet_core import VARIANTS
from rich.table import Table

from alphabet_study.diagnostics.contrasts import adjust_holm, count_wins, paired_interval
from alphabet_study.diagnostics.progress import Progress
from alphabet_study.diagnostics.published import ABLATION
from alphabet_study.diagnostics.rows import Kinds, Row, complete_rows
from alphabet_study.diagnostics.tables import effect, make_table, published_effect, share
from alphabet_study.diagnostics.variants import VariantFit, fit_variant, plan_fits
from alphabet_study.protocol.settings import PAPER

FULL = "full"
RESULTS: Kinds = {
    "score": float,
    "validation_loss": float,
    "best_epoch": int,
    "epochs_run": int,
    "validation_size": int,
    "parameters": int,
    "path": str,
}


def plan_ablation(
    tasks: Sequence[str],
    seeds: Sequence[int] = PAPER.final_seeds,
    *,
    epochs: int = PAPER.epochs,
    patience: int = PAPER.patience,
    resplit: bool = False,
) -> list[VariantFit]:
    """The fits of all variants, with recipe B at the full model's size."""
    return plan_fits(tasks, tuple(VARIANTS), seeds, epochs=epochs, patience=patience, resplit=resplit)


def run_ablation(
    fits: Sequence[VariantFit], root: Path | None, out: Path, progress: Progress | None = None
) -> pd.DataFrame:
    """One row per fit with its balanced accuracy on validation; what `out` has already is not computed again."""
    with progress or Progress() as shown:
        return complete_rows(out, fits, partial(measure_variant, root=root), RESULTS, shown)


def measure_variant(fit: VariantFit, root: Path | None) -> Row:
    """How well a variant does on the validation fold at its checkpoint."""
    fitted = fit_variant(fit, root)
    outcome, validation = fitted.outcome, fitted.folds.validation
    assert validation is not None
    return {
        "score": outcome.score,
        "validation_loss": outcome.validation_loss,
        "best_epoch": outcome.best_epoch,
        "epochs_run": outcome.epochs,
        "validation_size": len(validation),
        "parameters": outcome.parameters,
        "path": outcome.path,
    }


def summarize_ablation(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per variant, in the order of the rows.

    score: balanced accuracy, averaged over seeds and then tasks; seed_sd: its SD over seeds, averaged over tasks;
    parameters: the median over tasks. lead: the full model's lead in points, paired by task, with its Student interval
    low ... high, wins, ties and losses of the full model, p_value of the paired t-test and p_holm among the variants.
    """
    by_task = rows.groupby(["variant", "task"], sort=False)["score"]
    means, deviations = by_task.mean().unstack("task"), by_task.std(ddof=1).unstack("task")
    parameters = rows.groupby(["variant", "task"])["parameters"].first().unstack("task")
    found = []
    for variant in means.index:
        row = {
            "variant": variant,
            "tasks": means.shape[1],
            "seeds": rows["seed"].nunique(),
            "score": means.loc[variant].mean(),
            "seed_sd": deviations.loc[variant].mean(),
            "parameters": int(parameters.loc[variant].median()),
        }
        if variant != FULL:
            lead = 100 * (means.loc[FULL] - means.loc[variant])
            row["lead"], row["low"], row["high"], row["p_value"] = paired_interval(lead)
            row["wins"], row["ties"], row["losses"] = count_wins(lead)
        found.append(row)
    summary = pd.DataFrame(found)
    if "p_value" in summary:
        summary["p_holm"] = adjust_holm(summary["p_value"])
    return summary


def ablation_table(summary: pd.DataFrame) -> Table:
    """The summary as a table, the paper's numbers beside ours."""
    rows = []
    for row in summary.to_dict("records"):
        paper, compared = ABLATION[row["variant"]], row["variant"] != FULL
        record = f"{row['wins']:.0f}/{row['ties']:.0f}/{row['losses']:.0f}" if compared else ""
        published = "/".join(map(str, paper.wins_ties_losses)) if paper.wins_ties_losses else "-"
        rows.append(
            (
                row["variant"],
                share(row["score"]),
                share(paper.accuracy),
                share(row["seed_sd"]),
                share(paper.seed_sd),
                f"{row['parameters']:,}",
                f"{paper.parameters:,}",
                effect(row["lead"], row["low"], row["high"], digits=2) if compared else "",
                published_effect(paper.lead) if compared else "",
                record,
                published if compared else "",
                share(row["p_holm"]) if compared else "",
            )
        )
    tasks, seeds = summary["tasks"].iloc[0], summary["seeds"].iloc[0]
    return make_table(
        f"Structural ablation, balanced accuracy on validation, {tasks} task(s) x {seeds} seed(s)",
        ("variant", "ours", "paper", "SD", "paper", "params", "paper", "full leads by (points)", "paper", "W/T/L",
         "paper", "Holm p"),
        rows,
        "The paper: 17 UCR tasks, which it does not name, and five seeds. Lead of the full model over the variant, "
        "paired by task, with its 95 % Student interval; the paper has no Holm-adjusted p below .05.",
    )  # fmt: skip
