"""Decimal numbers in text: strict about what a number is, and exact about where one is not."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from alphabet_study.readers.places import excerpt, malformed

# All that a number may be made of, '?' and NaN included. Python's float also takes underscores, "infinity" and digits
# of other scripts; none of these is in any published file.
_ALLOWED = b"0123456789+-.eE?nNaA \t"


class UnreadableNumberError(Exception):
    """A token is not a finite number: its position among the tokens, and what was found."""

    def __init__(self, position: int, found: str) -> None:
        super().__init__(found)
        self.position = position
        self.found = found


def read_numbers(tokens: Sequence[bytes]) -> NDArray[np.float32]:
    """The tokens as float32, NaN where one says '?' or 'NaN'; the first that is no finite number is the error's."""
    joined = b"".join(tokens)
    if b"?" in joined:
        tokens = [b"nan" if token.strip() == b"?" else token for token in tokens]
    try:
        if joined.translate(None, _ALLOWED):
            raise ValueError
        exact = np.array(list(map(float, tokens)))
    except ValueError:
        raise _first_unreadable(tokens) from None
    with np.errstate(over="ignore"):
        numbers = exact.astype(np.float32)
    infinite = np.isinf(numbers)
    if infinite.any():
        position = int(infinite.argmax())
        raise UnreadableNumberError(position, f"{excerpt(tokens[position])} is infinite in single precision")
    return numbers


def parse_numbers(path: Path, text: bytes, separator: bytes, *, line: int, column: int = 1) -> NDArray[np.float32]:
    """The numbers of a row as float32, NaN where the row says '?' or 'NaN'; `column` is where the text starts."""
    tokens = text.split(separator)
    try:
        return read_numbers(tokens)
    except UnreadableNumberError as error:
        offset = sum(len(token) + len(separator) for token in tokens[: error.position])
        raise malformed(path, error.found, line=line, column=column + offset) from None


def parse_count(path: Path, text: bytes, name: str, *, line: int, column: int = 1) -> int:
    """A positive count that a header states, of at most 12 digits. It is compared with the data, never allocated."""
    if not (text.isdigit() and len(text) <= 12 and int(text) > 0):
        raise malformed(path, f"{name} must be a positive integer, got {excerpt(text)}", line=line, column=column)
    return int(text)


def _first_unreadable(tokens: Sequence[bytes]) -> UnreadableNumberError:
    for position, token in enumerate(tokens):
        try:
            if token.translate(None, _ALLOWED):
                raise ValueError
            float(token)
        except ValueError:
            found = f"{excerpt(token)} is not a number" if token.strip() else "nothing stands where a number must be"
            return UnreadableNumberError(position, found)
    raise AssertionError("some token was not a number")
