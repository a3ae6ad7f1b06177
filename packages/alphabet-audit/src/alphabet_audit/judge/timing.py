"""Whether calibration, groups and rows follow the protocol, and every number follows from the raw samples."""

import math
import statistics

from alphabet_audit.declare.designs import ALPHABET
from alphabet_audit.declare.verdicts import TIMED
from alphabet_audit.judge.run import Failure, Reasons, Run
from alphabet_audit.protocol.orders import abba_orders, is_balanced, seed_of
from alphabet_audit.protocol.ratios import summarize
from alphabet_audit.protocol.repeats import count_repeats, next_probe

# This share of the null rows must have 1.0 inside the interval of their ratios. All seven ratios of a row fall on one
# side of it with probability 2 / 2^7, so that of twenty null rows two or more do in 3.8 % of honest runs: these are
# refused by chance.
NULL_SHARE = 0.95
# The three bounds below are choices and no derivations, made after the first ledger had been seen, in which no median
# against itself was beyond 1.35 and half of them within 1.04, and no block beyond 63 times its calibration. They leave
# room above it and refuse the forgeries of the review (five; a millionth). A machine that is busy enough fails the
# first two honestly.
LARGEST_NULL, LARGEST_TYPICAL_NULL = 2.0, 1.25
LARGEST_DRIFT = 1000.0  # a remark is made much earlier


def check_calibration(run: Run) -> Reasons:
    """Every row was calibrated probe by probe as the protocol says, and repeats follow from it; yields what was not."""
    target = run.plan.protocol.target_seconds
    for key, starts in run.by_key("start").items():
        for start in starts:
            if start["seed"] != seed_of(key):
                yield f"{key}: seed {start['seed']} is not the row's, which is {seed_of(key)}"
            for arm, taken in start["calibration"].items():
                samples = [(int(repeats), float(seconds)) for repeats, seconds in taken]
                due = [next_probe(samples[:place], target) for place in range(len(samples) + 1)]
                if due != [*(repeats for repeats, _ in samples), None]:
                    yield f"{key}: the calibration of {arm} did not probe as the protocol says: {taken}"
                if start["repeats"][arm] != count_repeats(samples, target):
                    yield f"{key}: {start['repeats'][arm]} repeats of {arm} do not follow from its calibration"


def check_orders(run: Run) -> Reasons:
    """Orders are balanced and follow from the row's seed, repeats are the calibrated ones; yields what is not so."""
    starts, protocol = run.by_key("start"), run.plan.protocol
    for key, groups in run.by_key("group").items():
        orders = tuple(group["order"] for group in groups)
        wanted = abba_orders(protocol.groups, seed_of(key))
        if len(orders) == protocol.groups and not is_balanced(orders):
            yield f"{key}: orders are not balanced: {' '.join(orders)}"
        if orders != wanted[: len(orders)]:
            yield f"{key}: orders are not those of its seed: {' '.join(orders)}"
        if any(group["number"] != place for place, group in enumerate(groups)):
            yield f"{key}: groups are not numbered in their order"
        for start in starts.get(key, [])[:1]:
            if any(group["repeats"] != start["repeats"] for group in groups):
                yield f"{key}: a group's repeats are not those that were calibrated"


def check_samples(run: Run) -> Reasons:
    """No block and no warm-up is beyond all reason by its calibration; yields those that are.

    A first call in a new process may compile for as long as it likes, but none is a thousand times too fast.
    """
    starts = run.by_key("start")
    calibrated = {
        key: {
            arm: min(seconds / repeats for repeats, seconds in taken) for arm, taken in found[0]["calibration"].items()
        }
        for key, found in starts.items()
    }
    for group in run.of("group"):
        fastest = calibrated.get(group["key"], {})
        for arm, seconds in zip(group["order"], group["seconds"], strict=True):
            drift = seconds / group["repeats"][arm] / fastest[arm] if arm in fastest else 1.0
            if not 1.0 / LARGEST_DRIFT <= drift <= LARGEST_DRIFT:
                where = f"{group['key']}, group {group['number']}"
                yield f"{where}: a block of {arm} took {drift:.1e} times what its calibration says"
    for record in (*run.of("start"), *run.of("resume")):
        for arm, fastest_call in calibrated.get(record["key"], {}).items():
            drift = min(record["warmups"][arm]) / fastest_call
            if drift < 1.0 / LARGEST_DRIFT:
                yield f"{record['key']}: a warm-up of {arm} took {drift:.1e} times what its calibration says"


def check_rows(run: Run) -> Reasons:
    """Every row is timed, is the row it says, and has the numbers that its raw samples give; yields what is not so."""
    groups = run.by_key("group")
    for record in run.of("row"):
        key = record["key"]
        row = run.planned.get(key)
        if row and (record["design"], record["opponent"], record["phase"]) != (
            row.design.key, row.family, row.phase,
        ):  # fmt: skip
            yield f"{key}: is recorded as the row {record['design']} {record['opponent']} {record['phase']}"
        if record["status"] != TIMED:
            yield Failure(f"{key}: {record['status']}: {record.get('error', '')}")
            continue
        if key not in groups:
            yield f"{key}: has a ratio without samples"
            continue
        for name, value in summarize(groups[key]).items():
            if record[name] != value:
                yield f"{key}: {name} is recorded as {record[name]}; the raw samples give {value}"


def check_noise(run: Run) -> Reasons:
    """ALPHABET against itself is as fast as itself, but for noise, which there always is; yields what is not so."""
    rows = [record for record in run.of("row") if record["opponent"] == ALPHABET and record["status"] == TIMED]
    if not rows:
        return
    off = [record["key"] for record in rows if not record["interval"][0] <= 1.0 <= record["interval"][1]]
    if len(rows) - len(off) < NULL_SHARE * len(rows):
        yield Failure(f"noise: ALPHABET differs from itself in {len(off)} of {len(rows)} null rows: {'; '.join(off)}")
    distances = [abs(math.log(record["ratio"])) for record in rows]
    for record, distance in zip(rows, distances, strict=True):
        if distance > math.log(LARGEST_NULL):
            yield Failure(
                f"noise: {record['key']}: {record['ratio']:.2f} against itself; nothing measured here means anything"
            )
        if record["interval"][0] == record["interval"][1]:
            yield f"noise: {record['key']}: all ratios are exactly {record['ratio']}, which no clock measures"
    if statistics.median(distances) > math.log(LARGEST_TYPICAL_NULL):
        typical = math.exp(statistics.median(distances))
        yield Failure(
            f"noise: typically {typical:.2f} against itself; at most {LARGEST_TYPICAL_NULL} can be told from it"
        )
