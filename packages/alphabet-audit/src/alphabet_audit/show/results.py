"""The results of a ledger as report and comparison need them: rows and groups by design, family and phase."""

from dataclasses import dataclass
from pathlib import Path

from alphabet_audit.declare.declarations import Declarations
from alphabet_audit.declare.designs import ALPHABET
from alphabet_audit.errors import AuditError
from alphabet_audit.evidence.canonical import Record
from alphabet_audit.evidence.chain import RECORDS, read_manifest, read_records
from alphabet_audit.evidence.schema import MANIFEST, check_forms, find_misfits
from alphabet_audit.judge.evaluate import Evaluation, evaluate


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
    manifest = read_manifest(folder)
    if manifest.get("kind") != "ledger":
        raise AuditError(f"{folder} holds a run of kind {manifest.get('kind')!r}; a report needs a ledger")
    try:
        records = read_records((folder / RECORDS).read_bytes(), str(folder / RECORDS))
    except OSError as error:
        raise AuditError(f"{folder / RECORDS} cannot be read: {error.strerror}") from error
    if misfits := [*find_misfits(manifest, MANIFEST), *check_forms(records)]:
        raise AuditError(f"{folder} is damaged: {misfits[0]}; alphabet-audit evaluate lists all reasons")
    groups: dict[str, list[Record]] = {}
    for record in records:
        if record["kind"] == "group":
            groups.setdefault(record["key"], []).append(record)
    return Results(
        manifest,
        evaluate(folder, declarations),
        {(r["design"], r["opponent"], r["phase"]): r for r in records if r["kind"] == "row"},
        groups,
        {record["key"]: record for record in records if record["kind"] == "start"},
        [record for record in records if record["kind"] == "parity"],
    )
