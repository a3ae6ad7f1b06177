"""A bench and a clock without hardware: arms take as long as they are told, gates read what they are told.

Everything else, from the plan to the evidence, is the ledger's own code.
"""

import contextlib
import hashlib
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from alphabet_audit.declare.candidates import read_candidates
from alphabet_audit.declare.declarations import read_declarations
from alphabet_audit.declare.designs import ALPHABET, INFERENCE
from alphabet_audit.declare.executions import read_executions
from alphabet_audit.declare.quantities import GATE_QUANTITIES, after_quantities, family_quantities, row_quantities
from alphabet_audit.declare.vectors import RESTRICTIONS
from alphabet_audit.evidence.environment_form import FRESH_KERNELS, LIBRARIES, OURS, VARIABLES
from alphabet_audit.evidence.store import Evidence
from alphabet_audit.measure.ledger import Ledger
from alphabet_audit.measure.manifest import make_manifest
from alphabet_audit.protocol.execution_choice import ExecutionTrial
from alphabet_audit.protocol.outcomes import Outcome
from alphabet_audit.protocol.plan import Plan
from alphabet_audit.protocol.readings import Reading, judge

HASH = "ab" * 32
ENVIRONMENT = {
    "device": {"type": "cpu", "name": "a processor that does not exist", "cores": 2},
    "system": {"platform": "Linux", "machine": "x86_64", "python": "3.11.7"},
    "versions": {**dict.fromkeys((*OURS, *LIBRARIES), "0.1.0"), "torch": "2.13.0", "mamba_ssm": None},
    "sources": dict.fromkeys(OURS, HASH),
    "libraries": {**dict.fromkeys(LIBRARIES, HASH), "mamba_ssm": None},
    "kernels": FRESH_KERNELS,
    "threads": {"usable": 2, "torch": 2, "torch_interop": 1, "variables": dict.fromkeys(VARIABLES)},
    "vectors": {
        "restricted": None, "variables": dict.fromkeys(RESTRICTIONS), "torch": "AVX512", "onednn": "Intel AVX-512",
        "mkl": "Intel(R) Architecture processors", "numba": "znver5: avx,avx2,avx512f,fma", "inductor": None,
    },
    "settings": {"matmul_tf32": False, "cudnn_tf32": False, "autocast": False, "matmul_precision": "highest"},
    "git": {"commit": "0" * 40, "dirty": False},
}  # fmt: skip


def fraction(*names):
    """A number in [0, 1) that only depends on the names."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, names)).encode()).digest()[:6], "big") / 2**48


class FakeClock:
    """Time passes only in arms, with noise of one per cent that the session and the measurement's number determine."""

    name = "monotonic"

    def __init__(self):
        self.now, self.measured, self.session = 0.0, 0, 0

    def settle(self):
        pass

    def measure(self, call, repeats):
        self.measured += 1
        started, noise = self.now, 1.0 + 0.01 * (fraction("noise", self.session, self.measured) - 0.5)
        for _ in range(repeats):
            self.now += call() * noise
        return self.now - started


class Interrupting(FakeClock):
    """Ctrl-C at one measurement."""

    def __init__(self, at):
        super().__init__()
        self.at = at

    def measure(self, call, repeats):
        if self.measured == self.at:
            raise KeyboardInterrupt
        return super().measure(call, repeats)


class SleepingClock(FakeClock):
    """A fake clock with which real time passes too, so that a kill hits any moment."""

    def measure(self, call, repeats):
        time.sleep(0.001)
        return super().measure(call, repeats)


@dataclass(frozen=True)
class FakeArm:
    """An arm that takes so many seconds by the fake clock; crash: what its check raises."""

    seconds: float
    readings: tuple
    crash: str = ""
    after: tuple = ()

    @property
    def call(self):
        return lambda: self.seconds

    def check(self):
        if self.crash:
            raise RuntimeError(self.crash)
        return self.readings

    def recheck(self):
        return self.after


