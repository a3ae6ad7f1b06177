"""The addresses that arrays have in the caller's memory.

A kernel may load addresses from a table (`tensor.data_ptr()` of several tensors, as for grouped products) and follow
them. They are those of the caller's memory, and lead to the same bytes as the addresses that a launch gives its arrays.
Between the arrays there is only what the caller's allocator put there, so that an access that misses one array by much
may hit another one, as on a GPU.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from alphabet_ptx.datatypes import Array


@dataclass(frozen=True)
class Home:
    """Where an array lies: in the caller's memory from address `first` on, in global memory from offset `start` on."""

    name: str
    first: int
    size: int
    start: int


class Homes:
    """Finds the arrays of a launch by the caller's addresses."""

    def __init__(self, homes: Sequence[Home] = ()) -> None:
        self.homes = sorted((home for home in homes if home.size), key=lambda home: home.first)
        self.first, self.size, self.start = (
            np.array([getattr(home, part) for home in self.homes], np.int64) for part in ("first", "size", "start")
        )

    def find(self, addresses: Array, otherwise: Array) -> Array:
        """The offsets in global memory of these addresses, and `otherwise` for those that are in no array."""
        if not self.homes:
            return otherwise
        number = np.maximum(np.searchsorted(self.first, addresses, side="right") - 1, 0)
        into = addresses - self.first[number]
        return np.where((into >= 0) & (into < self.size[number]), self.start[number] + into, otherwise)

    def explain(self, address: int) -> str:
        """Where an address lies that is in no array: its distance from the nearest one."""
        if not self.homes:
            return "where the caller has no array"
        home = min(self.homes, key=lambda home: max(home.first - address, address - home.first - home.size + 1))
        return (
            f"{address - home.first:+d} bytes from where the caller has {home.name!r}, which has {home.size}; "
            "what lies behind addresses in a table is passed to `execute` as `reachable`, and known to a `ptx_device` "
            "block if `data_ptr()` was called inside it and the tensor still lives"
        )
