"""Which bytes of a result are unknown, for instructions that move bytes or may not need all of them.

A trace maps the unknown bytes of the sources, one array (threads, bytes) each, and the sources themselves to the
unknown bytes of each result. Where such an instruction has a known result although a source is unknown, compilers rely
on it.
"""

from collections.abc import Sequence

import numpy as np

from alphabet_ptx.datatypes import Array
from alphabet_ptx.elementwise import Trace


def copy(unknown: list[Array], _: list[Array]) -> Sequence[Array]:
    """A copy is unknown where its origin is."""
    return unknown[:1]


def pack(unknown: list[Array], _: list[Array]) -> Sequence[Array]:
    """Several pieces become one register, lowest first."""
    return [np.concatenate(unknown, axis=1)]


def unpack(pieces: int) -> Trace:
    """One register becomes several pieces, lowest first."""
    return lambda unknown, _: np.split(unknown[0], pieces, axis=1)


def convert_pair(size: int) -> Trace:
    """Two numbers, from one register or from two of which the second is the lower, become two of `size` bytes."""

    def trace(unknown: list[Array], _: list[Array]) -> Sequence[Array]:
        halves = np.split(unknown[0], 2, axis=1) if len(unknown) == 1 else unknown[::-1]
        return [np.concatenate([np.repeat(half.any(axis=1, keepdims=True), size, axis=1) for half in halves], axis=1)]

    return trace


def select(unknown: list[Array], sources: list[Array]) -> Sequence[Array]:
    """Only the chosen one of two has to be known, and which."""
    return [np.where(sources[2][:, None], unknown[0], unknown[1]) | unknown[2]]


def permute(unknown: list[Array], sources: list[Array]) -> Sequence[Array]:
    """prmt: the bytes that the selector names have to be known, and the selector."""
    places = (sources[2][:, None] >> (4 * np.arange(4, dtype=np.uint32))) & 7
    chosen = np.take_along_axis(np.concatenate(unknown[:2], axis=1), places.astype(np.intp), axis=1)
    return [chosen | unknown[2].any(axis=1, keepdims=True)]


def resize(signed: bool, size: int) -> Trace:
    """A longer or shorter integer: zeros are known, copies of the sign only if the sign is."""

    def trace(unknown: list[Array], _: list[Array]) -> Sequence[Array]:
        kept = unknown[0][:, :size]
        beyond = np.repeat(unknown[0][:, -1:] & signed, size - kept.shape[1], axis=1)
        return [np.concatenate([kept, beyond], axis=1)]

    return trace


def absorb(by_zero: bool) -> Trace:
    """`and` and `or`: zeros, or ones, in one operand decide the result whatever the other is."""

    def trace(unknown: list[Array], sources: list[Array]) -> Sequence[Array]:
        known = []
        for mask, source in zip(unknown, sources, strict=True):
            octets = np.ascontiguousarray(source).view(np.uint8).reshape(len(source), -1)
            decisive = 0 if by_zero else 1 if source.dtype == np.bool_ else 0xFF
            known.append(~mask & (octets == decisive))
        return [(unknown[0] | unknown[1]) & ~known[0] & ~known[1]]

    return trace


def shift(left: bool, amount: int) -> Trace:
    """A shift by so many bits, at most all of them, that brings in zeros."""

    def trace(unknown: list[Array], _: list[Array]) -> Sequence[Array]:
        width = unknown[0].shape[1]
        bits = np.repeat(unknown[0], 8, axis=1)
        empty = np.zeros((len(bits), amount), np.bool_)
        moved = [empty, bits[:, : 8 * width - amount]] if left else [bits[:, amount:], empty]
        return [np.concatenate(moved, axis=1).reshape(len(bits), width, 8).any(axis=2)]

    return trace
