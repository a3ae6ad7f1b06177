"""Faults in records, by someone who knows the format and closes the chain again."""

import copy

from alphabet_audit.evidence.canonical import GENESIS
from alphabet_audit.protocol.ratios import summarize


def setting(kind, name, change):
    """A record's field, changed."""

    def plant(run, number):
        record = run.of(kind, number)
        record[name] = change(copy.deepcopy(record[name]))

    return plant


def without(kind, name):
    return lambda run, number: run.of(kind, number).pop(name)


def dropping(kind):
    return lambda run, number: run.records.remove(run.of(kind, number))


def doubling(kind):
    def plant(run, number):
        record = run.of(kind, number)
        run.records.insert(run.records.index(record), copy.deepcopy(record))

    return plant


def moving(kind, distance):
    def plant(run, number):
        record = run.of(kind, number)
        place = run.records.index(record)
        run.records.remove(record)
        run.records.insert(max(1, place + distance), record)

    return plant


def item(index, change):
    """A list or mapping with one entry changed."""

    def apply(entries):
        entries[index] = change(entries[index])
        return entries

    return apply


def reading(name, change):
    """The middle reading's field."""

    def apply(readings):
        middle = readings[len(readings) // 2]
        middle[name] = change(middle[name])
        return readings

    return apply


def swap_arms(run, number):
    group = run.of("group", number)
    letters = {"A": "B", "B": "A"}
    group["order"] = "".join(letters[arm] for arm in group["order"])
    group["repeats"] = {letters[arm]: count for arm, count in group["repeats"].items()}


def swap_orders(run, number):
    """Two groups of one row exchange their orders: as balanced as before."""
    row = run.of("row", number)["key"]
    groups = [record for record in run.records if record["kind"] == "group" and record["key"] == row]
    other = next(group for group in groups if group["order"] != groups[0]["order"])
    groups[0]["order"], other["order"] = other["order"], groups[0]["order"]


def unbalance(run, number):
    row = run.of("row", number)["key"]
    for record in run.records:
        if record["kind"] == "group" and record["key"] == row:
            record["order"] = "ABBA"


def improve(run, number):
    """A better sample, with a summary to match it but for the interval."""
    group = run.of("group", number)
    group["seconds"] = [
        seconds * (1.5 if arm == "B" else 1.0) for arm, seconds in zip(group["order"], group["seconds"], strict=True)
    ]


def forget_failure(run, number):
    """A reading is made to fail, and then left out."""
    gate = run.of("gate", 2 * number)
    gate["readings"] = gate["readings"][:-1]


def widen(run, number):
    """A wrong result under a limit that was raised with it."""
    record = run.of("parity", number)
    middle = record["readings"][len(record["readings"]) // 2]
    middle["error"], middle["limit"] = 10.0, 20.0


def inflate(run, number):
    record = run.of("parity", number)
    middle = record["readings"][len(record["readings"]) // 2]
    middle["rule"] = "family-gradient"


def crash(run, number):
    row = run.of("row", number)
    for name in ("ratio", "ratios", "interval", "seconds"):
        row.pop(name)
    row |= {"status": "crashed", "error": "RuntimeError: out of memory"}


def blind_noise(run, number):
    """Every null row drifts: ALPHABET beats itself."""
    for record in run.records:
        if record["kind"] == "row" and record["opponent"] == "alphabet":
            record["interval"] = [1.1, 1.2]


def slower_choice(run, number):
    choice = run.of("choice", number)
    choice["chosen"] = next(each["name"] for each in choice["candidates"] if each["name"] != choice["chosen"])


def wrong_choice(run, number):
    """What was timed disagreed with its reference."""
    choice = run.of("choice", number)
    for each in choice["candidates"]:
        if each["name"] == choice["chosen"]:
            each["readings"][0]["error"] = 1.0


def rename(run, number):
    """A row's records all move to a family that does not exist."""
    key = run.of("row", number)["key"]
    for record in run.records:
        if record.get("key") == key:
            record["key"] = key.replace(" inference", "x inference").replace(" step", "x step")


def copy_group(run, number):
    """A group's samples copied from another row's, with the summary made to match."""
    group, other = run.of("group", number), run.of("group", number + 1)
    group["seconds"] = list(reversed(other["seconds"]))
    summarize_again(run, group["key"])


def summarize_again(run, key):
    """A row's numbers as its samples give them, whatever was done to those."""
    groups = [record for record in run.records if (record["kind"], record.get("key")) == ("group", key)]
    for record in run.records:
        if (record["kind"], record.get("key")) == ("row", key):
            record |= summarize(groups)


# Fault by name: kind of record and what is done to it. Each is planted at several places.
EDITS = {
    "group's seconds raised": setting("group", "seconds", item(0, lambda s: 1.01 * s)),
    "group's seconds lowered by a unit in the last place": setting(
        "group", "seconds", item(1, lambda s: s * (1 - 2**-50))
    ),
    "group's seconds zero": setting("group", "seconds", item(2, lambda s: 0.0)),
    "group's seconds negative": setting("group", "seconds", item(3, lambda s: -s)),
    "group's seconds a word": setting("group", "seconds", item(0, lambda s: "nan")),
    "group's seconds nothing": setting("group", "seconds", item(0, lambda s: None)),
    "group with three blocks": setting("group", "seconds", lambda s: s[:3]),
    "group in another order": setting("group", "order", lambda o: "BAAB" if o == "ABBA" else "ABBA"),
    "group in no order": setting("group", "order", lambda o: "AABB"),
    "group's repeats": setting("group", "repeats", item("A", lambda n: n + 1)),
    "group's number": setting("group", "number", lambda n: n + 1),
    "group of another row": setting(
        "group", "key", lambda k: k.replace("step", "inference") if "step" in k else k.replace("inference", "step")
    ),
    "group's arms swapped": swap_arms,
    "group improved": improve,
    "group copied": copy_group,
    "group lost": dropping("group"),
    "group doubled": doubling("group"),
    "group later": moving("group", 3),
    "group with a remark": lambda run, n: run.of("group", n).update(remark=1),
    "group without order": without("group", "order"),
    "orders exchanged": swap_orders,
    "orders unbalanced": unbalance,
    "row's ratio": setting("row", "ratio", lambda r: 1.1 * r),
    "row's ratios": setting("row", "ratios", item(3, lambda r: 1.001 * r)),
    "row's interval": setting("row", "interval", item(0, lambda r: 0.9 * r)),
    "row's seconds": setting("row", "seconds", item("A", lambda s: 0.5 * s)),
    "row's status": setting("row", "status", lambda s: "crashed"),
    "row's opponent": setting("row", "opponent", lambda o: "gru" if o != "gru" else "lstm"),
    "row's phase": setting("row", "phase", lambda p: "step" if p == "inference" else "inference"),
    "row's design": setting("row", "design", lambda d: d + "0"),
    "row crashed": crash,
    "row lost": dropping("row"),
    "row doubled": doubling("row"),
    "row before its groups": moving("row", -3),
    "row renamed": rename,
    "start's seed": setting("start", "seed", lambda s: s + 1),
    "start's repeats": setting("start", "repeats", item("B", lambda n: n + 1)),
    "start's execution": setting("start", "execution", lambda e: "another"),
    "start's calibration": setting("start", "calibration", item("A", lambda c: [[1, 2.0]])),
    "start with four warm-ups": setting("start", "warmups", item("A", lambda w: w[:4])),
    "start lost": dropping("start"),
    "start doubled": doubling("start"),
    "start after a group": moving("start", 1),
    "gate's verdict": setting("gate", "verdict", lambda v: "fail"),
    "gate's error": setting("gate", "readings", reading("error", lambda e: 10.0)),
    "gate's error a word": setting("gate", "readings", reading("error", lambda e: "nan")),
    "gate's limit": setting("gate", "readings", reading("limit", lambda e: 2.0 * e)),
    "gate's plain error": setting("gate", "readings", reading("plain", lambda e: e + 1.0)),
    "gate's rule": setting(
        "gate", "readings", reading("rule", lambda r: "family-gradient" if r != "family-gradient" else "logits")
    ),
    "gate's quantity": setting("gate", "readings", reading("quantity", lambda q: "another")),
    "gate's reading lost": forget_failure,
    "gate's reading doubled": setting("gate", "readings", lambda r: [*r, r[0]]),
    "gate lost": dropping("gate"),
    "gate doubled": doubling("gate"),
    "gate after timing": moving("gate", 2),
    "parity's verdict": setting("parity", "verdict", lambda v: "not-run"),
    "parity's readings": setting("parity", "readings", lambda r: []),
    "parity's error": setting("parity", "readings", reading("error", lambda e: 10.0)),
    "parity's limit widened": widen,
    "parity's rule": inflate,
    "parity's runtime": setting("parity", "runtime", lambda r: "reference"),
    "parity's case": setting("parity", "case", item("length", lambda n: 2 * n)),
    "parity lost": dropping("parity"),
    "parity doubled": doubling("parity"),
    "choice of the slower": slower_choice,
    "choice of the wrong": wrong_choice,
    "choice's samples": setting(
        "choice", "candidates", lambda c: [{**each, "seconds": [-s for s in each["seconds"]]} for each in c]
    ),
    "choice's candidate doubled": setting("choice", "candidates", lambda c: [*c, c[0]]),
    "choice lost": dropping("choice"),
    "choice doubled": doubling("choice"),
    "noise": blind_noise,
}
# What there is only once is planted only once.
SINGLE_EDITS = {
    "session's clock": setting("session", "clock", lambda c: "cuda-events"),
    "session lost": dropping("session"),
    "session in the middle of a row": lambda run, n: run.records.insert(900, copy.deepcopy(run.of("session", 0))),
    "beginning lost": dropping("begin"),
    "beginning twice": doubling("begin"),
    "record of a kind of its own": lambda run, n: run.records.append(
        {"kind": "remark", "index": 0, "previous": GENESIS}
    ),
    "resumed after its row": lambda run, n: run.records.append(
        {"kind": "resume", "key": run.of("row", 0)["key"], "warmups": run.of("start", 0)["warmups"]}
    ),
}
