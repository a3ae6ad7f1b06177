"""From raw samples to the numbers of the ledger. Ledger, evaluator and report all count with these and no others."""

import math
import statistics
from collections.abc import Iterable

from alphabet_audit.evidence import Record


def seconds_per_call(group: Record, arm: str) -> float:
    """Mean over the group's two blocks of one arm."""
    blocks = [seconds for name, seconds in zip(group["order"], group["seconds"], strict=True) if name == arm]
    return statistics.fmean(blocks) / float(group["repeats"][arm])


def group_ratio(group: Record) -> float:
    """The opponent's time by ALPHABET's: above one favours ALPHABET."""
    return seconds_per_call(group, "B") / seconds_per_call(group, "A")


def summarize(groups: Iterable[Record]) -> Record:
    """What a timed row says: the groups' ratios, their median and its interval, and the median seconds of either arm.

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
    """How a row of the ledger is summarized."""
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
