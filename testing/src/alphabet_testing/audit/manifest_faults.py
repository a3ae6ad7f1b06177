"""Faults in a run's manifest and in its copies of the declarations."""

from alphabet_audit.declare.declarations import digest_value, read_values


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
    run.manifest["declarations"]["tolerances"] = digest_value(read_values(run.copies, 2)["tolerances.toml"])
    run.begin_again()


def misstate_gap(run, number):
    next(iter(run.manifest["cells"].values()))["gru"]["gap"] = 0.0001
    run.begin_again()


def mismatch(run, number):
    cell = run.manifest["cells"]["parameter-matched 8/512/64"]["gru"]
    cell |= {"parameters": 7081, "gap": 7081 / 6437 - 1.0}
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
    "no source of the model": manifest_with(environment__sources__alphabet_core=None),
    "no hash of the runtime": manifest_with(environment__sources__alphabet_cpu="unknown"),
    "no version of torch": manifest_with(environment__versions__torch=None),
    "no threads": manifest_with(environment__threads__torch=None),
    "another kind": manifest_with(kind="parity"),
    "unknown kind": manifest_with(kind="benchmark"),
    "cells of one design": lambda run, n: (run.manifest["cells"].popitem(), run.begin_again()),
    "cell without a family": lambda run, n: (next(iter(run.manifest["cells"].values())).pop("s5"), run.begin_again()),
    "gap misstated": misstate_gap,
    "matched ten per cent apart": mismatch,
    "wider tolerances": change_rules,
    "hash of other designs": manifest_with(declarations__designs="cd" * 32),
    "field too many": manifest_with(remark="fine"),
    "field missing": manifest_with(compiled=None),
    "foreign: created": change_manifest("created", "2020-01-01T00:00:00+00:00"),
    "foreign: compiled": change_manifest("compiled", True),
    "foreign: cells": change_manifest("cells", {}),
    "foreign: environment": change_manifest("environment", {}),
    "foreign: not a number": change_manifest("created", float("nan")),
    "device in a word": manifest_with(environment__device="cpu"),
    "sources in a word": manifest_with(environment__sources="all of them"),
    "not finished": change_manifest("finished", False),
    "another version": change_manifest("version", 3),
    "copy of the tolerances edited": lambda run, n: run.copies.update({"tolerances.toml": b"[logits]\n"}),
    "copy of the designs missing": lambda run, n: run.copies.pop("designs.toml"),
}
