"""Remarks: what is possible in an honest run but worth a look, with its numbers; none is a reason against a run."""

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from alphabet_audit.declare.executions import read_executions
from alphabet_audit.evidence.canonical import Record
from alphabet_audit.judge.run import Run
from alphabet_audit.protocol.ratios import seconds_per_call

# The factors from which on each is remarked. They were set after the first ledger had been seen, so that it has some
# forty remarks and not 150: they say what is unusual for that machine, and nothing is judged by them.
CALIBRATION_FACTOR, DRIFT_FACTOR, WIDE_FACTOR = 3.0, 2.5, 4.0
MANY_SESSIONS, MANY_RESUMES = 5, 2
ARMS = {"A": "ALPHABET", "B": "the family"}
EXACT = "exact"  # the rule of counts, whose error is zero
GATES = {"parity": "this gate", "gate": "its gate", "after": "its gate after the groups"}
NOT_THROTTLED = ("0x0000000000000000", "0x0000000000000001", "Not Active")  # the second bit says that a GPU is idle


@dataclass(frozen=True)
class Remark:
    """What is worth a look. place: a row's key, or "run"; weight: from one on, how far beyond what is usual it is."""

    place: str
    text: str
    weight: float = 1.0

    def describe(self) -> str:
        """The remark in one line."""
        return f"{self.place}: {self.text}"


def find_remarks(run: Run) -> Iterator[Remark]:
    """All remarks on a run, row by row and then on the whole."""
    groups, starts, resumes = run.by_key("group"), run.by_key("start"), run.by_key("resume")
    for record in run.of("row"):
        key = record["key"]
        if "ratio" in record and key in starts and key in groups:
            found = remark_row(record, starts[key][0], groups[key], len(resumes.get(key, [])))
            yield from (Remark(key, text, weight) for text, weight in found)
    yield from remark_alphabet(run)
    yield from remark_gates(run)
    yield from (Remark("run", text) for text in (*remark_sessions(run), *remark_times(run)))


def remark_alphabet(run: Run) -> Iterator[Remark]:
    """ALPHABET's time in a row beside its times in the other rows of that design and phase, which are the same arm."""
    times: dict[tuple[str, str], dict[str, float]] = {}
    for row in run.of("row"):
        if "ratio" in row:
            times.setdefault((row["design"], row["phase"]), {})[row["key"]] = row["seconds"]["A"]
    for taken in times.values():
        usual = statistics.median(taken.values())
        for key, seconds in taken.items():
            if (weight := weigh(seconds / usual, CALIBRATION_FACTOR)) > 1.0:
                text = f"ALPHABET took {seconds / usual:.2g} times as long as it usually did in this design and phase"
                yield Remark(key, text, weight)


def remark_gates(run: Run) -> Iterator[Remark]:
    """Executions that were left out although the device could have them, and gates that read no error at all."""
    for record in run.of("choice"):
        for trial in record["candidates"]:
            algorithm = trial["name"].partition(", ")[0]
            if trial["reason"] and (run.device == "cuda" or algorithm not in read_executions().needs_cuda):
                yield Remark(record["key"], f"{trial['name']} was not timed: {trial['reason']}")
    for record in (*run.of("parity"), *run.of("gate"), *run.of("after")):
        inexact = [reading for reading in record["readings"] if reading["rule"] != EXACT]
        if inexact and all(reading["error"] == 0 for reading in inexact):
            yield Remark(record["key"], f"all {len(inexact)} errors that {GATES[record['kind']]} read are exactly zero")


def remark_row(row: Record, start: Record, groups: list[Record], resumes: int) -> Iterator[tuple[str, float]]:
    """What is worth a look in one timed row, each with its weight."""
    for arm, name in ARMS.items():
        calibrated = min(seconds / repeats for repeats, seconds in start["calibration"][arm])
        taken = [seconds_per_call(group, arm) for group in groups]
        factor = statistics.median(taken) / calibrated
        if (weight := weigh(factor, CALIBRATION_FACTOR)) > 1.0:
            yield f"groups of {name} took {factor:.2g} times their calibration", weight
        third = max(1, len(taken) // 3)
        drift = statistics.fmean(taken[-third:]) / statistics.fmean(taken[:third])
        if (weight := weigh(drift, DRIFT_FACTOR)) > 1.0:
            yield f"the last groups of {name} took {drift:.2f} times as long as its first", weight
    low, high = row["interval"]
    if (weight := weigh(high / low, WIDE_FACTOR)) > 1.0:
        yield f"its seven ratios lie between {low:.2f} and {high:.2f}", weight
    if resumes > MANY_RESUMES:
        yield f"was resumed {resumes} times", resumes / MANY_RESUMES


def weigh(factor: float, usual: float) -> float:
    """How far a factor is beyond the usual one, either way: one at the usual factor, two at its square."""
    return abs(math.log(factor)) / math.log(usual)


def remark_sessions(run: Run) -> Iterator[str]:
    """What is worth a look in the sessions of a run, and in the state of the device when they began."""
    sessions = run.of("session")
    if len(sessions) > MANY_SESSIONS:
        yield f"{len(sessions)} sessions, {len(run.of('resume'))} rows resumed"
    cores = run.manifest["environment"]["threads"]["usable"]
    for number, record in enumerate(sessions, start=1):
        state = record["state"]
        load = state.get("load")
        if load and load[0] > cores:
            yield f"session {number} began at a load of {load[0]} on {cores} cores"
        active = (state.get("gpu") or {}).get("clocks_throttle_reasons.active", NOT_THROTTLED[0])
        if active not in NOT_THROTTLED:
            yield f"session {number} began on a GPU that throttled: {active}"
    counts = [count for record in sessions if (count := read_throttling(record)) is not None]
    if counts and counts[-1] > counts[0]:
        yield f"the processor throttled {counts[-1] - counts[0]} times between the first session and the last"


def remark_times(run: Run) -> Iterator[str]:
    """What does not fit the times at which the run and its sessions began, by the clock of the machine that ran it."""
    created = datetime.fromisoformat(run.manifest["created"])
    if created > datetime.now(UTC):
        yield f"begun at {run.manifest['created']}, which is in the future by this machine's clock"
    measured, begun = 0.0, created
    for record in run.records:
        if record["kind"] == "session" and "begun" in record:
            now = datetime.fromisoformat(record["begun"])
            passed = (now - begun).total_seconds()
            if measured > passed + 1.0:
                yield f"{measured:.0f} s of blocks in the {passed:.0f} s before the session of record {record['index']}"
            measured, begun = 0.0, now
        elif record["kind"] == "group":
            measured += sum(record["seconds"])


def read_throttling(session: Record) -> int | None:
    """How often the processor had throttled when a session began, or None where it could not be read."""
    text = session["state"].get("throttled")
    return int(text) if text and text.isdecimal() else None
