"""The ledger: every planned row timed once, recorded as it happens, and resumed wherever it was interrupted."""

from collections import defaultdict
from typing import Any, Protocol

from alphabet_audit.cases import Case
from alphabet_audit.choosing import FUSED, Choosing, choose_fastest
from alphabet_audit.clock import Clock
from alphabet_audit.designs import NULL, Row
from alphabet_audit.errors import AuditError
from alphabet_audit.evidence import Evidence, Record, identity_of
from alphabet_audit.orders import seed_of
from alphabet_audit.plan import Plan
from alphabet_audit.ratios import summarize
from alphabet_audit.timing import Pair, calibrate_repeats, count_repeats, run_groups, warm_up
from alphabet_audit.tolerances import PASS, judge
from alphabet_audit.workbench import Contestant, Workbench

TIMED, GATE_FAILED, CRASHED = "timed", "gate-failed", "crashed"


class Watch(Protocol):
    """Who is told how far a run is."""

    def begin(self, done: list[Record], total: int) -> None: ...

    def work(self, what: str) -> None: ...

    def finish(self, row: Record) -> None: ...


class Ledger:
    """One run. Its state is its evidence: whatever has a record is done, and nothing else is."""

    def __init__(self, plan: Plan, bench: Workbench, clock: Clock, evidence: Evidence, watch: Watch) -> None:
        self.plan = plan
        self.bench = bench
        self.clock = clock
        self.evidence = evidence
        self.watch = watch
        self._alphabet: dict[str, Contestant] = {}
        self._known: dict[tuple[str, str | None], list[Record]] = defaultdict(list)
        for record in evidence.records:
            self._known[record["kind"], record.get("key")].append(record)

    def run(self, state: Record) -> None:
        """Do what is left; `state` describes the device now. A finished run is left as it is."""
        if not self.evidence.records:
            self.evidence.append("begin", manifest=identity_of(self.evidence.manifest))
        rows = [*self.plan.null_rows, *self.plan.rows]
        left = [row for row in rows if not self._find("row", row.key)]
        self.watch.begin([record for record in self.evidence.records if record["kind"] == "row"], len(rows))
        if not left and self.evidence.manifest["finished"]:
            return
        self.evidence.append("session", state=state, clock=self.clock.name)
        with self.bench.session():
            for case in self.plan.cases:
                self._try_gate(case)
            for choosing in self.plan.choosings:
                self._choose(choosing)
            for row in sorted(left, key=self._place):
                self._run_row(row)
        self.evidence.seal(finished=True)

    def _place(self, row: Row) -> tuple[int, int]:
        """Design by design, ALPHABET against itself first, so that its arms are made once."""
        opponents = (NULL, *self.plan.families)
        return self.plan.designs.index(row.design), opponents.index(row.opponent)

    def _find(self, kind: str, key: str) -> list[Record]:
        return self._known[kind, key]

    def _record(self, kind: str, key: str, **fields: Any) -> Record:
        record = self.evidence.append(kind, key=key, **fields)
        self._known[kind, key].append(record)
        return record

    def _try_gate(self, case: Case) -> None:
        if not self._find("parity", case.key):
            self.watch.work(f"gate {case.key}")
            self._record("parity", **self.bench.try_gate(case).to_record())

    def _choose(self, choosing: Choosing) -> None:
        if not self._find("choice", choosing.key):
            self.watch.work(f"choosing an execution: {choosing.key}")
            candidates = self.bench.try_candidates(choosing, self.clock)
            records = [candidate.to_record() for candidate in candidates]
            self._record("choice", choosing.key, candidates=records, chosen=choose_fastest(candidates))

    def _execution(self, row: Row) -> str | None:
        if row.opponent == NULL:
            return FUSED
        choosing = Choosing(row.design.control, row.opponent, row.phase)
        chosen: str | None = self._find("choice", choosing.key)[0]["chosen"]
        return chosen

    def _run_row(self, row: Row) -> None:
        """Time a row, or record why it has no timings; only evidence that cannot be written ends the run."""
        self.watch.work(row.key)
        try:
            result = self._time_row(row)
        except AuditError:
            raise
        except Exception as error:
            result = {"status": CRASHED, "error": f"{type(error).__name__}: {error}"}
        record = self._record("row", row.key, design=row.design.key, opponent=row.opponent, phase=row.phase, **result)
        self.evidence.seal(finished=False)
        self.watch.finish(record)

    def _time_row(self, row: Row) -> Record:
        execution = self._execution(row)
        if execution is None:
            return {"status": GATE_FAILED, "error": f"no execution of {row.opponent} agrees with its reference"}
        alphabet = self._contestant(Row(row.design, NULL, row.phase), FUSED)
        other = alphabet if row.opponent == NULL else self._contestant(row, execution)
        for name, contestant in ((NULL, alphabet), (row.opponent, other)):
            if not self._passes(Row(row.design, name, row.phase), contestant):
                return {"status": GATE_FAILED, "error": f"{name} disagrees with its reference at this shape"}
        pair = self._pair(row, execution, alphabet, other)
        done = self._find("group", row.key)
        for number, order, seconds in run_groups(
            self.clock, pair, seed_of(row.key), self.plan.protocol, first=len(done)
        ):
            self._record("group", row.key, number=number, order=order, seconds=seconds, repeats=pair.repeats)
        return {"status": TIMED, **summarize(done)}

    def _contestant(self, row: Row, execution: str) -> Contestant:
        """ALPHABET's are kept while their design lasts."""
        if row.opponent != NULL:
            return self.bench.prepare(row, execution)
        if row.key not in self._alphabet:
            self._alphabet = {
                key: contestant for key, contestant in self._alphabet.items() if key.startswith(row.design.key)
            }
            self._alphabet[row.key] = self.bench.prepare(row, execution)
        return self._alphabet[row.key]

    def _passes(self, row: Row, contestant: Contestant) -> bool:
        found = self._find("gate", row.key)
        if not found:
            readings = contestant.check()
            records = [reading.to_record() for reading in readings]
            self._record("gate", row.key, readings=records, verdict=judge(readings))
        return bool(found[0]["verdict"] == PASS)

    def _pair(self, row: Row, execution: str, alphabet: Contestant, other: Contestant) -> Pair:
        """Both arms warm, with the repeats that were calibrated when the row was begun."""
        arms = {"A": alphabet.arm, "B": other.arm}
        started = self._find("start", row.key)
        if started:
            pair = Pair(arms, started[0]["repeats"])
            self._record("resume", row.key, warmups=warm_up(self.clock, pair, self.plan.protocol))
            return pair
        target = self.plan.protocol.target_seconds
        samples = {name: calibrate_repeats(self.clock, arm, target) for name, arm in arms.items()}
        pair = Pair(arms, {name: count_repeats(taken, target) for name, taken in samples.items()})
        self._record(
            "start",
            row.key,
            execution=execution,
            seed=seed_of(row.key),
            calibration=samples,
            repeats=pair.repeats,
            warmups=warm_up(self.clock, pair, self.plan.protocol),
        )
        return pair
