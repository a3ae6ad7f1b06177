"""Faults in evidence: bytes that changed, and edits by someone who knows the format and closes the chain again."""

import copy
import json
from dataclasses import dataclass

from alphabet_audit.evidence import GENESIS, MANIFEST, RECORDS, encode, hash_of, identity_of


@dataclass
class Evidence:
    """A run in memory."""

    records: list
    manifest: dict
    copies: dict

    def of(self, kind, number):
        """One of the records of a kind, counted from the front in strides that reach the whole file."""
        found = [record for record in self.records if record["kind"] == kind]
        return found[(number * 37) % len(found)]

    def write(self, folder):
        """With a chain that holds and a manifest that names its head: nothing but the meaning is wrong."""
        previous, lines = GENESIS, []
        for index, record in enumerate(self.records):
            lines.append(encode({**record, "index": index, "previous": previous}))
            previous = hash_of(lines[-1])
        self.manifest |= {"head": previous, "records": len(lines)}
        self.write_bytes(folder, b"\n".join(lines) + b"\n")

    def write_bytes(self, folder, content):
        (folder / RECORDS).write_bytes(content)
        (folder / MANIFEST).write_text(json.dumps(self.manifest))
        for name, each in self.copies.items():
            (folder / name).write_bytes(each)

    def begin_again(self):
        """Let the records begin with the manifest as it is now."""
        self.records[0]["manifest"] = identity_of(self.manifest)


def read_run(folder, names):
    records = [json.loads(line) for line in (folder / RECORDS).read_bytes().splitlines()]
    manifest = json.loads((folder / MANIFEST).read_text())
    return Evidence(records, manifest, {name: (folder / name).read_bytes() for name in names})


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
    "start's execution": setting("start", "execution", lambda e: "unavailable"),
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


def manifest_with(**changes):
    """The manifest changed, and the records made to begin with it."""

    def plant(run, number):
        for path, value in changes.items():
            *parents, last = path.split("__")
            place = run.manifest
            for name in parents:
                place = place[name]
            place.pop(last) if value is None else place.update({last: value})
        run.begin_again()

    return plant


def change_rules(run, number):
    """Tolerances a hundred times wider, in the run's copy and by the manifest's hash."""
    content = run.copies["tolerances.toml"].replace(b"slack = 3.0", b"slack = 300.0")
    run.copies["tolerances.toml"] = content
    run.manifest["declarations"]["tolerances.toml"] = hash_of(content)
    run.begin_again()


def misstate_gap(run, number):
    next(iter(run.manifest["cells"].values()))["gru"]["gap"] = 0.0001
    run.begin_again()


def mismatch(run, number):
    cell = run.manifest["cells"]["parameter-matched 8/512/64"]["gru"]
    cell |= {"parameters": 1100, "gap": 1100 / 1000 - 1.0}
    run.begin_again()


def change_manifest(name, value):
    """Without telling the records."""
    return lambda run, number: run.manifest.update({name: value})


MANIFEST_EDITS = {
    "smaller scope": manifest_with(plan__scope="same-width"),
    "five groups": manifest_with(plan__protocol={"target_seconds": 0.025, "warmups": 5, "groups": 5}),
    "another seed": manifest_with(plan__seed=8),
    "eight families": manifest_with(plan__families=["gru"]),
    "fewer gates": manifest_with(plan__gates=[]),
    "unknown scope": manifest_with(plan__scope="nothing"),
    "tf32": manifest_with(environment__settings__cudnn_tf32=True),
    "autocast": manifest_with(environment__settings__autocast=True),
    "reduced precision": manifest_with(environment__settings__matmul_precision="medium"),
    "uncommitted sources": manifest_with(environment__git__dirty=True),
    "no commit": manifest_with(environment__git=None),
    "another device": manifest_with(device="cuda"),
    "no device": manifest_with(device="tpu"),
    "unnamed device": manifest_with(environment__device__name=""),
    "no source of the model": manifest_with(**{"environment__imports__alphabet_core/model.py": None}),
    "no hash of the runtime": manifest_with(**{"environment__imports__alphabet_cpu/runtime.py": "unknown"}),
    "no version of torch": manifest_with(environment__versions__torch=None),
    "no threads": manifest_with(environment__threads__torch=None),
    "another kind": manifest_with(kind="parity"),
    "unknown kind": manifest_with(kind="benchmark"),
    "cells of one design": lambda run, n: (run.manifest["cells"].popitem(), run.begin_again()),
    "cell without a family": lambda run, n: (next(iter(run.manifest["cells"].values())).pop("s5"), run.begin_again()),
    "gap misstated": misstate_gap,
    "matched ten per cent apart": mismatch,
    "wider tolerances": change_rules,
    "hash of other designs": manifest_with(**{"declarations__designs.toml": "cd" * 32}),
    "field too many": manifest_with(remark="fine"),
    "field missing": manifest_with(compiled=None),
    "foreign: created": change_manifest("created", "2020-01-01T00:00:00+00:00"),
    "foreign: compiled": change_manifest("compiled", True),
    "foreign: cells": change_manifest("cells", {}),
    "foreign: environment": change_manifest("environment", {}),
    "foreign: not a number": change_manifest("created", float("nan")),
    "device in a word": manifest_with(environment__device="cpu"),
    "imports in a word": manifest_with(environment__imports="all of them"),
    "not finished": change_manifest("finished", False),
    "another version": change_manifest("version", 2),
    "copy of the tolerances edited": lambda run, n: run.copies.update({"tolerances.toml": b"[logits]\n"}),
    "copy of the designs missing": lambda run, n: run.copies.pop("designs.toml"),
}


def flip(content, number):
    place = (len(content) * number) // 41 + 3 * number
    return content[:place] + bytes([content[place] ^ (1 << (number % 8))]) + content[place + 1 :]


def edit_lines(change):
    def damage(content, number):
        lines = content.split(b"\n")[:-1]
        change(lines, (number * 211) % (len(lines) - 2) + 1)
        return b"\n".join(lines) + b"\n"

    return damage


def exchange(lines, place):
    lines[place], lines[place + 1] = lines[place + 1], lines[place]


def drop_line(lines, place):
    del lines[place]


def double_line(lines, place):
    lines.insert(place, lines[place])


def write_nan(lines, place):
    lines[place] = lines[place].replace(b'"index":', b'"another":NaN,"index":')


def add_space(lines, place):
    lines[place] = lines[place].replace(b":", b": ", 1)


# Damage to the bytes of the evidence, by name, with how many places it is done at.
DAMAGE = {
    "flip": (flip, 40),
    "drop": (edit_lines(drop_line), 8),
    "double": (edit_lines(double_line), 8),
    "exchange": (edit_lines(exchange), 8),
    "nan": (edit_lines(write_nan), 4),
    "space": (edit_lines(add_space), 4),
    "truncate": (lambda content, number: content[: (len(content) * number) // 9 - 1], 9),
    "cut a record off": (edit_lines(lambda lines, place: lines.pop()), 1),
    "empty": (lambda content, number: b"", 1),
    "garbage behind": (lambda content, number: content + b"\x00\xff\n", 1),
}
