"""What the evaluator checks in a ledger's records: one function per question, which yields reasons against the run."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from alphabet_audit.declare.cases import LEDGER_RUNTIMES
from alphabet_audit.declare.designs import ALL, ALL_CELLS, ALL_GROUPS, ALL_ROWS, ALPHABET, MATCHED, Row
from alphabet_audit.declare.quantities import GATE_QUANTITIES, family_quantities
from alphabet_audit.declare.tolerances import Tolerances
from alphabet_audit.declare.verdicts import PASS, TIMED
from alphabet_audit.evidence.canonical import Record
from alphabet_audit.protocol.execution_choice import ALPHABET_EXECUTION, choose_fastest, read_trial
from alphabet_audit.protocol.orders import abba_orders, is_balanced, seed_of
from alphabet_audit.protocol.plan import PHASE_GATES, Plan
from alphabet_audit.protocol.ratios import summarize
from alphabet_audit.protocol.readings import read_reading
from alphabet_audit.protocol.repeats import count_repeats

Reasons = Iterator[str]
# The paper's largest gap of parameter counts.
LARGEST_GAP = 0.053
# This share of the null rows must have 1.0 inside the interval of their ratios.
NULL_SHARE = 0.95
CLOCKS = {"cpu": "monotonic", "cuda": "cuda-events"}


@dataclass(frozen=True)
class Run:
    """A ledger's evidence, which is well formed, and the plan that it should follow."""

    manifest: Record
    records: list[Record]
    plan: Plan

    @property
    def rules(self) -> Tolerances:
        """The tolerances by name."""
        return self.plan.declarations.tolerances

    @cached_property
    def planned(self) -> dict[str, Row]:
        """The rows of the plan by key, null rows included."""
        return {row.key: row for row in (*self.plan.null_rows, *self.plan.rows)}

    @cached_property
    def _by_kind(self) -> dict[str, list[Record]]:
        return collect(self.records, "kind")

    @cached_property
    def _by_kind_and_key(self) -> dict[str, dict[str, list[Record]]]:
        return {kind: collect(found, "key") for kind, found in self._by_kind.items() if "key" in found[0]}

    def of(self, kind: str) -> list[Record]:
        """The records of a kind, in order."""
        return self._by_kind.get(kind, [])

    def by_key(self, kind: str) -> dict[str, list[Record]]:
        """The records of a kind by their keys, each in order."""
        return self._by_kind_and_key.get(kind, {})


def collect(records: list[Record], name: str) -> dict[str, list[Record]]:
    """Records by what they hold in the field of that name."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record[name], []).append(record)
    return found


def check_completeness(run: Run) -> Reasons:
    """Every planned record is there once, and no other; yields what is missing or too many."""
    plan, rows = run.plan, list(run.planned)
    wanted = {
        "parity": [case.key for case in plan.cases],
        "choice": [choice.key for choice in plan.choices],
        "gate": rows,
        "start": rows,
        "row": rows,
        "group": rows * plan.protocol.groups,
    }
    for kind, keys in wanted.items():
        found = Counter(record["key"] for record in run.of(kind))
        for key, count in (Counter(keys) - found).items():
            yield f"{kind} {key}: {count} missing"
        for key, count in (found - Counter(keys)).items():
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
                yield f"{found} {name}; the ledger has {wanted}"


def check_sequence(run: Run) -> Reasons:
    """A run begins once, its groups are warm and in order, and nothing follows a closed row; yields what is not so.

    Rows start warm in the session that times them; after an interruption a row goes on only behind new warm-ups.
    """
    warm, started, closed, numbers = None, set(), set(), Counter[str]()
    for record in run.records:
        kind, key, where = record["kind"], record.get("key"), f"record {record['index']}"
        if (kind == "begin") != (record["index"] == 0):
            yield f"{where}: a run must begin once, with its first record"
        if kind in ("session", "row"):
            warm = None
        if kind in ("start", "resume", "group", "row", "gate") and key in closed:
            yield f"{where}: {kind} of {key} after its row was closed"
        if kind in ("start", "resume"):
            if (key in started) != (kind == "resume"):
                yield f"{where}: {key} must start once, and can be resumed only then"
            warm = key
            started.add(key)
        if kind == "group":
            if warm != key:
                yield f"{where}: group of {key} without warm-ups before it"
            if record["number"] != numbers[str(key)]:
                yield f"{where}: group {record['number']} of {key} is in the place of group {numbers[str(key)]}"
            numbers[str(key)] += 1
        if kind == "row":
            closed.add(key)


def check_sessions(run: Run) -> Reasons:
    """Every session measured with the clock of the run's device; yields those that did not."""
    clock = CLOCKS[run.manifest["device"]]
    sessions = run.of("session")
    if not sessions or run.records[1]["kind"] != "session":
        yield "no session is recorded before the first measurement"
    for record in sessions:
        if record["clock"] != clock:
            yield f"record {record['index']}: measured with the clock {record['clock']}; this device's is {clock}"


