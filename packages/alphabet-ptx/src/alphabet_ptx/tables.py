"""Tables of addresses: memory that a kernel reaches by `data_ptr()` of other tensors, as grouped products do.

Inside a driver's block the memory of every tensor that is asked for its address is noted, for as long as it lives. At a
launch the 8-byte integers among the arguments are looked up: the memory that they point into belongs to the launch as
well, and so does what further tables in it point to.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from alphabet_ptx.datatypes import Array
from alphabet_ptx.unwritten import view_bytes

ADDRESSES = ("i64", "u64")
# Notes of memory that is gone are dropped when there are this many.
MOST_NOTES = 4096


@dataclass(frozen=True)
class Note:
    """Memory of torch: where it begins, its bytes, whether it holds 8-byte integers, and a weak reference to it."""

    first: int
    count: int
    table: bool
    memory: Any


class Addresses:
    """The memory of tensors that were asked for their addresses."""

    def __init__(self) -> None:
        self.notes: dict[int, Note] = {}

    def note(self, tensor: Any) -> None:
        """Remember the memory of a tensor, if it is on the CPU."""
        import torch
        from torch.multiprocessing.reductions import StorageWeakRef

        storage = tensor.untyped_storage()
        if storage.device.type != "cpu" or not storage.nbytes():
            return
        if len(self.notes) >= MOST_NOTES:
            self.notes = {first: note for first, note in self.notes.items() if not note.memory.expired()}
        first, count, table = storage.data_ptr(), storage.nbytes(), tensor.dtype in (torch.int64, torch.uint64)
        known = self.notes.get(first)
        if known is None or known.count != count or known.memory.expired() or (table and not known.table):
            self.notes[first] = Note(first, count, table, StorageWeakRef(storage))

    def reach(self, tables: Mapping[str, Array]) -> dict[str, Array]:
        """The bytes that the numbers in `tables` point into, by the name of a table and the place in it."""
        notes = [self.notes[first] for first in sorted(self.notes) if not self.notes[first].memory.expired()]
        if not notes or not tables:
            return {}
        starts = np.array([note.first for note in notes], np.uint64)
        ends = starts + np.array([note.count for note in notes], np.uint64)
        found: dict[str, Array] = {}
        seen: set[int] = set()
        left = list(tables.items())
        while left:
            name, numbers = left.pop(0)
            which = np.maximum(np.searchsorted(starts, numbers, side="right"), 1) - 1
            inside = (numbers >= starts[which]) & (numbers < ends[which])
            for place in np.flatnonzero(inside):
                note = notes[which[place]]
                if note.first not in seen:
                    seen.add(note.first)
                    label = f"{name}[{place}]"
                    found[label] = view_bytes(note.first, note.count)
                    if note.table:
                        left.append((label, as_numbers(found[label])))
        return found


def list_tables(
    kinds: Mapping[str, str], values: Mapping[str, object], arrays: Mapping[str, Array | None]
) -> dict[str, Array]:
    """The arguments of a launch that may be or hold addresses, as unsigned numbers."""
    tables = {}
    for name, kind in kinds.items():
        array, value = arrays.get(name), values[name]
        if kind.lstrip("*") in ADDRESSES and array is not None:
            tables[name] = as_numbers(array)
        elif kind in ADDRESSES and isinstance(value, int) and 0 < value < 1 << 63:
            tables[name] = np.array([value], np.uint64)
    return tables


def as_numbers(octets: Array) -> Array:
    """Bytes as the unsigned 8-byte numbers that they hold."""
    return octets[: octets.size // 8 * 8].view(np.uint64)
