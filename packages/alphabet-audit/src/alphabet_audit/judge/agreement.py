"""Whether every gate read what it must, within limits that follow from its rules, and the right execution was timed."""

from collections import Counter
from collections.abc import Mapping

from alphabet_audit.declare.cases import LEDGER_RUNTIMES
from alphabet_audit.declare.designs import ALPHABET
from alphabet_audit.declare.executions import read_executions
from alphabet_audit.declare.quantities import GATE_QUANTITIES, after_quantities, family_quantities, row_quantities
from alphabet_audit.declare.tolerances import Tolerances
from alphabet_audit.declare.verdicts import PASS
from alphabet_audit.evidence.canonical import Record
from alphabet_audit.judge.run import Failure, Reasons, Run
from alphabet_audit.protocol.execution_choice import ALPHABET_EXECUTION, ExecutionChoice, choose_fastest, read_trial
from alphabet_audit.protocol.readings import judge, read_reading


def check_executions(run: Run) -> Reasons:
    """The execution that was timed is the fastest exact one of all that are declared; yields those that are not."""
    chosen = {}
    planned = {choice.key: choice for choice in run.plan.choices}
    for record in run.of("choice"):
        choice = planned.get(record["key"])
        if choice is None:
            continue  # one too many, which `check_completeness` reports
        yield from check_trials(run, choice, record["candidates"])
        chosen[choice.key] = choose_fastest(map(read_trial, record["candidates"]))
        if chosen[choice.key] is None:
            yield Failure(f"{choice.key}: no execution agrees with its reference")
        if record["chosen"] != chosen[choice.key]:
            yield f"{choice.key}: chose {record['chosen']}; the samples give {chosen[choice.key]}"
    starts = run.by_key("start")
    for row in run.planned.values():
        key = ExecutionChoice(row.design.sizing, row.family, row.phase).key
        wanted_name = ALPHABET_EXECUTION if row.family == ALPHABET else chosen.get(key)
        for start in starts.get(row.key, []):
            if start["execution"] != wanted_name:
                yield f"{row.key}: timed as {start['execution']}; the chosen execution is {wanted_name}"


def check_trials(run: Run, choice: ExecutionChoice, trials: list[Record]) -> Reasons:
    """Every declared execution was tried: it has samples, or a reason why it has none; yields what is not so."""
    table = read_executions()
    names = [trial["name"] for trial in trials]
    if choice.family in table.algorithms:
        compiled, version = run.manifest["compiled"], run.manifest["version"]
        wanted = list(table.names(choice.family, run.device, compiled=compiled, version=version))
        if names != wanted:
            yield f"{choice.key}: tried {', '.join(names)}; declared are {', '.join(wanted)}"
    elif len(set(names)) != len(names):
        yield f"{choice.key}: an execution is listed twice"
    for trial in trials:
        where, readings = f"{choice.key}, {trial['name']}", list(map(read_reading, trial["readings"]))
        if bool(trial["seconds"]) == bool(trial["reason"]):
            yield f"{where}: must have seven samples, or a reason why it has none"
        if trial["seconds"] and judge(readings) != PASS:
            yield f"{where}: was timed although it disagrees with its reference, or was not compared with it"
        if trial["readings"]:
            yield from check_readings(where, trial["readings"], family_quantities(choice.phase), run.rules)
            if trial["reason"] and judge(readings) == PASS:
                yield f"{where}: agrees with its reference and was not timed: {trial['reason']}"
        elif trial["reason"] and table.must_run(trial["name"]):
            yield Failure(f"{where}: was left out, although every device can run it: {trial['reason']}")


def check_parity(run: Run) -> Reasons:
    """Every parity gate was tried on the timed runtime, read all that it must, and passed; yields what is not so."""
    cases = {case.key: case for case in run.plan.cases}
    for record in run.of("parity"):
        key, case = record["key"], cases.get(record["key"])
        if record["runtime"] != LEDGER_RUNTIMES[run.device]:
            yield f"gate {key}: tried on {record['runtime']}, which is not the runtime that is timed"
        if case is None or record["case"] != case.to_record():
            yield f"gate {key}: is not the case that was declared"
            continue
        yield from check_verdict(f"gate {key}", record, GATE_QUANTITIES[case.gate], run.rules)


def check_gates(run: Run) -> Reasons:
    """Every arm agreed with its reference before it was timed, and after it; yields those that did not."""
    for record in run.of("gate"):
        if row := run.planned.get(record["key"]):
            wanted = row_quantities(row, run.manifest["version"])
            yield from check_verdict(f"gate of {row.key}", record, wanted, run.rules)
    for record in run.of("after"):
        if row := run.planned.get(record["key"]):
            yield from check_verdict(f"after the groups of {row.key}", record, after_quantities(row), run.rules)


def check_verdict(where: str, record: Record, wanted: Mapping[str, str], rules: Tolerances) -> Reasons:
    """The verdict is pass, and all wanted readings bear it out; yields what is not so."""
    readings = list(map(read_reading, record["readings"]))
    worst = max(readings, key=lambda reading: reading.limit_share, default=None)
    if record["verdict"] != judge(readings) and (readings or record["verdict"] == PASS):
        yield f"{where}: verdict {record['verdict']}; its readings say {judge(readings)}"
    elif record["verdict"] != PASS:
        why = f", {worst.quantity} {worst.error:.2e} with a limit of {worst.limit:.2e}" if worst else ""
        yield Failure(f"{where}: fails, verdict {record['verdict']}{why} {record.get('detail', '')}".rstrip())
    if readings or record["verdict"] == PASS:
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
            continue
        plain = float(reading["plain"])
        if not plain <= rules[rule].ceiling:
            yield Failure(
                f"{where}: plain torch's own error of {quantity} is {plain:.1e}; "
                f"roundings explain at most {rules[rule].ceiling:.1e}"
            )
        limit = rules[rule].limit(plain)
        if float(reading["limit"]) != limit and (limit == limit or reading["limit"] != "nan"):
            yield f"{where}: the limit of {quantity} is recorded as {reading['limit']}; its rule gives {limit}"