def check_orders(run: Run) -> Reasons:
    """Orders are balanced and follow from the row's seed, repeats follow from its calibration; yields what does not."""
    starts, protocol = run.by_key("start"), run.plan.protocol
    for key, groups in run.by_key("group").items():
        orders = tuple(group["order"] for group in groups)
        if not is_balanced(orders):
            yield f"{key}: orders are not balanced: {' '.join(orders)}"
        if orders != abba_orders(protocol.groups, seed_of(key)):
            yield f"{key}: orders are not those of its seed: {' '.join(orders)}"
        for start in starts.get(key, [])[:1]:
            if any(group["repeats"] != start["repeats"] for group in groups):
                yield f"{key}: a group's repeats are not those that were calibrated"
    for key, (start, *_) in starts.items():
        if start["seed"] != seed_of(key):
            yield f"{key}: seed {start['seed']} is not the row's, which is {seed_of(key)}"
        for arm, taken in start["calibration"].items():
            samples = [(int(repeats), float(seconds)) for repeats, seconds in taken]
            if start["repeats"][arm] != count_repeats(samples, protocol.target_seconds):
                yield f"{key}: {start['repeats'][arm]} repeats of {arm} do not follow from its calibration"


def check_rows(run: Run) -> Reasons:
    """Every row is timed, is the row it says, and has the numbers that its raw samples give; yields what is not so."""
    groups = run.by_key("group")
    for record in run.of("row"):
        key = record["key"]
        if record["status"] != TIMED:
            yield f"{key}: {record['status']}: {record.get('error', '')}"
            continue
        row = run.planned.get(key)
        if row and (record["design"], record["opponent"], record["phase"]) != (
            row.design.key, row.family, row.phase,
        ):  # fmt: skip
            yield f"{key}: is recorded as the row {record['design']} {record['opponent']} {record['phase']}"
        for name, value in summarize(groups[key]).items() if key in groups else ():
            if record[name] != value:
                yield f"{key}: {name} is recorded as {record[name]}; the raw samples give {value}"


def check_executions(run: Run) -> Reasons:
    """The execution that was timed is the fastest exact one by the samples of its trial; yields those that are not."""
    chosen = {}
    for record in run.of("choice"):
        key, wanted = record["key"], family_quantities(record["key"].rpartition(" ")[2])
        for each in record["candidates"]:
            if each["readings"]:
                yield from check_readings(f"{key}, {each['name']}", each["readings"], wanted, run.rules)
        trials = list(map(read_trial, record["candidates"]))
        if len({trial.name for trial in trials}) != len(trials):
            yield f"{key}: an execution is listed twice"
        chosen[key] = choose_fastest(trials)
        if chosen[key] is None:
            yield f"{key}: no execution agrees with its reference"
        if record["chosen"] != chosen[key]:
            yield f"{key}: chose {record['chosen']}; the samples give {chosen[key]}"
    starts = run.by_key("start")
    for row in run.planned.values():
        null = row.family == ALPHABET
        wanted_name = ALPHABET_EXECUTION if null else chosen.get(f"{row.design.sizing} {row.family} {row.phase}")
        for start in starts.get(row.key, []):
            if start["execution"] != wanted_name:
                yield f"{row.key}: timed as {start['execution']}; the chosen execution is {wanted_name}"


def check_parity(run: Run) -> Reasons:
    """Every parity gate was tried on the timed runtime, read all that it must, and passed; yields what is not so."""
    cases = {case.key: case for case in run.plan.cases}
    for record in run.of("parity"):
        key, case = record["key"], cases.get(record["key"])
        if record["runtime"] != LEDGER_RUNTIMES[run.manifest["device"]]:
            yield f"gate {key}: tried on {record['runtime']}, which is not the runtime that is timed"
        if case is None or record["case"] != case.to_record():
            yield f"gate {key}: is not the case that was declared"
            continue
        yield from check_verdict(f"gate {key}", record, GATE_QUANTITIES[case.gate], run.rules)


