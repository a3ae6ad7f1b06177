"""Whether any samples are copies of others: no clock gives the same times twice."""

from collections.abc import Iterator
from itertools import combinations

from alphabet_audit.judge.run import Reasons, Run
from alphabet_audit.protocol.repeats import PROBES

Samples = tuple[float, ...]
# CUDA events count half microseconds, so that two quiet groups can agree by chance; three do not.
MOST_EQUAL_GROUPS = {"cpu": 1, "cuda": 2}


def check_repeated_samples(run: Run) -> Reasons:
    """No samples are those of others, in whole or, by the finer clock of a CPU, in part; yields those that are.

    Of 5,600 blocks of the accepted ledger, two are equal by chance; no two groups have two blocks in common.
    """
    yield from check_repeated_groups(run)
    if run.device == "cpu":
        known: dict[Samples, str] = {}
        for where, taken in list_samples(run):
            samples = tuple(sorted(taken))
            if samples in known:
                yield f"{where}: its samples are exactly those of {known[samples]}: one is a copy"
            known.setdefault(samples, where)


def check_repeated_groups(run: Run) -> Reasons:
    """No group has the blocks of another, or on a CPU two of them; yields those that do."""
    parts = 2 if run.device == "cpu" else 4
    known: dict[Samples, list[str]] = {}
    for group in run.of("group"):
        where, blocks = f"{group['key']}, group {group['number']}", sorted(group["seconds"])
        if len(set(blocks)) == 1:
            yield f"{where}: its four blocks took exactly as long as each other"
            continue
        for part in set(combinations(blocks, parts)):
            others = known.setdefault(part, [])
            if len(others) >= MOST_EQUAL_GROUPS[run.device]:
                yield f"{where}: {parts} of its blocks took exactly as long as those of {others[0]}: one is a copy"
                break
            others.append(where)


def list_samples(run: Run) -> Iterator[tuple[str, list[float]]]:
    """All samples that are not groups and are so many that chance does not repeat them, each with where it is."""
    for record in run.of("choice"):
        for trial in record["candidates"]:
            if trial["seconds"]:
                yield f"{record['key']}, {trial['name']}", trial["seconds"]
    for record in (*run.of("start"), *run.of("resume")):
        for arm, taken in record["warmups"].items():
            yield f"{record['key']}, warm-ups of {arm} in record {record['index']}", taken
        for arm, probes in record.get("calibration", {}).items():
            if len(probes) >= PROBES:
                yield f"{record['key']}, calibration of {arm}", [seconds for _, seconds in probes]
