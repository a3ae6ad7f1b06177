"""A ledger's evidence as the checks see it: well formed, by kind and by key."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from alphabet_audit.declare.designs import Row
from alphabet_audit.declare.tolerances import Tolerances
from alphabet_audit.evidence.canonical import Record
from alphabet_audit.protocol.plan import Plan


class Failure(str):
    """A reason that an honest run can have: a gate that failed, a row that crashed, a noisy machine.

    Any other reason is a contradiction, and a run that has one is not resumed.
    """

    __slots__ = ()


Reasons = Iterator[str]


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

    @property
    def device(self) -> str:
        """The kind of device that was measured, "cpu" or "cuda"."""
        return str(self.manifest["device"])

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
