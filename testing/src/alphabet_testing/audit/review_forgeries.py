"""Forgeries that an evaluator once accepted, by the number of the review's point; each closes the chain again.

A forgery changes an `EvidenceCopy`, of version 1 or 2, as someone would who knows the format: whatever follows from
what it changes is recomputed, so that only the rule that it breaks can find it.
"""

import copy
import statistics

from alphabet_audit.declare.designs import ALPHABET
from alphabet_audit.protocol.execution_choice import choose_fastest, read_trial

from alphabet_testing.audit.record_faults import summarize_again


def of(run, kind):
    return [record for record in run.records if record["kind"] == kind]


def choose_again(run):
    """Every choice and whatever was timed by it, as the samples that are left say."""
    chosen = {}
    for choice in of(run, "choice"):
        choice["chosen"] = choose_fastest(map(read_trial, choice["candidates"]))
        chosen[choice["key"]] = choice["chosen"]
    for start in of(run, "start"):
        sizing, _, family, phase = start["key"].split()
        if family != ALPHABET:
            start["execution"] = chosen[f"{sizing} {family} {phase}"]


def without_the_fastest(run):
    for choice in of(run, "choice"):
        choice["candidates"] = [each for each in choice["candidates"] if each["name"] != choice["chosen"]]
    choose_again(run)


def invented_candidate(run):
    for choice in of(run, "choice"):
        made = copy.deepcopy(next(each for each in choice["candidates"] if each["seconds"]))
        choice["candidates"].append({**made, "name": "magic", "seconds": [1e-6 + 1e-9 * n for n in range(7)]})
    choose_again(run)


def emptied_candidates(run):
    for choice in of(run, "choice"):
        for each in choice["candidates"]:
            if each["name"] != choice["chosen"]:
                each |= {"seconds": [], "readings": [], "reason": ""}


def single_samples(run):
    for choice in of(run, "choice"):
        for each in choice["candidates"]:
            each["seconds"] = each["seconds"][:1]
    choose_again(run)


def excused_fastest(run):
    for choice in of(run, "choice"):
        for each in choice["candidates"]:
            if each["name"] == choice["chosen"]:
                each |= {"seconds": [], "readings": [], "reason": "RuntimeError: out of memory"}
    choose_again(run)


def timed_without_comparison(run):
    for choice in of(run, "choice"):
        for each in choice["candidates"]:
            each["readings"] = []


def relabelled_cuda(run):
    run.manifest["device"] = "cuda"
    run.manifest["environment"]["device"] = {"type": "cuda", "name": "NVIDIA GeForce RTX 4090"}
    for record in run.records:
        if record["kind"] == "session":
            record["clock"] = "cuda-events"
        if record["kind"] == "parity":
            record["runtime"] = "triton"
    run.begin_again()


def relabelled_cuda_in_full(run):
    """With a capability, a driver and the state of a GPU, but a build of torch for CPUs and no graphs."""
    relabelled_cuda(run)
    identity = ("name", "driver_version", "vbios_version", "memory.total", "power.limit")
    state = ("clocks.sm", "clocks.mem", "clocks_throttle_reasons.active", "temperature.gpu", "power.draw", "pstate")
    run.manifest["environment"]["device"] |= {
        "capability": "8.9", "cuda": "12.8", "gpu": dict.fromkeys(identity, "an RTX 4090"),
    }  # fmt: skip
    for record in of(run, "session"):
        record["state"] = {"gpu": dict.fromkeys(state, "well")}
    run.begin_again()


def cell(design, family, /, **changes):
    """A cell's entry changed, with the gap that follows."""

    def plant(run):
        entries = run.manifest["cells"][design]
        entries[family] |= changes
        for name in [name for name, value in changes.items() if value is None]:
            entries[family].pop(name)
        if isinstance(entries[family].get("parameters"), int):
            entries[family]["gap"] = entries[family]["parameters"] / entries[ALPHABET]["parameters"] - 1.0
        run.begin_again()

    return plant


SAME, MATCHED = "same-width 32/512/64", "parameter-matched 8/512/64"


def gates_after_timing(run):
    late = [record for record in run.records if record["kind"] in ("gate", "parity", "choice")]
    run.records[:] = [record for record in run.records if record["kind"] not in ("gate", "parity", "choice")] + late


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
    """Every block of one arm in a millionth of what its calibration says."""
    for record in of(run, "group"):
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


def trials_copied(run):
    first, second, *_ = of(run, "choice")
    second["candidates"][0]["seconds"] = list(first["candidates"][0]["seconds"])
    choose_again(run)


