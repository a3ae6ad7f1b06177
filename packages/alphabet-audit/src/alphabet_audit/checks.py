"""What the evaluator asks of a ledger's records, one function per question; each yields reasons why not."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from alphabet_audit.choosing import FUSED, Candidate, choose_fastest
from alphabet_audit.designs import ALL_CELLS, ALL_GROUPS, ALL_ROWS, MATCHED, NULL, Row
from alphabet_audit.evidence import Record
from alphabet_audit.ledger import TIMED
from alphabet_audit.orders import abba_orders, is_balanced, seed_of
from alphabet_audit.plan import ALL, PHASE_GATES, Plan
from alphabet_audit.quantities import GATE_QUANTITIES, family_quantities
from alphabet_audit.ratios import summarize
from alphabet_audit.timing import count_repeats
from alphabet_audit.tolerances import PASS, Tolerances, read_reading

Reasons = Iterator[str]
# The paper's largest gap of parameter counts.
LARGEST_GAP = 0.053
# Of the null rows, this share must have one inside the interval of their ratios.
NULL_SHARE = 0.95
RUNTIMES = {"cpu": "cpu", "cuda": "triton"}


@dataclass(frozen=True)
class Run:
    """A ledger's evidence, well formed, and what it was to do."""

    manifest: Record
    records: list[Record]
    plan: Plan

    @property
    def rules(self) -> Tolerances:
        return self.plan.declarations.tolerances

    def of(self, kind: str) -> list[Record]:
        return [record for record in self.records if record["kind"] == kind]

    def by_key(self, kind: str) -> dict[str, list[Record]]:
        found: dict[str, list[Record]] = {}
        for record in self.of(kind):
            found.setdefault(record["key"], []).append(record)
        return found


