"""Whether families differ: Friedman over all, and signed-rank tests of pairs with Holm's correction."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import friedmanchisquare, permutation_test, rankdata, wilcoxon
from statsmodels.stats.multitest import multipletests

from alphabet_study.errors import StudyError

ALPHA = 0.05
# Up to this many tasks all 2^n sign changes are enumerated, as scipy's own "auto" does where there are ties.
_ENUMERATED = 13


@dataclass(frozen=True)
class Friedman:
    """The Friedman test with tasks as units: its chi-square statistic, and the p-value that all families are equal."""

    statistic: float
    p_value: float
    tasks: int
    families: int


def compare_all(ranks: pd.DataFrame) -> Friedman:
    """The Friedman test on ranks, tasks as rows and families as columns.

    Where every family ties on every task the statistic is 0 and the p-value 1.
    """
    tasks, families = ranks.shape
    if families < 3 or tasks < 2:
        raise StudyError(f"the Friedman test needs 3 families and 2 tasks; got {families} and {tasks}")
    if (ranks.nunique(axis=1) == 1).all():
        return Friedman(0.0, 1.0, tasks, families)
    found = friedmanchisquare(*(ranks[family] for family in ranks.columns))
    return Friedman(float(found.statistic), float(found.pvalue), tasks, families)


def compare_pairs(ranks: pd.DataFrame, *, alpha: float = ALPHA) -> pd.DataFrame:
    """The signed-rank test of every pair of families on their taskwise rank differences, one row per pair.

    Columns: first and second, in the order of the columns of `ranks`; difference, the effect: first's mean rank minus
    second's, negative where first is better; wins, ties and losses of first; p_value; p_holm, adjusted for all pairs;
    significant, whether p_holm is at most alpha.
    """
    if ranks.shape[1] < 2 or ranks.shape[0] < 1:
        raise StudyError(f"pairs need 2 families and a task; got {ranks.shape[1]} and {ranks.shape[0]}")
    rows = []
    for first, second in combinations(ranks.columns, 2):
        difference = (ranks[first] - ranks[second]).to_numpy(float)
        rows.append(
            {
                "first": first,
                "second": second,
                "difference": float(difference.mean()),
                "wins": int((difference < 0).sum()),
                "ties": int((difference == 0).sum()),
                "losses": int((difference > 0).sum()),
                "p_value": signed_rank_p_value(difference),
            }
        )
    pairs = pd.DataFrame(rows)
    significant, adjusted, *_ = multipletests(pairs["p_value"], alpha=alpha, method="holm")
    return pairs.assign(p_holm=adjusted, significant=significant)


def signed_rank_p_value(difference: NDArray[np.float64]) -> float:
    """The two-sided p-value of Wilcoxon's signed-rank test; zeros are ranked and then dropped, as Pratt has it.

    Few tasks: exact, over all changes of sign. More: scipy's normal approximation, corrected for ties and zeros. Where
    all differences are zero, or there is only one, 1.
    """
    if not difference.any() or len(difference) < 2:
        return 1.0
    if len(difference) > _ENUMERATED:
        return float(wilcoxon(difference, zero_method="pratt").pvalue)
    # A change of signs leaves the ranks of the magnitudes as they are, so they are computed once and not 2^n times.
    signed = np.sign(difference) * rankdata(np.abs(difference))
    found = permutation_test(
        (signed,),
        lambda sample, axis: np.maximum(sample, 0.0).sum(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=np.inf,
    )
    return float(found.pvalue)


def fill_matrix(pairs: pd.DataFrame, column: str = "p_holm") -> pd.DataFrame:
    """One column of `compare_pairs`, p-values as a rule, as a symmetric matrix of families with 1 on its diagonal."""
    names = list(dict.fromkeys([*pairs["first"], *pairs["second"]]))
    matrix = pd.DataFrame(np.eye(len(names)), index=names, columns=names)
    for first, second, value in zip(pairs["first"], pairs["second"], pairs[column], strict=True):
        matrix.loc[first, second] = matrix.loc[second, first] = float(value)
    return matrix
