"""Whether a ledger's records are those of its plan, in the order in which a run writes them."""

from collections import Counter

from alphabet_audit.declare.designs import ALL, ALL_CELLS, ALL_GROUPS, ALL_ROWS, ALPHABET
from alphabet_audit.declare.verdicts import TIMED
from alphabet_audit.evidence.canonical import Record
from alphabet_audit.judge.manifest import is_time
from alphabet_audit.judge.run import Failure, Reasons, Run

CLOCKS = {"cpu": "monotonic", "cuda": "cuda-events"}
STATES = {"cpu": "load", "cuda": "gpu"}


def check_completeness(run: Run) -> Reasons:
    """Every planned record is there once, and no other; yields what is missing or too many."""
    wanted = Counter((kind, key) for kind, key, _ in run.plan.steps)
    found = Counter((record["kind"], record["key"]) for record in run.records if "key" in record)
    failed = {key for key, rows in run.by_key("row").items() if rows[0]["status"] != TIMED}
    for (kind, key), count in (wanted - found).items():
        reason = f"{kind} {key}: {count} missing"
        yield Failure(reason) if key in failed and kind != "row" else reason
    for (kind, key), count in (found - wanted).items():
        if kind != "resume":
            yield f"{kind} {key}: {count} too many"


def check_totals(run: Run) -> Reasons:
    """A whole ledger has 90 cells, 180 rows and 1,260 groups, whatever the designs say; yields wrong counts."""
    rows = [record for record in run.of("row") if record["opponent"] != ALPHABET]
    nulls = {row.key for row in run.plan.null_rows}
    cells = {(record["design"], record["opponent"]) for record in rows}
    groups = [record for record in run.of("group") if record["key"] not in nulls]
    if run.plan.scope == ALL:
        for name, found, wanted in (
            ("cells", len(cells), ALL_CELLS), ("rows", len(rows), ALL_ROWS), ("groups", len(groups), ALL_GROUPS)
        ):  # fmt: skip
            if found != wanted:
                yield Failure(f"{found} {name}; the ledger has {wanted}")


def check_order(run: Run, *, whole: bool = True) -> Reasons:
    """Records follow the plan step by step; yields the first that does not, behind which nothing can be said.

    A session may begin anywhere. The row that it interrupted then goes on with warm-ups of its own, a `resume`. A row
    that fails ends early. whole: whether the plan must be followed to its end.
    """
    steps, place = run.plan.steps, 0
    open_row: str | None = None  # started and not closed
    cold = False  # a session has begun since the open row was last warm
    for record in run.records[1:]:
        kind, key = record["kind"], record.get("key")
        due, wanted, end = steps[place] if place < len(steps) else ("nothing", "", place)
        if kind == "session":
            cold = True
        elif kind == "resume":
            if key != open_row or not cold:
                yield f"record {record['index']}: resume of {key} without a session that interrupted it"
                return
            cold = False
        elif (kind, key) == (due, wanted):
            if cold and open_row is not None and not is_failed(record):
                yield f"record {record['index']}: {kind} of {key} without warm-ups after a new session"
                return
            place += 1
            if kind in ("start", "row"):
                open_row, cold = (key, False) if kind == "start" else (None, cold)
        elif is_failed(record) and key == wanted:
            place, open_row = end, None
        elif not is_late_gate(run, record, wanted):
            yield f"record {record['index']}: {kind} of {key} in the place of {due} {wanted}".rstrip()
            return
    if whole and place < len(steps):
        yield "the records end before {} {}".format(*steps[place])


def is_failed(record: Record) -> bool:
    """Whether a record closes a row that has no timings."""
    return bool(record["kind"] == "row" and record["status"] != TIMED)


def is_late_gate(run: Run, record: Record, wanted: str) -> bool:
    """Whether a record is ALPHABET's gate in the first row of its design that reached it, after its own row crashed."""
    row, null = run.planned.get(wanted), run.planned.get(str(record.get("key")))
    if record["kind"] != "gate" or row is None or null is None or null.family != ALPHABET:
        return False
    closed = run.by_key("row").get(null.key, [])
    return bool(
        (null.design, null.phase) == (row.design, row.phase)
        and closed
        and is_failed(closed[0])
        and closed[0]["index"] < record["index"]
    )


def check_sessions(run: Run) -> Reasons:
    """Every session measured with the clock of the run's device and read its state; yields those that did not."""
    clock, state = CLOCKS[run.device], STATES[run.device]
    sessions = run.of("session")
    if len(run.records) < 2 or run.records[1]["kind"] != "session":
        yield "no session is recorded before the first measurement"
    before = str(run.manifest["created"])
    for record in sessions:
        begun = str(record.get("begun", before))
        if record["clock"] != clock:
            yield f"record {record['index']}: measured with the clock {record['clock']}; this device's is {clock}"
        if state not in record["state"]:
            yield f"record {record['index']}: the state of the session is not that of this device, which has {state}"
        if not is_time(begun):
            yield f"record {record['index']}: the session began at {begun}, which is no time"
        if begun < before:
            yield f"record {record['index']}: the session began at {begun}, before {before}"
        before = begun
