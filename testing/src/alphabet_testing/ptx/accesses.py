"""Opcodes that access memory: their elements, and registers for them."""

import numpy as np

from alphabet_testing.ptx.snippets import DTYPES, expand

WIDTHS = {1: "%h", 2: "%h", 4: "%r", 8: "%d"}


def random_bytes(count, seed=0):
    """Any bytes."""
    return np.random.default_rng(seed).integers(0, 256, count).astype(np.uint8)


def split(opcode):
    """(elements, type, bytes) of an access."""
    parts = opcode.split(".")
    count = next((int(part[1:]) for part in parts if part in ("v2", "v4", "v8")), 1)
    return count, parts[-1], np.dtype(DTYPES[parts[-1]]).itemsize


def registers(kind, size, count):
    """The names of registers for so many elements, and the operand that lists them."""
    names = [f"{WIDTHS[size]}{20 + i}" for i in range(count)]
    return names, names[0] if count == 1 else "{" + ", ".join(names) + "}"


def hint(opcode):
    """The operand that a cache hint needs."""
    return ", %d19" if "cache_hint" in opcode else ""


def choose_opcodes(pattern):
    """Opcodes of a pattern with every modifier and every type, not every pair of them: cache hints multiply."""
    opcodes = expand(pattern)
    step = max(1, len(opcodes) // 150) | 1
    chosen = opcodes[::step]
    modifiers = {part for opcode in opcodes for part in opcode.split(".")}
    missing = modifiers - {part for opcode in chosen for part in opcode.split(".")}
    return chosen + [next(opcode for opcode in opcodes if part in opcode.split(".")) for part in missing]