@dataclass
class FakeBench:
    """Fake arms. wrong: keys of rows or cases whose gate fails; crashing: keys of rows whose check raises."""

    rules: dict
    wrong: set = field(default_factory=set)
    crashing: set = field(default_factory=set)

    def session(self):
        return contextlib.nullcontext()

    def readings(self, key, wanted):
        found = []
        for quantity, rule in wanted.items():
            plain = 0.0 if rule == "exact" else 1e-7 * (1.0 + fraction(key, quantity))
            limit = self.rules[rule].limit(plain)
            error = 2.0 * limit + 1.0 if key in self.wrong else 0.5 * limit
            found.append(Reading(quantity, rule, error, plain, limit))
        return tuple(found)

    def try_gate(self, case):
        readings = self.readings(case.key, GATE_QUANTITIES[case.gate])
        return Outcome(case, "cpu", judge(readings), readings)

    def try_executions(self, choice, clock):
        names = read_executions().names(choice.family, "cpu", compiled=False)
        return [
            ExecutionTrial(name, reason="needs a device that is not here")
            if name == "official"
            else ExecutionTrial(
                name,
                self.readings(f"{choice.key} {name}", family_quantities(choice.phase)),
                tuple(1e-3 * (1.0 + fraction(choice.key, name, n)) for n in range(7)),
            )
            for name in names
        ]

    def prepare(self, row, execution):
        null = row.family == ALPHABET
        seconds = (2e-3 if row.phase == INFERENCE else 9e-3) * (1.0 if null else 1.5 + 20 * fraction(row.family))
        crash = "out of memory" if row.key in self.crashing else ""
        after = {name: rule for name, rule in after_quantities(row).items() if null or name.startswith("family: ")}
        return FakeArm(
            seconds, self.readings(row.key, row_quantities(row, 2)), crash, self.readings(f"after {row.key}", after)
        )


class SilentListener:
    """Is told how far a run is, and says nothing."""

    def begin(self, done, total):
        pass

    def work(self, what):
        pass

    def finish(self, row):
        pass


def fake_cells(plan):
    """The declared candidate of every cell."""
    declared = read_candidates()
    cells = {}
    for design in plan.designs:
        found = {name: declared[design.sizing, design.shape.width, name] for name in (ALPHABET, *plan.families)}
        cells[design.key] = {
            name: {
                "family": name,
                "choice": list(each.choice),
                "width": each.width,
                "parameters": each.parameters,
                "gap": each.parameters / found[ALPHABET].parameters - 1.0,
            }
            for name, each in found.items()
        }
    return cells


STATE = {"load": [0.1, 0.1, 0.1], "governor": None, "frequency": None, "throttled": "0"}


def skip_sync(file):
    """Leave what was written to the operating system, which is enough where nothing cuts the power."""


def run_fake(
    folder, scope="all", *, declarations=None, clock=None, environment=ENVIRONMENT, listener=None, bench=FakeBench,
    sync=skip_sync, **faults,
):  # fmt: skip
    """Run the real ledger on the fake bench, or what is left of it in the folder; returns the declarations."""
    declarations = declarations or read_declarations()
    plan = Plan(scope, declarations)
    manifest = make_manifest("ledger", "cpu", environment, declarations, plan=plan.to_record(), cells=fake_cells(plan))
    with Evidence(folder, manifest, declarations.contents, sync) as evidence:
        made, clock = bench(declarations.tolerances, **faults), clock or FakeClock()
        clock.session = len(evidence.records)  # or a resumed run would measure the same again, as a copy
        Ledger(plan, made, clock, evidence, listener or SilentListener()).run(STATE)
    return declarations


if __name__ == "__main__":  # in a process that is to be killed
    run_fake(Path(os.environ["RUN"]), os.environ["SCOPE"], clock=SleepingClock(), sync=os.fsync)
