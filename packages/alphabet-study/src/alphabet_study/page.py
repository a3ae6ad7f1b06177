"""The results page: Markdown and pictures, generated from a campaign's fits and from nothing else."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from rich.markup import escape
from rich.table import Table

from alphabet_study.errors import StudyError
from alphabet_study.protocol.records import STAGES
from alphabet_study.protocol.settings import PAPER
from alphabet_study.statistics.figures import plot_critical_differences, plot_rank_against_parameters
from alphabet_study.statistics.paper import (
    AHEAD,
    BEHIND,
    FLAGGED,
    LEAST_SD,
    PUBLISHED,
    TITLES,
    WITHIN,
    compare_with_paper,
)
from alphabet_study.statistics.ranks import count_top, list_keys, rank_tasks, summarize_ranks
from alphabet_study.statistics.significance import ALPHA, compare_all, compare_pairs

ALPHABET = "alphabet"
NOTHING_YET = "not explained yet"
_TIE_RULES = {
    "average": "the average of their places, as in the ranks",
    "worst": "the worst of their places",
    "best": "the best of their places",
}


def read_reasons(path: Path) -> dict[str, str]:
    """The reasons for differences in a TOML file: texts by task, or by "task/family" for one family alone."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StudyError(f"{path} cannot be read as TOML: {error}") from error
    for name, text in found.items():
        if not isinstance(text, str):
            raise StudyError(f'{path}: write {name} = "the reason"; got {text!r}')
    return found