def check_completeness(run: Run) -> Reasons:
    """Every planned record is there once, and no other."""
    plan, rows = run.plan, [row.key for row in (*run.plan.null_rows, *run.plan.rows)]
    wanted = {
        "parity": [case.key for case in plan.cases],
        "choice": [choosing.key for choosing in plan.choosings],
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
    """The whole ledger is 90 cells, 180 phase rows and 1,260 groups, whatever the designs' file says."""
    rows = [record for record in run.of("row") if record["opponent"] != NULL]
    nulls = {row.key for row in run.plan.null_rows}
    cells = {(record["design"], record["opponent"]) for record in rows}
    groups = [record for record in run.of("group") if record["key"] not in nulls]
    if run.plan.scope == ALL:
        for name, found, wanted in (
            ("cells", len(cells), ALL_CELLS), ("phase rows", len(rows), ALL_ROWS), ("groups", len(groups), ALL_GROUPS)
        ):  # fmt: skip
            if found != wanted:
                yield f"{found} {name}; the ledger has {wanted}"


def check_sequence(run: Run) -> Reasons:
    """A run begins once; rows start warm in the session that times them; groups are in order; nothing follows a row.

    After an interruption a row goes on only behind warm-ups of its own.
    """
    warm, started, closed, numbers = None, set(), set(), Counter[str]()
    for record in run.records:
        kind, key, where = record["kind"], record.get("key"), f"record {record['index']}"
        if (kind == "begin") != (record["index"] == 0):
            yield f"{where}: a run begins once, with its first record"
        if kind in ("session", "row"):
            warm = None
        if kind in ("start", "resume", "group", "row", "gate") and key in closed:
            yield f"{where}: {kind} of {key} after its row was closed"
        if kind in ("start", "resume"):
            if (key in started) != (kind == "resume"):
                yield f"{where}: {key} must start once and can only then be resumed"
            warm = key
            started.add(key)
        if kind == "group":
            if warm != key:
                yield f"{where}: group of {key} without warm-ups before it"
            if record["number"] != numbers[str(key)]:
                yield f"{where}: group {record['number']} of {key} where {numbers[str(key)]} was due"
            numbers[str(key)] += 1
        if kind == "row":
            closed.add(key)


def check_sessions(run: Run) -> Reasons:
    """Every session measured with the clock of the run's device."""
    clock = {"cpu": "monotonic", "cuda": "cuda-events"}[run.manifest["device"]]
    sessions = run.of("session")
    if not sessions or run.records[1]["kind"] != "session":
        yield "no session is recorded before the first measurement"
    for record in sessions:
        if record["clock"] != clock:
            yield f"record {record['index']}: measured with {record['clock']}; here it must be {clock}"


def check_orders(run: Run) -> Reasons:
    """Orders are those of the row's seed, balanced, and repeats those that were calibrated."""
    starts, protocol = run.by_key("start"), run.plan.protocol
    for key, groups in run.by_key("group").items():
        orders = tuple(group["order"] for group in groups)
        if not is_balanced(orders):
            yield f"{key}: orders are not balanced: {' '.join(orders)}"
        if orders != abba_orders(protocol.groups, seed_of(key)):
            yield f"{key}: orders are not those of its seed: {' '.join(orders)}"
        for start in starts.get(key, [])[:1]:
            if any(group["repeats"] != start["repeats"] for group in groups):
                yield f"{key}: a group repeats its arms otherwise than the row was calibrated"
    for key, (start, *_) in starts.items():
        if start["seed"] != seed_of(key):
            yield f"{key}: seed {start['seed']} is not the row's, {seed_of(key)}"
        for arm, taken in start["calibration"].items():
            samples = [(int(repeats), float(seconds)) for repeats, seconds in taken]
            if start["repeats"][arm] != count_repeats(samples, protocol.target_seconds):
                yield f"{key}: {start['repeats'][arm]} repeats of {arm} do not follow from its calibration"


def check_rows(run: Run) -> Reasons:
    """Every row is timed, belongs where it says, and says what its groups say."""
    planned = {row.key: row for row in (*run.plan.null_rows, *run.plan.rows)}
    groups = run.by_key("group")
    for record in run.of("row"):
        key = record["key"]
        if record["status"] != TIMED:
            yield f"{key}: {record['status']}: {record.get('error', '')}"
            continue
        row = planned.get(key)
        if row and (record["design"], record["opponent"], record["phase"]) != (
            row.design.key, row.opponent, row.phase,
        ):  # fmt: skip
            yield f"{key}: the row says that it is {record['design']} {record['opponent']} {record['phase']}"
        for name, value in summarize(groups[key]).items() if key in groups else ():
            if record[name] != value:
                yield f"{key}: {name} is recorded as {record[name]}, and the raw samples say {value}"


def check_executions(run: Run) -> Reasons:
    """The execution that was timed is the fastest that agrees, as the candidates' own samples say."""
    chosen = {}
    for record in run.of("choice"):
        key, wanted = record["key"], family_quantities(record["key"].rpartition(" ")[2])
        for each in record["candidates"]:
            if each["readings"]:
                yield from check_readings(f"{key}, {each['name']}", each["readings"], wanted, run.rules)
        candidates = [
            Candidate(each["name"], tuple(map(read_reading, each["readings"])), tuple(each["seconds"]), each["reason"])
            for each in record["candidates"]
        ]
        if len({candidate.name for candidate in candidates}) != len(candidates):
            yield f"{key}: a candidate is listed twice"
        chosen[key] = choose_fastest(candidates)
        if chosen[key] is None:
            yield f"{key}: no execution agrees with its reference"
        if record["chosen"] != chosen[key]:
            yield f"{key}: chose {record['chosen']}, and the samples say {chosen[key]}"
    starts = run.by_key("start")
    for row in (*run.plan.null_rows, *run.plan.rows):
        due = FUSED if row.opponent == NULL else chosen.get(f"{row.design.control} {row.opponent} {row.phase}")
        for start in starts.get(row.key, []):
            if start["execution"] != due:
                yield f"{row.key}: timed as {start['execution']}; chosen was {due}"


def check_parity(run: Run) -> Reasons:
    """Every gate was tried on the runtime that is timed, read all that it must, and passed."""
    cases = {case.key: case for case in run.plan.cases}
    for record in run.of("parity"):
        key, case = record["key"], cases.get(record["key"])
        if record["runtime"] != RUNTIMES[run.manifest["device"]]:
            yield f"gate {key}: tried on {record['runtime']}, not on what is timed"
        if case is None or record["case"] != case.to_record():
            yield f"gate {key}: is not the case that was declared"
            continue
        yield from check_verdict(f"gate {key}", record, GATE_QUANTITIES[case.gate], run.rules)


def check_gates(run: Run) -> Reasons:
    """Every arm agreed with its reference at the shape that it was timed at, before it was."""
    rows: dict[str, Row] = {row.key: row for row in (*run.plan.null_rows, *run.plan.rows)}
    starts = {key: found[0]["index"] for key, found in run.by_key("start").items()}
    for record in run.of("gate"):
        row = rows.get(record["key"])
        if row is None:
            continue  # one too many, which completeness says
        null = row.opponent == NULL
        wanted = GATE_QUANTITIES[PHASE_GATES[row.phase]] if null else family_quantities(row.phase)
        yield from check_verdict(f"gate of {row.key}", record, wanted, run.rules)
        if record["index"] > starts.get(row.key, math.inf):
            yield f"gate of {row.key}: tried after timing had begun"


def check_verdict(where: str, record: Record, wanted: Mapping[str, str], rules: Tolerances) -> Reasons:
    """A verdict of pass that all wanted readings bear out."""
    readings = list(map(read_reading, record["readings"]))
    worst = max(readings, key=lambda reading: reading.strain, default=None)
    if record["verdict"] != PASS or worst is None or not all(reading.holds for reading in readings):
        why = f", {worst.quantity} {worst.error:.2e} with a limit of {worst.limit:.2e}" if worst else ""
        yield f"{where}: fails, verdict {record['verdict']}{why} {record.get('detail', '')}".rstrip()
        return
    yield from check_readings(where, record["readings"], wanted, rules)


def check_readings(where: str, readings: list[Record], wanted: Mapping[str, str], rules: Tolerances) -> Reasons:
    """Exactly the wanted quantities, each by its own rule, with the limit that the rule gives."""
    found, due = Counter(reading["quantity"] for reading in readings), Counter(list(wanted))
    if found != due:
        odd = [*(found - due), *(due - found)]
        yield f"{where}: {len(odd)} readings are missing or too many: {', '.join(odd[:3])}"
    for reading in readings:
        quantity, rule = reading["quantity"], wanted.get(reading["quantity"])
        if rule is None or reading["rule"] != rule or rule not in rules:
            yield f"{where}: {quantity} was judged by {reading['rule']}; its rule is {rule}"
        elif reading["limit"] != (limit := rules[rule].limit(float(reading["plain"]))):
            yield f"{where}: the limit of {quantity} is recorded as {reading['limit']}; its rule gives {limit}"


def check_cells(run: Run) -> Reasons:
    """Every contestant is listed with its size, and matched ones are near ALPHABET's."""
    cells = run.manifest["cells"]
    if set(cells) != {design.key for design in run.plan.designs}:
        yield "the manifest lists other designs' parameter counts than those that were run"
        return
    for design in run.plan.designs:
        entries = cells[design.key]
        if set(entries) != {NULL, *run.plan.families}:
            yield f"{design.key}: parameter counts are not those of the nine families and ALPHABET"
            continue
        target = entries[NULL]["parameters"]
        for family, entry in entries.items():
            if not math.isclose(entry["gap"], entry["parameters"] / target - 1.0, abs_tol=1e-12):
                yield f"{design.key} {family}: a gap of {entry['gap']} does not follow from its parameters"
            if design.control == MATCHED and not abs(entry["gap"]) <= LARGEST_GAP:
                yield f"{design.key} {family}: {entry['gap']:+.1%} parameters; matched means within {LARGEST_GAP:.1%}"


def check_noise(run: Run) -> Reasons:
    """ALPHABET against itself: one lies inside the interval of the ratios in nearly every row."""
    rows = [record for record in run.of("row") if record["opponent"] == NULL and record["status"] == TIMED]
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
