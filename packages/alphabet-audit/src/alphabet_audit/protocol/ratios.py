"""The ledger's numbers, computed from raw samples by the functions that ledger, evaluator and report all use."""

import math
import statistics
from collections.abc import Iterable
from typing import Any

Record = dict[str, Any]


def seconds_per_call(group: Record, arm: str) -> float:
    """The seconds that one call of an arm takes, on average over the group's two blocks of it."""
    blocks = [seconds for name, seconds in zip(group["order"], group["seconds"], strict=True) if name == arm]
    return statistics.fmean(blocks) / float(group["repeats"][arm])


def group_ratio(group: Record) -> float:
    """The family's time divided by ALPHABET's: above one, ALPHABET is faster."""
    return seconds_per_call(group, "B") / seconds_per_call(group, "A")


def summarize(groups: Iterable[Record]) -> Record:
    """The fields of a timed row: the groups' ratios, their median and its interval, and each arm's median seconds.

    With seven groups the smallest and the largest ratio enclose the median of all with probability
    1 - 2 (1/2)^7 = 98.4 %, whatever the distribution of the noise.
    """
    groups = list(groups)
    ratios = [group_ratio(group) for group in groups]
    return {
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "interval": [min(ratios), max(ratios)],
        "seconds": {arm: statistics.median(seconds_per_call(group, arm) for group in groups) for arm in "AB"},
    }


def geometric_mean(ratios: Iterable[float]) -> float:
    """The geometric mean, by which the nine ratios of a design are summarized."""
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
