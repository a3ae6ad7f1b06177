"""A run's evidence in memory, to be changed and written again."""

import json
from dataclasses import dataclass

from alphabet_audit.evidence import GENESIS, MANIFEST, RECORDS, encode, hash_of, identity_of


@dataclass
class Evidence:
    """A run in memory."""

    records: list
    manifest: dict
    copies: dict

    def of(self, kind, number):
        """One of the records of a kind, counted from the front in strides that reach the whole file."""
        found = [record for record in self.records if record["kind"] == kind]
        return found[(number * 37) % len(found)]

    def write(self, folder):
        """With a chain that holds and a manifest that names its head: nothing but the meaning is wrong."""
        previous, lines = GENESIS, []
        for index, record in enumerate(self.records):
            lines.append(encode({**record, "index": index, "previous": previous}))
            previous = hash_of(lines[-1])
        self.manifest |= {"head": previous, "records": len(lines)}
        self.write_bytes(folder, b"\n".join(lines) + b"\n")

    def write_bytes(self, folder, content):
        (folder / RECORDS).write_bytes(content)
        (folder / MANIFEST).write_text(json.dumps(self.manifest))
        for name, each in self.copies.items():
            (folder / name).write_bytes(each)

    def begin_again(self):
        """Let the records begin with the manifest as it is now."""
        self.records[0]["manifest"] = identity_of(self.manifest)


def read_run(folder, names):
    records = [json.loads(line) for line in (folder / RECORDS).read_bytes().splitlines()]
    manifest = json.loads((folder / MANIFEST).read_text())
    return Evidence(records, manifest, {name: (folder / name).read_bytes() for name in names})
