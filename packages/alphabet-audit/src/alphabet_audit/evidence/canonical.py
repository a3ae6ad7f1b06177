"""Canonical JSON, in which there is one way to write a value, and its hash."""

import hashlib
import json
from typing import Any

Record = dict[str, Any]
GENESIS = "0" * 64  # what the first record carries in place of a hash
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def encode(value: object) -> bytes:
    """A value as canonical JSON, in which there is one way to write it, and no way to write NaN."""
    return _CANONICAL.encode(value).encode()


def hash_of(content: bytes) -> str:
    """The sha256 of some bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def hash_tree(files: dict[str, str]) -> str:
    """The hash of a folder, given the hashes of its files by their paths below it."""
    return hash_of(encode(files))
