"""Which registers have a value, per thread and, where it matters, per byte.

A register has no value in a thread that has written nothing to it, and after an operation that PTX leaves open (an
integer division by zero). Compilers use such values freely where nothing depends on them: idle threads take part in
shuffles, a pair is packed of which one half is never read, a quotient is computed before it is known to be needed. So
being unknown spreads from register to register, and is an error where it would show: in an address, a predicate, a
store to global memory, an atomic.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from alphabet_ptx.datatypes import Array, Mask
from alphabet_ptx.errors import PtxError


class Knowledge:
    """What is known of the registers of a block's threads; `widths` are the registers' bytes."""

    def __init__(self, threads: int, widths: Mapping[str, int]) -> None:
        self.threads = threads
        self.widths = widths
        self.unwritten = np.ones(threads, np.bool_)
        self.unwritten.setflags(write=False)
        # Per register the threads in which its value is unknown, None if there are none; which bytes, if not all of
        # them (threads, bytes); and why.
        self.unknown: dict[str, Mask | None] = dict.fromkeys(widths, self.unwritten)
        self.partly: dict[str, Array] = {}
        self.causes: dict[str, str] = {}

    def forget(self) -> None:
        """Start a block: no register has a value."""
        for name in self.unknown:
            self.unknown[name] = self.unwritten
        self.partly.clear()
        self.causes.clear()

    def unknown_in(self, names: Sequence[str], mask: Mask | None) -> Mask | None:
        """Active threads in which any of the registers is unknown, or None."""
        result: Mask | None = None
        for name in names:
            unknown = self.unknown[name]
            if unknown is None:
                continue
            active = unknown.copy() if mask is None else unknown & mask
            if active.any():
                result = active if result is None else result | active
        return result

    def unknown_bytes(self, name: str, size: int) -> Array:
        """Which of the first `size` bytes of a register are unknown: (threads, size)."""
        if name in self.partly:
            return self.partly[name][:, :size]
        unknown = self.unknown[name]
        whole = np.zeros(self.threads, np.bool_) if unknown is None else unknown
        return np.repeat(whole[:, None], size, axis=1)

    def explain(self, names: Sequence[str]) -> str:
        """Why a value that was made of these registers is unknown."""
        name = next((name for name in names if self.unknown[name] is not None), names[0])
        return self.causes.get(name, f"uninitialised register {name}, to which this thread has written nothing")

    def require(self, names: Sequence[str], mask: Mask | None, use: str, *, size: int | None = None) -> None:
        """Raise PtxError unless the registers, or their first `size` bytes, have a value in all active threads."""
        for name in names:
            if self.unknown[name] is None:
                continue
            unknown = self.unknown_in([name], mask)
            if unknown is not None and size is not None:
                unknown &= self.unknown_bytes(name, size).any(axis=1)
            if unknown is not None and unknown.any():
                raise PtxError(
                    f"{use} is unknown, in register {name}: {self.explain([name])}", thread=int(np.argmax(unknown))
                )

    def mark_written(self, name: str, mask: Mask | None, unknown: Mask | None = None, cause: str = "") -> None:
        """Note that a register was written in the active threads, in those of `unknown` with an unknown value."""
        if name in self.partly:
            whole = np.zeros(self.threads, np.bool_) if unknown is None else unknown
            self.mark_bytes(name, mask, np.repeat(whole[:, None], self.widths[name], axis=1), cause)
            return
        before = self.unknown[name]
        if unknown is not None and cause:
            self.causes[name] = cause
        if mask is None:
            self.unknown[name] = unknown
        elif before is not None or unknown is not None:
            after = ~mask & (False if before is None else before)
            if unknown is not None:
                after |= unknown & mask
            self.unknown[name] = after if after.any() else None

    def mark_bytes(self, name: str, mask: Mask | None, unknown: Array, cause: str = "") -> None:
        """Note that a register was written in the active threads, where some bytes (threads, bytes) are unknown."""
        width = self.widths[name]
        beyond = np.repeat(unknown[:, -1:], max(width - unknown.shape[1], 0), axis=1)  # the sign may have spread there
        extended = np.concatenate([unknown[:, :width], beyond], axis=1)
        if mask is not None:
            extended = np.where(mask[:, None], extended, self.unknown_bytes(name, width))
        threads: Mask = np.any(extended, axis=1)
        self.partly.pop(name, None)
        if threads.any():
            if cause:
                self.causes[name] = cause
            if not extended[threads].all():
                self.partly[name] = extended
        self.unknown[name] = threads if threads.any() else None
