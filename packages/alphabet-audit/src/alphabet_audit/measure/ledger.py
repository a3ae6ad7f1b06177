"""The ledger: every planned row timed once, recorded as it happens, and resumed wherever it was interrupted."""

from collections import defaultdict
from datetime import UTC, datetime
from typing import Any, Protocol

from alphabet_audit.declare.cases import Case
from alphabet_audit.declare.designs import ALPHABET, Row
from alphabet_audit.declare.verdicts import CRASHED, GATE_FAILED, PASS, TIMED
from alphabet_audit.errors import AuditError, printable
from alphabet_audit.evidence.canonical import Record
from alphabet_audit.evidence.chain import identity_of
from alphabet_audit.evidence.store import Evidence
from alphabet_audit.judge.evaluate import find_contradictions, read_copies
from alphabet_audit.measure.clock import Clock
from alphabet_audit.measure.timing import Pair, calibrate_repeats, run_groups, warm_up
from alphabet_audit.measure.workbench import Arm, Workbench
from alphabet_audit.protocol.execution_choice import ALPHABET_EXECUTION, ExecutionChoice, choose_fastest
from alphabet_audit.protocol.orders import seed_of
from alphabet_audit.protocol.plan import Plan
from alphabet_audit.protocol.ratios import summarize
from alphabet_audit.protocol.readings import judge
from alphabet_audit.protocol.repeats import count_repeats

ERROR_LENGTH = 300


class ProgressListener(Protocol):
    """Is told how far a run is: what earlier sessions did, what is going on, and each row as it is finished."""

    def begin(self, done: list[Record], total: int) -> None: ...

    def work(self, what: str) -> None: ...

    def finish(self, row: Record) -> None: ...


