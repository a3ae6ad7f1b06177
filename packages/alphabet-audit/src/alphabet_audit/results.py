"""A run's rows as report and comparison read them: by design, family and phase."""

from dataclasses import dataclass
from pathlib import Path

from alphabet_audit.declarations import Declarations
from alphabet_audit.designs import NULL
from alphabet_audit.errors import AuditError
from alphabet_audit.evaluate import Evaluation, evaluate
from alphabet_audit.evidence import RECORDS, Record, read_manifest, read_records
from alphabet_audit.schema import MANIFEST, check_forms, find_misfits


@dataclass(frozen=True)
class Results:
    """Rows and groups by (design's key, opponent, phase); starts: what was timed; what the evaluator says of them."""

    manifest: Record
    evaluation: Evaluation
    rows: dict[tuple[str, str, str], Record]
    groups: dict[str, list[Record]]
    starts: dict[str, Record]
    parity: list[Record]

    @property
    def device(self) -> str:
        return str(self.manifest["device"])

    @property
    def designs(self) -> list[str]:
        """In the order of the file of designs."""
        return list(self.manifest["plan"]["designs"])

    @property
    def nulls(self) -> list[Record]:
        """ALPHABET against itself."""
        return [row for (_, opponent, _), row in self.rows.items() if opponent == NULL]


def read_results(folder: Path, declarations: Declarations) -> Results:
    """A ledger's results, whole or not; what its chain does not hold together is no result."""
    manifest = read_manifest(folder)
    if manifest.get("kind") != "ledger":
        raise AuditError(f"{folder} is a run of kind {manifest.get('kind')!r}; a report needs one of the ledger")
    try:
        records = read_records((folder / RECORDS).read_bytes(), str(folder / RECORDS))
    except OSError as error:
        raise AuditError(f"{folder / RECORDS} cannot be read: {error.strerror}") from error
    if misfits := [*find_misfits(manifest, MANIFEST), *check_forms(records)]:
        raise AuditError(f"{folder} is damaged: {misfits[0]}; alphabet-audit evaluate lists everything")
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
