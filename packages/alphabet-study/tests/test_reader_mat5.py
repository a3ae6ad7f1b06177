"""MATLAB files of level 5: read as scipy reads them, and refused where scipy may end the process."""

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alphabet_study.errors import StudyError
from alphabet_study.readers.mat5 import Content, read_mat5
from scipy.io import loadmat, savemat

HEADER = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"


def element(kind: int, data: bytes) -> bytes:
    return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)


def matrix(kind: int, *content: bytes, dimensions: tuple[int, ...] = (1, 1), name: bytes = b"x") -> bytes:
    head = element(6, struct.pack("<II", kind, 0)) + element(5, struct.pack(f"<{len(dimensions)}i", *dimensions))
    return element(14, head + element(1, name) + b"".join(content))


def nested(depth: int) -> bytes:
    """A struct with one field, of which the field is such a struct."""
    inner = nested(depth - 1) if depth else matrix(6, element(9, struct.pack("<d", 1.0)))
    return matrix(2, element(5, struct.pack("<i", 2)), element(1, b"f\0"), inner)


def flat(scipys: Any) -> Content:
    """scipy's content in our terms."""
    if scipys.dtype.names:
        return [{name: flat(one[name]) for name in scipys.dtype.names} for one in scipys.reshape(-1, order="F")]
    if scipys.dtype.kind == "U":
        return "".join(scipys.ravel().tolist())
    return None if scipys.dtype.kind == "O" else scipys.reshape(-1, order="F").astype(np.float64)


def equal(ours: Content, theirs: Content) -> bool:
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(
            one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
            for one, other in zip(ours, theirs, strict=True)
        )
    if isinstance(ours, np.ndarray) and isinstance(theirs, np.ndarray):
        return np.array_equal(ours, theirs)
    return type(ours) is type(theirs) and bool(ours == theirs)


@pytest.mark.parametrize("compressed", [False, True])
def test_variables_are_those_that_scipy_reads(compressed: bool, tmp_path: Path):
    elements = np.zeros((1, 3), dtype=[("Name", object), ("Data", object)])
    elements["Name"][0] = ["force", "vibration_1", "speed"]
    elements["Data"][0] = [np.arange(4.0), np.ones((2, 3), np.float32), 7]
    kinds = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "f4", "f8")
    content = {f"numbers_{kind}": np.arange(6).reshape(2, 3).astype(kind) for kind in kinds}
    content |= {
        "text": "gs",
        "word": "abcdefghij",
        "nothing": np.zeros((0, 3)),
        "bearing": {"sr": 48828, "Y": elements},
    }
    content["cell"] = np.array([np.ones(2), "text"], dtype=object)
    path = tmp_path / "x.mat"
    savemat(path, content, do_compression=compressed)
    ours = read_mat5(path)
    theirs = {name: flat(value) for name, value in loadmat(path).items() if not name.startswith("__")}
    assert ours.keys() == theirs.keys() == content.keys()
    for name in content:
        assert equal(ours[name], theirs[name]), name
    assert ours["cell"] is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM", "no header of level 5"),
        (HEADER + b"\x0e\0\0\0", "not a complete MATLAB file"),
        (HEADER + struct.pack("<II", 14, 10**9) + b"12345678", "an element of 1000000000 bytes where 8 are left"),
        (HEADER + element(9, bytes(8)), "an element of type 9 where a variable must be"),
        (HEADER + element(15, b"no zlib"), "not a complete MATLAB file"),
        (HEADER + element(15, zlib.compress(bytes(99))[:-4])[:-1], "not a complete MATLAB file"),
        (HEADER + matrix(6, element(9, bytes(16))), "2 numbers where the dimensions say 1"),
        (
            HEADER + matrix(6, element(9, bytes(8)), dimensions=(2**31 - 1, 2**31 - 1)),
            "1 numbers where the dimensions say",
        ),
        (HEADER + matrix(6, element(9, bytes(8)), dimensions=(1, -1)), "impossible dimensions"),
        (HEADER + matrix(6, element(14, b"")), "numbers of type 14"),
        (HEADER + matrix(6, element(9, bytes(8))) * 2, "a second variable 'x'"),
        (HEADER + matrix(4, element(16, b"\xff")), "not a complete MATLAB file"),
        (HEADER + matrix(2, element(5, bytes(4)), element(1, b"f\0")), "impossible field names"),
        (HEADER + matrix(2, element(5, b"\2\0\0\0"), element(1, b""), dimensions=(10**9, 10**9)), "without fields"),
        (
            HEADER + matrix(2, element(5, b"\2\0\0\0"), element(1, b"f\0"), dimensions=(10**9, 1)),
            "an element of type None",
        ),
        (HEADER + nested(20), "structs within structs, over 8 deep"),
    ],
)
def test_a_damaged_file_is_refused(content: bytes, message: str, tmp_path: Path):
    path = tmp_path / "x.mat"
    path.write_bytes(content)
    with pytest.raises(StudyError, match=r"x\.mat: .*; fetch it again") as caught:
        read_mat5(path)
    assert message in str(caught.value)