class Ledger:
    """One run of the ledger. Its state is its evidence: what has a record is done, and nothing else is."""

    def __init__(
        self, plan: Plan, bench: Workbench, clock: Clock, evidence: Evidence, listener: ProgressListener
    ) -> None:
        self.plan = plan
        self.bench = bench
        self.clock = clock
        self.evidence = evidence
        self.listener = listener
        self._alphabet_arms: dict[str, Arm] = {}
        self._records: dict[tuple[str, str | None], list[Record]] = defaultdict(list)
        for record in evidence.records:
            self._records[record["kind"], record.get("key")].append(record)

    def run(self, state: Record) -> None:
        """Do what is left to do, and leave a finished run as it is. state: the device's clocks, load and the like."""
        self._require_own_records()
        if not self.evidence.records:
            self.evidence.append("begin", manifest=identity_of(self.evidence.manifest))
        rows = [*self.plan.null_rows, *self.plan.rows]
        left = [row for row in rows if not self._find("row", row.key)]
        self.listener.begin([record for record in self.evidence.records if record["kind"] == "row"], len(rows))
        if not left and self.evidence.manifest["finished"]:
            return
        self.evidence.append("session", state=state, clock=self.clock.name, begun=self._now())
        with self.bench.session():
            for case in self.plan.cases:
                self._try_gate(case)
            for choice in self.plan.choices:
                self._choose_execution(choice)
            for row in sorted(left, key=self._rank):
                self._run_row(row)
        self.evidence.seal(finished=True)

    def _require_own_records(self) -> None:
        """Raise if the records of earlier sessions contradict each other: a run that was forged is not sealed again."""
        evidence = self.evidence
        if not evidence.records:
            return
        found = find_contradictions(
            evidence.manifest, evidence.records, read_copies(evidence.folder), self.plan.declarations
        )
        for reason in found:
            raise AuditError(f"{evidence.folder} is not resumed, because {reason}; choose another --out")

    def _now(self) -> str:
        """This moment, or the one when the last session began if the system's clock was set back since."""
        known = [str(record["begun"]) for record in self.evidence.records if record["kind"] == "session"]
        return max(str(self.evidence.manifest["created"]), *known, datetime.now(UTC).isoformat(timespec="seconds"))

    def _rank(self, row: Row) -> tuple[int, int]:
        """Design by design, ALPHABET against itself first, so that its arms are made once per design."""
        families = (ALPHABET, *self.plan.families)
        return self.plan.designs.index(row.design), families.index(row.family)

    def _find(self, kind: str, key: str) -> list[Record]:
        return self._records[kind, key]

    def _record(self, kind: str, key: str, **fields: Any) -> Record:
        record = self.evidence.append(kind, key=key, **fields)
        self._records[kind, key].append(record)
        return record

    def _try_gate(self, case: Case) -> None:
        if not self._find("parity", case.key):
            self.listener.work(f"gate {case.key}")
            self._record("parity", **self.bench.try_gate(case).to_record())

    def _choose_execution(self, choice: ExecutionChoice) -> None:
        if not self._find("choice", choice.key):
            self.listener.work(f"choosing an execution: {choice.key}")
            trials = self.bench.try_executions(choice, self.clock)
            records = [trial.to_record() for trial in trials]
            self._record("choice", choice.key, candidates=records, chosen=choose_fastest(trials))

    def _execution(self, row: Row) -> str | None:
        if row.family == ALPHABET:
            return ALPHABET_EXECUTION
        choice = ExecutionChoice(row.design.sizing, row.family, row.phase)
        chosen: str | None = self._find("choice", choice.key)[0]["chosen"]
        return chosen

    def _run_row(self, row: Row) -> None:
        """Time a row, or record why it has no timings; only evidence that cannot be written ends the run."""
        self.listener.work(row.key)
        try:
            result = self._time_row(row)
        except AuditError:
            raise
        except Exception as error:
            result = {"status": CRASHED, "error": printable(f"{type(error).__name__}: {error}", ERROR_LENGTH)}
        record = self._record("row", row.key, design=row.design.key, opponent=row.family, phase=row.phase, **result)
        self.evidence.seal(finished=False)
        self.listener.finish(record)

    def _time_row(self, row: Row) -> Record:
        execution = self._execution(row)
        if execution is None:
            return {"status": GATE_FAILED, "error": f"no execution of {row.family} agrees with its reference"}
        alphabet = self._prepare(Row(row.design, ALPHABET, row.phase), ALPHABET_EXECUTION)
        other = alphabet if row.family == ALPHABET else self._prepare(row, execution)
        for family, arm in ((ALPHABET, alphabet), (row.family, other)):
            if not self._passes(Row(row.design, family, row.phase), arm):
                return {"status": GATE_FAILED, "error": f"{family} disagrees with its reference at this shape"}
        pair = self._pair(row, execution, alphabet, other)
        done = self._find("group", row.key)
        for number, order, seconds in run_groups(
            self.clock, pair, seed_of(row.key), self.plan.protocol, first=len(done)
        ):
            self._record("group", row.key, number=number, order=order, seconds=seconds, repeats=pair.repeats)
        if not self._holds_after(row, alphabet, other):
            return {"status": GATE_FAILED, "error": "an arm disagrees with its reference after it was timed"}
        return {"status": TIMED, **summarize(done)}

    def _prepare(self, row: Row, execution: str) -> Arm:
        """The arm of a row; ALPHABET's arms are kept until the next design."""
        if row.family != ALPHABET:
            return self.bench.prepare(row, execution)
        if row.key not in self._alphabet_arms:
            self._alphabet_arms = {
                key: arm for key, arm in self._alphabet_arms.items() if key.startswith(row.design.key)
            }
            self._alphabet_arms[row.key] = self.bench.prepare(row, execution)
        return self._alphabet_arms[row.key]

    def _passes(self, row: Row, arm: Arm) -> bool:
        found = self._find("gate", row.key)
        if not found:
            readings = arm.check()
            records = [reading.to_record() for reading in readings]
            self._record("gate", row.key, readings=records, verdict=judge(readings))
        return bool(found[0]["verdict"] == PASS)

    def _holds_after(self, row: Row, alphabet: Arm, other: Arm) -> bool:
        """Whether the arms that were timed still agree with their references, which is recorded."""
        found = self._find("after", row.key)
        if not found:
            readings = [*alphabet.recheck(), *(() if row.family == ALPHABET else other.recheck())]
            records = [reading.to_record() for reading in readings]
            self._record("after", row.key, readings=records, verdict=judge(readings))
        return bool(found[0]["verdict"] == PASS)

    def _pair(self, row: Row, execution: str, alphabet: Arm, other: Arm) -> Pair:
        """Both arms warm, with the repeats that were calibrated when the row was begun."""
        calls = {"A": alphabet.call, "B": other.call}
        started = self._find("start", row.key)
        if started:
            pair = Pair(calls, started[0]["repeats"])
            self._record("resume", row.key, warmups=warm_up(self.clock, pair, self.plan.protocol))
            return pair
        target = self.plan.protocol.target_seconds
        samples = {name: calibrate_repeats(self.clock, call, target) for name, call in calls.items()}
        pair = Pair(calls, {name: count_repeats(taken, target) for name, taken in samples.items()})
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
