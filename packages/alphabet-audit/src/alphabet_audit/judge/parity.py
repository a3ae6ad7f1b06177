"""The verdict on a parity run: each gate is there once; gates that were not run make it partial, not failed."""

from alphabet_audit.declare.cases import LEDGER_RUNTIMES, expected_cases
from alphabet_audit.declare.declarations import Declarations
from alphabet_audit.declare.quantities import GATE_QUANTITIES
from alphabet_audit.declare.verdicts import NOT_RUN, PASS
from alphabet_audit.evidence.canonical import Record
from alphabet_audit.judge.agreement import check_verdict
from alphabet_audit.judge.run import Reasons


def check_parity_run(manifest: Record, gates: list[Record], declarations: Declarations) -> Reasons:
    """The gates are those of the device, in their order, and each that was run passed; yields what is not so."""
    if any(record["kind"] != "parity" for record in gates):
        yield "a parity run holds records of other kinds"
        return
    expected = expected_cases(manifest["device"])
    found = [(record["runtime"], record["key"]) for record in gates]
    if found != list(expected):
        odd = sorted(set(found) ^ set(expected)) or "one is there twice, or not in its place"
        yield f"the gates are not those of this device: {odd}"
    for record in gates:
        where, case = f"{record['runtime']}, {record['key']}", expected.get((record["runtime"], record["key"]))
        if case is None or record["case"] != case.to_record():
            yield f"{where}: is not the case that was declared"
        elif was_skipped(record):
            if not record["detail"]:
                yield f"{where}: was not run, without a reason"
        elif (manifest["device"], record["runtime"]) == ("cpu", LEDGER_RUNTIMES["cuda"]):
            yield f"{where}: ran on a machine without CUDA, where it must be skipped"
        else:
            yield from check_verdict(where, record, GATE_QUANTITIES[case.gate], declarations.tolerances)


def count_gates(gates: list[Record]) -> dict[str, int]:
    """How many gates passed, failed and were not run."""
    ran = [record for record in gates if not was_skipped(record)]
    passed = sum(record["verdict"] == PASS for record in ran)
    return {"gates passed": passed, "gates failed": len(ran) - passed, "gates not run": len(gates) - len(ran)}


def was_skipped(record: Record) -> bool:
    """Whether a gate was not run for lack of a device or implementation; the CPU's gates can always be run."""
    return bool(record["verdict"] == NOT_RUN and record["runtime"] != LEDGER_RUNTIMES["cpu"] and not record["readings"])
