"""MATLAB files of level 5: numbers, texts and structs, read strictly and within the bytes that are there.

scipy's `loadmat` ends the process on some damaged files, which nobody can catch; hence this reader of the few kinds of
variables that vibration sets are published in. Whatever else a file holds, such as cells, is None.

A file is a header of 128 bytes and then elements: a tag of type and size, the data, and padding to 8 bytes. A variable
is an element of type 14, alone or compressed, which itself holds elements: flags, dimensions, name and content.
"""

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from alphabet_study.errors import StudyError
from alphabet_study.readers.places import malformed, read_bytes

# A variable's content: numbers in one flat row, a text, the elements of a struct, or None for any other kind.
Content: TypeAlias = "NDArray[np.float64] | str | list[dict[str, Content]] | None"

# No recording of the study unpacks to more.
MOST_BYTES = 2**30
DEEPEST = 8
_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_TEXTS = {1: "latin-1", 2: "latin-1", 4: "utf-16-le", 16: "utf-8", 17: "utf-16-le"}
_STRUCT, _TEXT, _NUMERIC = 2, 4, range(6, 16)
_COMPLEX = 0x0800


class _Damage(Exception):  # noqa: N818 - it never leaves this module
    """What is wrong with the bytes; `read_mat5` adds the file."""


def read_mat5(path: Path) -> dict[str, Content]:
    """The variables of a file by their names."""
    content = read_bytes(path)
    try:
        if len(content) < 128 or content[124:128] != b"\x00\x01IM":
            raise _Damage("no header of level 5 in the byte order of PCs")
        variables: dict[str, Content] = {}
        for kind, data in _elements(content[128:]):
            if kind == _COMPRESSED:
                ((kind, data),) = _elements(_unpack(data))
            if kind != _MATRIX:
                raise _Damage(f"an element of type {kind} where a variable must be")
            name, variable = _read_matrix(data, 0)
            if name in variables:
                raise _Damage(f"a second variable {name!r}")
            variables[name] = variable
    except StudyError:
        raise
    except (_Damage, ValueError, struct.error, zlib.error) as error:
        raise malformed(path, f"not a complete MATLAB file of level 5 ({error})", "fetch it again") from error
    return variables


def _unpack(data: bytes) -> bytes:
    stream = zlib.decompressobj()
    unpacked = stream.decompress(data, MOST_BYTES)
    if not stream.eof:
        raise _Damage("a compressed variable is cut off or too large")
    return unpacked


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The types and data of the elements that follow each other."""
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        at += 8
        if kind >> 16:  # a small element: its size beside its type, its data in the tag
            kind, size, first, at = kind & 0xFFFF, kind >> 16, at - 4, at
            if size > 4:
                raise _Damage("a small element of over 4 bytes")
        else:
            first, at = at, at + size + (0 if kind == _COMPRESSED else -size % 8)
        if first + size > len(data):
            raise _Damage(f"an element of {size} bytes where {len(data) - first} are left")
        yield kind, data[first : first + size]


def _read_matrix(data: bytes, depth: int) -> tuple[str, Content]:
    """The name and content of a variable or of a field of a struct."""
    if not data:
        return "", np.zeros(0)
    if depth > DEEPEST:
        raise _Damage(f"structs within structs, over {DEEPEST} deep")
    parts = _elements(data)
    flags = struct.unpack("<II", _next(parts, 6))[0]
    dimensions = _read_numbers(5, _next(parts, 5))
    if len(dimensions) < 2 or (dimensions < 0).any():
        raise _Damage("impossible dimensions")
    count = math.prod(int(one) for one in dimensions)
    name = _next(parts, 1).decode("latin-1")
    kind = flags & 0xFF
    if kind == _STRUCT:
        return name, _read_struct(parts, count, depth)
    if kind not in (_TEXT, *_NUMERIC):
        return name, None
    stored, content = next(parts, (0, b""))
    if kind == _TEXT:
        text = content.decode(_TEXTS[stored]) if stored in _TEXTS else ""
        if len(text) != count:
            raise _Damage(f"a text of {len(text)} characters where its dimensions say {count}")
        return name, text
    numbers = _read_numbers(stored, content)
    if len(numbers) != count or flags & _COMPLEX:
        raise _Damage(f"{len(numbers)} numbers where the dimensions say {count}, or complex ones")
    return name, numbers


def _read_struct(parts: Iterator[tuple[int, bytes]], count: int, depth: int) -> list[dict[str, Content]]:
    """The elements of a struct, each a content by field."""
    (length,) = _read_numbers(5, _next(parts, 5))
    names = _next(parts, 1)
    width = int(length)
    if width < 1 or len(names) % width:
        raise _Damage("impossible field names")
    fields = [names[at : at + width].split(b"\0")[0].decode("latin-1") for at in range(0, len(names), width)]
    if not fields or len(set(fields)) < len(fields):
        raise _Damage("a struct without fields, or with the same field twice")
    elements: list[dict[str, Content]] = []
    while len(elements) < count:  # ends with the bytes at the latest
        elements.append({field: _read_matrix(_next(parts, _MATRIX), depth + 1)[1] for field in fields})
    return elements


def _next(parts: Iterator[tuple[int, bytes]], wanted: int) -> bytes:
    kind, data = next(parts, (None, b""))
    if kind != wanted:
        raise _Damage(f"an element of type {kind} where one of type {wanted} must be")
    return data


def _read_numbers(kind: int, data: bytes) -> NDArray[np.float64]:
    if kind not in _NUMBERS:
        raise _Damage(f"numbers of type {kind}")
    return np.frombuffer(data, dtype="<" + _NUMBERS[kind]).astype(np.float64)
