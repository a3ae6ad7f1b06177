"""Memory that nobody has written, told by what lies in it.

Inside a driver's block fresh tensors (`torch.empty`) are filled with a pattern that no result has. Eight neighbouring
bytes that still hold it when a launch begins have no value: what a kernel makes of them is unknown. So writes by torch,
numpy or an earlier launch need not be followed; next to a written byte, up to seven unwritten ones go unnoticed.
"""

import ctypes
from typing import Any

import numpy as np

from alphabet_ptx.datatypes import Array

# Bytes by their address, modulo 16; as floating-point numbers they are of ordinary size.
PATTERN = np.frombuffer(bytes.fromhex("5bd1c93e8a17f6414c93a2be2f6ed340"), np.uint8)
GROUP = 8


def view_bytes(address: int, count: int) -> Array:
    """The bytes of this process from an address on; not a copy."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * count).from_address(address)) if count else np.empty(0, np.uint8)


def fill(tensor: Any) -> None:
    """Fill a tensor's memory with the pattern."""
    storage = tensor.untyped_storage()
    octets = view_bytes(storage.data_ptr(), storage.nbytes())
    octets[:] = np.resize(np.roll(PATTERN, -(storage.data_ptr() % PATTERN.size)), octets.size)


def find(octets: Array, address: int) -> Array | None:
    """Which bytes nobody has written, or None if all are; `octets` lie at that address."""
    lead = -address % GROUP
    whole = (octets.size - lead) // GROUP
    if whole <= 0:
        return None
    groups = octets[lead : lead + whole * GROUP].reshape(whole, GROUP)
    expected = np.resize(np.roll(PATTERN, -((address + lead) % PATTERN.size)), (PATTERN.size // GROUP, GROUP))
    fresh = np.zeros(whole, np.bool_)
    for start, row in enumerate(expected):
        fresh[start::2] = (groups[start::2] == row).all(axis=1)
    if not fresh.any():
        return None
    result = np.zeros(octets.size, np.bool_)
    result[lead : lead + whole * GROUP] = np.repeat(fresh, GROUP)
    return result
