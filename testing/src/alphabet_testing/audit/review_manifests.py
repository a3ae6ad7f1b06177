"""Forgeries of the review in what the manifest says: device, cells, sources (points 2, 3, 13 and 14)."""

from alphabet_audit.declare.designs import ALPHABET

from alphabet_testing.audit.review_choices import of


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
