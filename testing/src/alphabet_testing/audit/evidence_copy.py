"""A run's evidence in memory, to be forged and judged there, or written to disk again."""

import json
from dataclasses import dataclass

from alphabet_audit.declare.verdicts import FAIL
from alphabet_audit.errors import AuditError
from alphabet_audit.evidence.canonical import GENESIS, encode, hash_of
from alphabet_audit.evidence.chain import MANIFEST, RECORDS, identity_of, parse_manifest
from alphabet_audit.judge.evaluate import Evaluation, evaluate_records


@dataclass
class EvidenceCopy:
    """A run's records and manifest, and its copies of the declarations by name."""

    records: list
    manifest: dict
    copies: dict

    def of(self, kind, number):
        """One of the records of a kind, counted from the front in strides that reach the whole file."""
        found = [record for record in self.records if record["kind"] == kind]
        return found[(number * 37) % len(found)]

    def judge(self, declarations):
        """What the evaluator finds in these records once their chain is closed again, without writing and reading them.

        Only numbers of records and the hash of the last one reach its checks; `write` closes the chain for good.
        """
        for index, record in enumerate(self.records):
            record["index"] = index
            record.setdefault("previous", GENESIS)
        self.manifest |= {"head": hash_of(encode(self.records[-1])), "records": len(self.records)}
        try:
            manifest = parse_manifest(json.dumps(self.manifest).encode(), MANIFEST)
        except AuditError as error:
            return Evaluation(FAIL, (str(error),))
        return evaluate_records(manifest, self.records, self.copies, declarations)

    def write(self, folder):
        """Write with a chain that holds and a manifest that names its last record: nothing but the meaning is wrong."""
        previous, lines = GENESIS, []
        for index, record in enumerate(self.records):
            lines.append(encode({**record, "index": index, "previous": previous}))
            previous = hash_of(lines[-1])
        self.manifest |= {"head": previous, "records": len(lines)}
        self.write_bytes(folder, b"\n".join(lines) + b"\n")

    def write_bytes(self, folder, content):
        """Write any content in place of the records."""
        (folder / RECORDS).write_bytes(content)
        (folder / MANIFEST).write_text(json.dumps(self.manifest))
        for name, each in self.copies.items():
            (folder / name).write_bytes(each)

    def begin_again(self):
        """Let the records begin with the manifest as it is now."""
        self.records[0]["manifest"] = identity_of(self.manifest)


def read_run(folder, names):
    """The evidence in a folder, and its files of those names."""
    records = [json.loads(line) for line in (folder / RECORDS).read_bytes().splitlines()]
    manifest = json.loads((folder / MANIFEST).read_text())
    return EvidenceCopy(records, manifest, {name: (folder / name).read_bytes() for name in names})