def everywhere(kind, name, value):
    """A field of every record of a kind."""

    def plant(run):
        for record in of(run, kind):
            record[name] = copy.deepcopy(value)

    return plant


def manifest(**changes):
    """Fields of the manifest by their paths, and the records made to begin with it."""

    def plant(run):
        for path, value in changes.items():
            *parents, last = path.split("__")
            place = run.manifest
            for name in parents:
                place = place[name]
            place[last] = value
        run.begin_again()

    return plant


def stripped_hashes(run):
    environment = run.manifest["environment"]
    if "imports" in environment:
        kept = ("alphabet_audit/ledger.py", "alphabet_baselines/registry.py", "alphabet_core/model.py",
                "alphabet_cpu/runtime.py", "torch/__init__.py")  # fmt: skip
        environment["imports"] = {name: environment["imports"][name] for name in kept}
    else:
        environment["sources"] = {"alphabet_core": environment["sources"]["alphabet_core"]}
    run.begin_again()


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


# By the number of the review's point, then by name.
FORGERIES = {
    1: {
        "the fastest candidate removed from every choice": without_the_fastest,
        "an invented candidate": invented_candidate,
        "candidates with neither samples nor reason": emptied_candidates,
        "one sample instead of seven": single_samples,
        "the fastest excused by a reason": excused_fastest,
        "candidates that were never compared": timed_without_comparison,
    },
    2: {"a CPU run relabelled": relabelled_cuda, "relabelled with all that a GPU has": relabelled_cuda_in_full},
    3: {
        "a smaller model under the same width": cell(SAME, "gru", width=32, parameters=3957),
        "another size of the same candidate": cell(SAME, "gru", parameters=14020),
        "another choice": cell(SAME, "gru", choice=[2, 32]),
        "a width of minus one": cell(MATCHED, "gru", width=-1),
        "no choice": cell(MATCHED, "gru", choice=None),
        "an empty choice": cell(MATCHED, "gru", choice=[]),
        "a negative count": cell(MATCHED, "gru", parameters=-6437),
        "a count that is true": cell(MATCHED, "gru", parameters=True),
        "an absurd count": cell(SAME, "gru", parameters=10**15),
        "another family's entry": cell(MATCHED, "gru", family="lstm"),
        "ALPHABET with other modes": cell(SAME, ALPHABET, choice=[8]),
    },
    4: {
        "gates and choices behind all timing": gates_after_timing,
        "a gate between warm-ups and groups": gate_between_warmups_and_groups,
        "a resume without a session": resumed_without_session,
        "two rows exchanged": rows_exchanged,
    },
    9: {"an error beside plain torch's own": wrong_beside_wrong_torch},
    10: {"null rows of five": null_rows(five_times_itself), "null rows of exactly one": null_rows(exactly_itself)},
    11: {"samples a millionth of their calibration": far_from_calibration, "a calibration of one probe": one_probe},
    12: {"samples copied within a row": groups_copied, "samples of a trial copied": trials_copied},
    13: {
        "an integer beyond all floats": everywhere("start", "seed", 10**5000),
        "seconds that overflow": everywhere("start", "calibration", {"A": [[1, 5e-324]], "B": [[1, 5e-324]]}),
        "a list in the place of a key": everywhere("group", "key", ["a"]),
        "a list in the place of a kind": everywhere("session", "kind", []),
        "a mapping in the place of an order": everywhere("group", "order", {}),
        "a list in the place of a verdict": everywhere("gate", "verdict", [[]]),
        "half of a surrogate pair": everywhere("row", "design", "\ud800"),
        "a device in a list": manifest(device=["cpu"]),
        "a kind in a list": manifest(kind=["ledger"]),
        "a scope in a list": manifest(plan__scope=["all"]),
        "a commit in a list": manifest(environment__git=["banana"]),
        "cells in a list": manifest(cells=[[]]),
        "a deep list": manifest(environment__device=nested(90)),
        "half of a surrogate pair in the manifest": manifest(environment__device__name="\udfff"),
        "a huge integer in the manifest": manifest(environment__threads__torch=10**400),
    },
    14: {
        "a banana for a commit": manifest(environment__git={"commit": "banana", "dirty": False}),
        "any word for a date": manifest(created="yesterday"),
        "a 32nd day": manifest(created="2026-01-32T10:00:00+00:00"),
        "an empty state": everywhere("session", "state", {}),
        "stripped hashes": stripped_hashes,
        "a clock of its own": everywhere("session", "clock", "sundial"),
    },
}
CASES = [(point, name) for point, found in FORGERIES.items() for name in found]
