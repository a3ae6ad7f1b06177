"""Forgeries of the review in the order of records and in their samples (points 4, 9, 10, 11 and 12)."""

import copy
import statistics

from alphabet_audit.declare.designs import ALPHABET

from alphabet_testing.audit.record_faults import summarize_again
from alphabet_testing.audit.review_choices import of


def gates_after_timing(run):
    late = [record for record in run.records if record["kind"] in ("gate", "parity", "choice")]
    run.records[:] = [record for record in run.records if record["kind"] not in ("gate", "parity", "choice")] + late


def choices_after_timing(run):
    kinds = ("parity", "choice")
    late = [record for record in run.records if record["kind"] in kinds]
    run.records[:] = [record for record in run.records if record["kind"] not in kinds] + late


def gate_between_warmups_and_groups(run):
    """The next row's gate is tried between the warm-ups of a row and its groups."""
    records = run.records
    place = next(index for index, record in enumerate(records) if record["kind"] == "start")
    gate = next(index for index, record in enumerate(records) if record["kind"] == "gate" and index > place)
    records.insert(place + 1, records.pop(gate))


def resumed_without_session(run):
    place = next(index for index, record in enumerate(run.records) if record["kind"] == "group")
    start = of(run, "start")[0]
    run.records.insert(place + 1, {"kind": "resume", "key": start["key"], "warmups": start["warmups"]})


def rows_exchanged(run):
    """Two rows in the place of each other, whole."""
    keys = [record["key"] for record in of(run, "row")]
    blocks = {key: [record for record in run.records if record.get("key") == key] for key in keys}
    head = [record for record in run.records if record.get("key") not in blocks]
    order = [keys[1], keys[0], *keys[2:]]
    run.records[:] = [*head, *(record for key in order for record in blocks[key])]


def wrong_beside_wrong_torch(run):
    """A gradient that is wrong by half, beside plain torch that is said to be as wrong."""
    for record in of(run, "gate"):
        for each in record["readings"]:
            if each["rule"] == "gradient":
                each |= {"error": 0.5, "plain": 0.5, "limit": 1.5}


def null_rows(change):
    """The samples of every null row changed, and their numbers with them."""

    def plant(run):
        for record in run.records:
            if record["kind"] == "group" and f" {ALPHABET} " in record["key"]:
                change(record)
        for row in of(run, "row"):
            if row["opponent"] == ALPHABET:
                summarize_again(run, row["key"])

    return plant


def five_times_itself(group):
    factor = {0: 5.0, 1: 0.2, 2: 5.0}.get(group["number"], 5.0)
    group["seconds"] = [
        seconds * (factor if arm == "B" else 1.0) for arm, seconds in zip(group["order"], group["seconds"], strict=True)
    ]


def exactly_itself(group):
    per_call = 0.00031 + 1e-7 * group["number"]
    group["seconds"] = [per_call * group["repeats"][arm] for arm in group["order"]]


def far_from_calibration(run):
    """Every block of ALPHABET against a family in a millionth of what its calibration says."""
    for record in of(run, "group"):
        if f" {ALPHABET} " in record["key"]:
            continue  # or its noise would give it away
        record["seconds"] = [
            seconds * (1e-6 if arm == "A" else 1.0)
            for arm, seconds in zip(record["order"], record["seconds"], strict=True)
        ]
    for row in of(run, "row"):
        summarize_again(run, row["key"])


def one_probe(run):
    """Calibrations cut to the one probe that gives the same repeats."""
    for start in of(run, "start"):
        for arm, taken in start["calibration"].items():
            start["calibration"][arm] = [min(taken, key=lambda sample: sample[1] / sample[0])]


def groups_copied(run):
    """Seven times the best group of a row."""
    row = of(run, "row")[5]
    groups = [record for record in of(run, "group") if record["key"] == row["key"]]
    best = max(groups, key=lambda group: statistics.fmean(group["seconds"]))
    for group in groups:
        by_arm = {arm: [s for a, s in zip(best["order"], best["seconds"], strict=True) if a == arm] for arm in "AB"}
        group["seconds"] = [by_arm[arm].pop() for arm in group["order"]]
    summarize_again(run, row["key"])


def everywhere(kind, name, value):
    """A field of every record of a kind."""

    def plant(run):
        for record in of(run, kind):
            record[name] = copy.deepcopy(value)

    return plant