def check_gates(run: Run) -> Reasons:
    """Every arm agreed with its reference at its own shape before it was timed; yields those that did not."""
    starts = {key: found[0]["index"] for key, found in run.by_key("start").items()}
    for record in run.of("gate"):
        row = run.planned.get(record["key"])
        if row is None:
            continue  # one too many, which `check_completeness` reports
        null = row.family == ALPHABET
        wanted = GATE_QUANTITIES[PHASE_GATES[row.phase]] if null else family_quantities(row.phase)
        yield from check_verdict(f"gate of {row.key}", record, wanted, run.rules)
        if record["index"] > starts.get(row.key, math.inf):
            yield f"gate of {row.key}: tried after timing had begun"


def check_verdict(where: str, record: Record, wanted: Mapping[str, str], rules: Tolerances) -> Reasons:
    """The verdict is pass, and all wanted readings bear it out; yields what is not so."""
    readings = list(map(read_reading, record["readings"]))
    worst = max(readings, key=lambda reading: reading.limit_share, default=None)
    if record["verdict"] != PASS or worst is None or not all(reading.holds for reading in readings):
        why = f", {worst.quantity} {worst.error:.2e} with a limit of {worst.limit:.2e}" if worst else ""
        yield f"{where}: fails, verdict {record['verdict']}{why} {record.get('detail', '')}".rstrip()
        return
    yield from check_readings(where, record["readings"], wanted, rules)


def check_readings(where: str, readings: list[Record], wanted: Mapping[str, str], rules: Tolerances) -> Reasons:
    """Readings are of the wanted quantities, each by its own rule and that rule's limit; yields what is not so."""
    found, expected = Counter(reading["quantity"] for reading in readings), Counter(list(wanted))
    if found != expected:
        odd = [*(found - expected), *(expected - found)]
        yield f"{where}: {len(odd)} readings are missing or too many: {', '.join(odd[:3])}"
    for reading in readings:
        quantity, rule = reading["quantity"], wanted.get(reading["quantity"])
        if rule is None or reading["rule"] != rule or rule not in rules:
            yield f"{where}: {quantity} was judged by {reading['rule']}; its rule is {rule}"
        elif reading["limit"] != (limit := rules[rule].limit(float(reading["plain"]))):
            yield f"{where}: the limit of {quantity} is recorded as {reading['limit']}; its rule gives {limit}"


def check_cells(run: Run) -> Reasons:
    """Every cell's candidate is listed with its size, near ALPHABET's where it was matched; yields what is not so."""
    cells = run.manifest["cells"]
    if set(cells) != {design.key for design in run.plan.designs}:
        yield "the manifest lists parameter counts of other designs than those that were run"
        return
    for design in run.plan.designs:
        entries = cells[design.key]
        if set(entries) != {ALPHABET, *run.plan.families}:
            yield f"{design.key}: parameter counts are not those of the nine families and ALPHABET"
            continue
        target = entries[ALPHABET]["parameters"]
        for family, entry in entries.items():
            if not math.isclose(entry["gap"], entry["parameters"] / target - 1.0, abs_tol=1e-12):
                yield f"{design.key} {family}: a gap of {entry['gap']} does not follow from its parameters"
            if design.sizing == MATCHED and not abs(entry["gap"]) <= LARGEST_GAP:
                yield f"{design.key} {family}: {entry['gap']:+.1%} parameters; matched means within {LARGEST_GAP:.1%}"


def check_noise(run: Run) -> Reasons:
    """1.0 lies inside the interval of nearly every row of ALPHABET against itself; yields a reason if it does not."""
    rows = [record for record in run.of("row") if record["opponent"] == ALPHABET and record["status"] == TIMED]
    off = [record["key"] for record in rows if not record["interval"][0] <= 1.0 <= record["interval"][1]]
    if len(rows) - len(off) < NULL_SHARE * len(rows):
        yield f"noise: ALPHABET differs from itself in {len(off)} of {len(rows)} null rows: {'; '.join(off)}"


LEDGER_CHECKS = (
    check_completeness,
    check_totals,
    check_sequence,
    check_sessions,
    check_orders,
    check_rows,
    check_executions,
    check_parity,
    check_gates,
    check_cells,
    check_noise,
)