def write_page(
    results: pd.DataFrame,
    paper: pd.DataFrame,
    fits: pd.DataFrame,
    out: Path,
    *,
    reasons: Mapping[str, str] | None = None,
) -> list[Path]:
    """Write the page to `out` and its pictures beside it; returns the paths of all files.

    results: as `summarize_finals` gives them, incomplete cells included. paper: as `read_paper` gives it. fits: what
    the results were made of. reasons: texts by task, shown where its differences are flagged, or by "task/family",
    always shown. The same arguments give the same page.
    """
    reasons = dict(reasons or {})
    named = {*results["task"], *(results["task"] + "/" + results["family"])}
    if unknown := sorted(set(reasons) - named):
        raise StudyError(f"reasons for what is not among the results: {list_keys(unknown)}; correct or remove them")
    compared = compare_with_paper(results, paper)
    alphabet = compared[compared["family"] == ALPHABET]
    others = compared[compared["family"] != ALPHABET]
    extended = [name for name in dict.fromkeys(results["family"]) if name not in TITLES]
    beside = {name: results[results["family"] == name].set_index("task") for name in extended}
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.touch()
    except OSError as error:
        raise StudyError(f"{out}: the page cannot be written there ({error.strerror}); name another file") from error
    ranks, pictures = _rank_section(results, paper, out)
    recomputed, remark = _recompute(paper)
    lacking = results[results["incomplete"] != ""]
    context = {
        "fits": _describe_fits(fits),
        "paths": _count_paths(fits),
        "shortened": _describe_shortening(results, fits),
        "protocol": PAPER.fits_per_cell,
        "planned": len(results),
        "incomplete": [f"{row.task}/{row.family}: {row.incomplete}" for row in lacking.itertuples()],
        "flagged": f"{FLAGGED:g}",
        "least_sd": f"{LEAST_SD:g}",
        "summary": _summary_table(compared),
        "alphabet": _comparison_table(alphabet, reasons, beside) if len(alphabet) > 0 else "",
        "extensions": ", ".join(extended),
        "others": _comparison_table(others, reasons, {}) if len(others) > 0 else "",
        "others_count": len(others),
        "ranks": ranks,
        "recomputed": recomputed,
        "remark": remark,
    }
    environment = Environment(
        loader=PackageLoader("alphabet_study"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    out.write_text(environment.get_template("results.md.jinja").render(context), encoding="utf-8")
    return [out, *pictures]


def result_table(summary: pd.DataFrame) -> Table:
    """The results as a table for the terminal, one row per cell; the best family of each task is bold."""
    table = Table(title="Results on TEST, mean (sample SD) over final seeds")
    for name in ("task", "family", "metric"):
        table.add_column(name)
    for name in ("result", "seeds", "parameters", "epochs"):
        table.add_column(name, justify="right")
    for name in ("candidate", "path"):
        table.add_column(name, overflow="fold")
    for task, cells in summary.groupby("task", sort=False):
        values = cells["value"]
        best = values.max() if cells["direction"].iloc[0] == "max" else values.min()
        for number, row in enumerate(cells.itertuples()):
            shown = _number(row.value, row.sd) if row.incomplete == "" else f"incomplete: {row.incomplete}"
            texts = (
                str(task) if number == 0 else "", _title(row.family), row.metric, shown, str(row.n),
                _count(row.parameters), _count(row.epochs), row.candidate, row.path,
            )  # fmt: skip
            table.add_row(
                *map(escape, texts),  # a reason may hold brackets, which are no markup
                style="bold" if row.value == best else None, end_section=number == len(cells) - 1,
            )  # fmt: skip
    return table


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, texts: Sequence[str] = ()) -> str:
    """A Markdown table; columns named in `texts` are aligned at the left, all others at the right."""
    ruler = [":--" if name in texts else "--:" for name in header]
    lines = [header, ruler, *([_cell(each) for each in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _comparison_table(compared: pd.DataFrame, reasons: Mapping[str, str], beside: Mapping[str, pd.DataFrame]) -> str:
    """Ours beside the paper's, cell by cell; `beside` are extensions, each of which gets a column."""
    families = compared["family"].nunique() > 1 or set(compared["family"]) != {ALPHABET}
    texts = ("task", "family", "metric", "", "candidate", "path", "reason")
    header = ["task", *(["family"] if families else []), "metric", "ours", "paper", "difference", "in SD", ""]
    header += [*beside, "seeds", "candidate", "epochs", "parameters", "path", "reason"]
    rows = []
    for row in compared.itertuples():
        flagged = row.verdict != WITHIN
        units = f"{row.deviations:+.1f}"
        specific = reasons.get(f"{row.task}/{row.family}")
        general = reasons.get(row.task, NOTHING_YET) if flagged else ""
        cells = [row.task, *([_title(row.family)] if families else []), _plain(row.metric), _number(row.value, row.sd)]
        cells += [_number(row.paper, row.paper_sd), f"{row.difference:+.3f}", f"**{units}**" if flagged else units]
        cells.append(row.verdict if flagged else "")
        for extension in beside.values():
            found = extension.loc[row.task] if row.task in extension.index else None
            cells.append("–" if found is None else _number(found["value"], found["sd"]))
        cells += [str(row.n), f"`{row.candidate}`", _count(row.epochs), _count(row.parameters), row.path]
        rows.append([*cells, specific or general])
    return markdown_table(header, rows, texts=texts)


def _summary_table(compared: pd.DataFrame) -> str:
    """One line per family and metric: raw metrics of different kinds are never averaged."""
    header = ["family", "metric", "tasks", AHEAD, WITHIN, BEHIND, "mean difference", "median difference"]
    rows = []
    order = sorted(set(compared["family"]), key=list(TITLES).index)
    for family in order:
        for metric, cells in compared[compared["family"] == family].groupby("metric", sort=False):
            counts = [str((cells["verdict"] == verdict).sum()) for verdict in (AHEAD, WITHIN, BEHIND)]
            differences = [f"{cells['difference'].mean():+.4f}", f"{cells['difference'].median():+.4f}"]
            rows.append([_title(family), _plain(metric), str(len(cells)), *counts, *differences])
    return markdown_table(header, rows, texts=("family", "metric"))


def _rank_section(results: pd.DataFrame, paper: pd.DataFrame, out: Path) -> tuple[dict[str, Any] | None, list[Path]]:
    """What the page says of ranks, on the tasks where all ten families have results, and the pictures it wrote."""
    shared = results[results["family"].isin(TITLES) & results["value"].notna()]
    counts = shared.groupby("task")["family"].nunique()
    shared = shared[shared["task"].isin(counts[counts == len(TITLES)].index)]
    if len(shared) == 0:
        return None, []
    theirs = paper[paper["task"].isin(shared["task"])]
    ours, published = summarize_ranks(shared, families=list(TITLES)), summarize_ranks(theirs, families=list(TITLES))
    ranks = rank_tasks(shared, families=list(TITLES))[ours.index]
    sizes = shared.groupby("family")["parameters"].median()
    section: dict[str, Any] = {"count": len(ranks), "tests": ""}
    section["table"] = markdown_table(
        ["task", *map(_title, ranks.columns)],
        [
            [str(task), *(f"**{rank:g}**" if rank == row.min() else f"{rank:g}" for rank in row)]
            for task, row in ranks.iterrows()
        ],
        texts=("task",),
    )
    section["means"] = markdown_table(
        ["family", "mean rank", "paper's mean rank", "Top-1", "paper's Top-1", "Top-3", "paper's Top-3", "parameters"],
        [
            [_title(name), f"{row.mean_rank:.2f}", f"{published.mean_rank[name]:.2f}", str(row.top_1),
             str(published.top_1[name]), str(row.top_3), str(published.top_3[name]), _count(sizes[name])]
            for name, row in zip(ours.index, ours.itertuples(), strict=True)
        ],
        texts=("family",),
    )  # fmt: skip
    if len(ranks) < 2:
        return section, []
    friedman = compare_all(ranks)
    pairs = compare_pairs(rank_tasks(shared, families=list(TITLES)))
    section["pairs"] = len(pairs)
    section["friedman"] = (
        f"Friedman over {friedman.tasks} tasks: chi-square {friedman.statistic:.2f} with {friedman.families - 1} "
        f"degrees of freedom, p = {friedman.p_value:.2g}."
    )
    least = min(1.0, 2.0 ** (1 - len(ranks)) * len(pairs))
    section["least"] = f"{least:.2g}" if least > ALPHA else ""
    section["tests"] = markdown_table(
        ["family", "difference", "wins", "ties", "losses", "p", "p, Holm"],
        [
            [_title(row.second), f"{row.difference:+.2f}", str(row.wins), str(row.ties), str(row.losses),
             f"{row.p_value:.2g}", f"**{row.p_holm:.2g}**" if row.significant else f"{row.p_holm:.2g}"]
            for row in pairs[pairs["first"] == ALPHABET].sort_values("difference").itertuples()
        ],
        texts=("family",),
    )  # fmt: skip
    pictures = {"differences": plot_critical_differences(shared), "parameters": plot_rank_against_parameters(shared)}
    paths = []
    for name, figure in pictures.items():
        paths.append(out.with_name(f"{out.stem}-{name}.png"))
        figure.savefig(paths[-1], dpi=120, metadata={"Software": None})
        section[f"{name}_picture"] = paths[-1].name
    return section, paths


def _recompute(paper: pd.DataFrame) -> tuple[str, str]:
    """What the paper's rounded table gives for ALPHABET by each tie rule beside what it says: a table and a remark."""
    said = PUBLISHED[ALPHABET]
    places = {ties: rank_tasks(paper, families=list(TITLES), ties=ties) for ties in _TIE_RULES}
    means = {ties: float(ranks[ALPHABET].mean()) for ties, ranks in places.items()}
    tops = {ties: tuple(int(count_top(ranks, top)[ALPHABET]) for top in (1, 3)) for ties, ranks in places.items()}
    rows = [
        [rule, f"{means['average']:.2f}", str(tops[ties][0]), str(tops[ties][1])] for ties, rule in _TIE_RULES.items()
    ]
    rows.append(["published", f"{said.mean_rank:.2f}", str(said.top_1), str(said.top_3)])
    header = ["tied families count", "mean rank", "Top-1", "Top-3"]
    off = {ties: (abs(first - said.top_1), abs(third - said.top_3)) for ties, (first, third) in tops.items()}
    nearest = min(off, key=lambda ties: sum(off[ties]))
    remark = (
        f"Nearest to the published counts is {_TIE_RULES[nearest]}, off by {off[nearest][0]} in Top-1 and "
        f"{off[nearest][1]} in Top-3. Rounding creates ties but never turns an order round: whoever leads alone in the "
        f"rounded table led alone before, unless results that were rounded apart had been `isclose`. Otherwise no tie "
        f"rule gives fewer Top-1 than {tops['worst'][0]}. A mean rank of {said.mean_rank:.2f} is possible: before "
        f"rounding it lay between {means['best']:.2f} and {means['worst']:.2f}, ties broken for or against ALPHABET."
    )
    return markdown_table(header, rows, texts=header[:1]), remark


def _describe_fits(fits: pd.DataFrame) -> dict[str, Any]:
    """How many fits there are of what, and where they ran."""
    stages = fits["stage"].value_counts()
    statuses = fits["status"].value_counts()
    return {
        "count": f"{len(fits):,}",
        "cells": len(fits[["task", "family"]].drop_duplicates()),
        "stages": ", ".join(f"{stages.get(stage, 0):,} {stage}" for stage in STAGES),
        "statuses": ", ".join(f"{count:,} {status}" for status, count in sorted(statuses.items())),
        "hours": f"{fits['seconds'].sum() / 3600:.1f}",
        "machines": " and ".join(sorted(map(str, fits["machine"].dropna().unique()))) or "machines that are not named",
        "sources": ", ".join(f"`{str(digest)[:12]}`" for digest in sorted(fits["sources"].dropna().unique())),
    }


def _describe_shortening(results: pd.DataFrame, fits: pd.DataFrame) -> str:
    """The numbers of fits of complete cells that are not the paper's, in words; empty if there are none."""
    complete = results[results["incomplete"] == ""]
    counts = fits.groupby(["task", "family"]).size()
    found = sorted({int(counts[cell]) for cell in zip(complete["task"], complete["family"], strict=True)})
    return " or ".join(str(count) for count in found if count != PAPER.fits_per_cell)


def _count_paths(fits: pd.DataFrame) -> str:
    counts = fits[fits["family"] == ALPHABET]["path"].value_counts()
    return ", ".join(f"{path} in {count:,} fits" for path, count in sorted(counts.items()))


def _title(family: str) -> str:
    return TITLES.get(family, family)


def _plain(metric: str) -> str:
    return metric.replace("_", " ")


def _number(value: float, sd: float) -> str:
    """A mean with its standard deviation, as the paper prints them; a dash for what there is not."""
    if pd.isna(value):
        return "–"
    return f"{value:.3f} ({'–' if pd.isna(sd) else f'{sd:.3f}'})"


def _count(number: float) -> str:
    return "–" if pd.isna(number) else f"{number:,.0f}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
