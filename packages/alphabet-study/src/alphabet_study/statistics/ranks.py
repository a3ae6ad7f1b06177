"""Ranks of families on each task, their means, and how often a family is among the first."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from alphabet_study.errors import StudyError

# Values that agree this far share a rank: the paper's tolerances.
RTOL, ATOL = 1e-5, 1e-8
# What tied values get of the places that they take together: the paper's average, or the best or worst of them.
TIES = ("average", "best", "worst")
DIRECTIONS = ("max", "min")
COLUMNS = ("task", "family", "value", "direction")
# Longer lists of keys than this are cut in messages.
_LISTED = 20


def rank_tasks(frame: pd.DataFrame, *, families: Sequence[str] | None = None, ties: str = "average") -> pd.DataFrame:
    """The rank of every family on every task, 1 for the best, as a frame with tasks as rows and families as columns.

    frame: one row per task and family, with columns task, family, value and direction, "max" or "min". families: those
    that must be there and are ranked, in this order; by default all that occur. A missing cell is refused.

    Ties are transitive: sorted values are cut wherever two neighbours are not close by `isclose`, and each piece shares
    a rank. A chain of values, each close to the next, is thus one tie, even where its ends are not close.
    """
    if ties not in TIES:
        raise StudyError(f"ties must be one of {', '.join(TIES)}; got {ties!r}")
    values, signs = _pivot(frame, families)
    # Smaller is better from here on.
    ranked = [rank_values(row * sign, ties=ties) for row, sign in zip(values.to_numpy(float), signs, strict=True)]
    shape = (len(values), len(values.columns))
    return pd.DataFrame(np.array(ranked, dtype=float).reshape(shape), index=values.index, columns=values.columns)


def rank_values(values: NDArray[np.float64], *, ties: str = "average") -> NDArray[np.float64]:
    """The ranks of values, 1 for the smallest; values that a chain of close ones joins share theirs."""
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    lower, upper = ascending[:-1], ascending[1:]
    # isclose scales by its second argument only; taken both ways round, closeness does not depend on the order.
    close = np.isclose(lower, upper, rtol=RTOL, atol=ATOL) | np.isclose(upper, lower, rtol=RTOL, atol=ATOL)
    pieces = np.split(np.arange(1, len(values) + 1, dtype=float), np.flatnonzero(~close) + 1)
    ranks = np.empty(len(values))
    ranks[order] = np.concatenate([np.full(len(places), _share(places[0], places[-1], ties)) for places in pieces])
    return ranks


def mean_ranks(ranks: pd.DataFrame) -> pd.Series:
    """The mean rank of every family over tasks, the best family first."""
    return ranks.mean().sort_values(kind="stable").rename("mean rank")


def count_top(ranks: pd.DataFrame, places: int) -> pd.Series:
    """The number of tasks on which each family's rank is at most `places`.

    What a tie counts follows the ranks: two families that share first place have rank 1.5 by the average and are no
    Top-1, they have rank 1 by the best place and are both, and rank 2 by the worst.
    """
    return (ranks <= places).sum().rename(f"Top-{places}")


def summarize_ranks(
    frame: pd.DataFrame, *, families: Sequence[str] | None = None, ties: str = "average"
) -> pd.DataFrame:
    """Mean rank, Top-1 and Top-3 of every family, as columns mean_rank, top_1 and top_3; the best family first.

    The mean rank is the paper's, of average ranks; `ties` says which places count for Top-1 and Top-3.
    """
    means = mean_ranks(rank_tasks(frame, families=families))
    placed = rank_tasks(frame, families=families, ties=ties)
    summary = pd.DataFrame({"mean_rank": means, "top_1": count_top(placed, 1), "top_3": count_top(placed, 3)})
    return summary.loc[means.index]


def require_columns(frame: pd.DataFrame, columns: Sequence[str], what: str) -> None:
    """Refuse a frame that lacks one of these columns."""
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise StudyError(f"{what} must have the columns {', '.join(columns)}; it lacks {', '.join(missing)}")


def list_keys(keys: Sequence[Any]) -> str:
    """Keys for a message, separated by commas; a long list is cut and says how many are left."""
    shown = ", ".join(str(key) for key in keys[:_LISTED])
    return shown if len(keys) <= _LISTED else f"{shown} and {len(keys) - _LISTED} more"


def _pivot(frame: pd.DataFrame, families: Sequence[str] | None) -> tuple[pd.DataFrame, list[int]]:
    """The values by task and family, checked, and for each task the sign that makes smaller better."""
    require_columns(frame, COLUMNS, "results to be ranked")
    if families is not None:
        frame = frame[frame["family"].isin(list(families))]
    doubled = frame[frame.duplicated(["task", "family"])]
    if len(doubled) > 0:
        keys = list_keys(sorted(set(doubled["task"] + "/" + doubled["family"])))
        raise StudyError(f"every task and family must have one value; there are several for {keys}")
    wanted = list(families) if families is not None else list(dict.fromkeys(frame["family"]))
    values = frame.pivot(index="task", columns="family", values="value")
    values = values.reindex(index=list(dict.fromkeys(frame["task"])), columns=wanted).astype(float)
    if missing := _keys_where(np.isnan(values.to_numpy()), values):
        raise StudyError(
            f"{len(missing)} of {values.size} cells have no value, so that ranks would compare different families on "
            f"different tasks: {list_keys(missing)}; run them, or leave their tasks out"
        )
    if infinite := _keys_where(np.isinf(values.to_numpy()), values):
        raise StudyError(f"values must be finite to be ranked; they are not for {list_keys(infinite)}")
    return values, [_sign(task, rows) for task, rows in frame.groupby("task", sort=False)["direction"]]


def _share(first: float, last: float, ties: str) -> float:
    """What values that take the places from first to last get of them."""
    return {"average": (first + last) / 2.0, "best": first, "worst": last}[ties]


def _keys_where(mask: NDArray[np.bool_], values: pd.DataFrame) -> list[str]:
    return [f"{values.index[row]}/{values.columns[column]}" for row, column in np.argwhere(mask)]


def _sign(task: Any, directions: pd.Series) -> int:
    found = sorted(set(directions), key=str)
    if len(found) != 1 or found[0] not in DIRECTIONS:
        raise StudyError(f"task {task}: direction must be max or min, the same for all families; got {found}")
    return -1 if found[0] == "max" else 1
