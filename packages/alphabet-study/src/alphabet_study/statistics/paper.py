"""The paper's table of TEST results, 82 tasks by ten families, and our results beside it."""

import csv
import io
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

import numpy as np
import pandas as pd
from alphabet_baselines import FAMILIES

from alphabet_study.errors import StudyError
from alphabet_study.statistics.ranks import list_keys, require_columns

PAPER_TABLE: Traversable = files("alphabet_study.statistics") / "paper_test_results.csv"
# The families of the paper by our keys, with their names in its tables.
TITLES: dict[str, str] = {"alphabet": "ALPHABET", **{key: family.title for key, family in FAMILIES.items()}}
REPORTED, SELECTED = "report", "selection"
# A difference beyond this many of the paper's standard deviations is flagged.
FLAGGED = 2.0
# The least standard deviation that a difference is measured in. The paper's rest on three to five seeds and are
# rounded to three digits: many are .000 or .001, by which a difference in the last digit would be infinite or large.
LEAST_SD = 0.005
AHEAD, WITHIN, BEHIND = "ahead", "within", "behind"


class Published(NamedTuple):
    """What the paper's text says of a family's ranks, computed from results that were not rounded."""

    mean_rank: float
    top_1: int
    top_3: int


PUBLISHED = {"alphabet": Published(mean_rank=3.97, top_1=14, top_3=43)}


def read_paper(role: str = REPORTED, path: Traversable = PAPER_TABLE) -> pd.DataFrame:
    """The paper's results with columns task, suite, metric, direction, family, value and sd; families by our keys.

    Values and their sample standard deviations over seeds are rounded to three digits, as printed. role: "report" for
    the 82 reported rows, "selection" for the seven companion rows, which are never ranked.
    """
    if role not in (REPORTED, SELECTED):
        raise StudyError(f"role must be {REPORTED} or {SELECTED}; got {role!r}")
    keys = {title: key for key, title in TITLES.items()}
    rows = []
    try:
        for row in csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))):
            if row["role"] == role:
                names = {name: row[name] for name in ("task", "suite", "metric", "direction")}
                numbers = {"value": float(row["mean"]), "sd": float(row["sd"])}
                rows.append({**names, "family": keys[row["family"]], **numbers})
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise StudyError(f"{path} is not the paper's table: {error!r}; reinstall alphabet-study") from error
    return pd.DataFrame(rows)


def compare_with_paper(results: pd.DataFrame, paper: pd.DataFrame) -> pd.DataFrame:
    """Our results beside the paper's, one row per cell that both have, in the order of `results`.

    Columns are those of `results`, which need task, family, value and direction, and then: paper and paper_sd;
    difference, with positive as better in the task's direction; unit, the paper's standard deviation but at least
    LEAST_SD; deviations, the difference in that unit; verdict, "within" FLAGGED units or else "ahead" or "behind".
    Families that the paper does not have are left out; a task that it lacks is an error.
    """
    require_columns(results, ("task", "family", "value", "direction"), "our results")
    require_columns(paper, ("task", "family", "value", "sd", "direction"), "the paper's results")
    ours = results[results["family"].isin(TITLES) & results["value"].notna()]
    named = {"value": "paper", "sd": "paper_sd", "direction": "paper_direction"}
    theirs = paper.rename(columns=named)[["task", "family", *named.values()]]
    both = ours.merge(theirs, on=["task", "family"], how="left", validate="one_to_one")
    lacking = both[both["paper"].isna()]
    if len(lacking) > 0:
        keys = list_keys(list(lacking["task"] + "/" + lacking["family"]))
        raise StudyError(f"the paper's table has no result for {keys}; name tasks as it does")
    turned = both[both["direction"] != both["paper_direction"]]
    if len(turned) > 0:
        raise StudyError(
            f"the paper's metric improves in the other direction for {list_keys(sorted(set(turned.task)))}"
        )
    sign = np.where(both["direction"] == "max", 1.0, -1.0)
    difference = sign * (both["value"] - both["paper"])
    unit = both["paper_sd"].clip(lower=LEAST_SD)
    # Rounded, so that the last bit of a decimal fraction never decides; + 0.0 turns -0.0 into 0.0.
    deviations = (difference / unit).round(9) + 0.0
    verdict = np.where(deviations > FLAGGED, AHEAD, np.where(deviations < -FLAGGED, BEHIND, WITHIN))
    added = both.assign(difference=difference, unit=unit, deviations=deviations, verdict=verdict)
    return added.drop(columns="paper_direction")
