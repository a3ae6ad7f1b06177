"""The results of a ledger as report and comparison need them: rows and groups by design, family and phase."""

from dataclasses import dataclass
from pathlib import Path

from alphabet_audit.declare.declarations import Declarations
from alphabet_audit.declare.designs import ALPHABET
from alphabet_audit.errors import AuditError, printable
from alphabet_audit.evidence.canonical import Record
from alphabet_audit.evidence.chain import read_run
from alphabet_audit.evidence.schema import check_manifest_form, check_record_forms
from alphabet_audit.judge.evaluate import Evaluation, evaluate_records, read_copies


@dataclass(frozen=True)
class Results:
    """A ledger's records. rows: by design key, family and phase; groups and starts: by row key; parity: the gates."""

    manifest: Record
    evaluation: Evaluation
    rows: dict[tuple[str, str, str], Record]
    groups: dict[str, list[Record]]
    starts: dict[str, Record]
    parity: list[Record]

    @property
    def device(self) -> str:
        """The kind of device that was measured, "cpu" or "cuda"."""
        return str(self.manifest["device"])

    @property
    def designs(self) -> list[str]:
        """The designs' keys, in the order of the file of designs."""
        return list(self.manifest["plan"]["designs"])

    @property
    def nulls(self) -> list[Record]:
        """The rows of ALPHABET against itself."""
        return [row for (_, family, _), row in self.rows.items() if family == ALPHABET]


def read_results(folder: Path, declarations: Declarations) -> Results:
    """The results of the ledger in a folder, finished or not; an error if its evidence is damaged."""
    manifest, records = read_run(folder)
    if manifest.get("kind") != "ledger":
        raise AuditError(f"{folder} holds a run of kind {printable(manifest.get('kind'))}; a report needs a ledger")
    if misfits := [*check_manifest_form(manifest), *check_record_forms(records, manifest["version"])]:
        raise AuditError(f"{folder} is damaged: {misfits[0]}; alphabet-audit evaluate lists all reasons")
    groups: dict[str, list[Record]] = {}
    for record in records:
        if record["kind"] == "group":
            groups.setdefault(record["key"], []).append(record)
    return Results(
        manifest,
        evaluate_records(manifest, records, read_copies(folder), declarations),
        {(r["design"], r["opponent"], r["phase"]): r for r in records if r["kind"] == "row"},
        groups,
        {record["key"]: record for record in records if record["kind"] == "start"},
        [record for record in records if record["kind"] == "parity"],
    )
