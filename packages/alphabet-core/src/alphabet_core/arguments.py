"""What an argument must be, checked where it enters: each function returns it, or says in a sentence what is wrong."""

import math
import sys
from numbers import Integral
from pathlib import Path

import torch
from torch import Tensor

from alphabet_core.errors import AlphabetError


def require_tensor(name: str, value: object) -> Tensor:
    """The tensor, which is an ordinary dense one."""
    if not isinstance(value, Tensor):
        remedy = ": convert it with torch.as_tensor" if hasattr(value, "__array__") else ""
        raise AlphabetError(f"{name} must be a torch.Tensor; got {type(value).__name__}{remedy}")
    if value.is_nested:
        raise AlphabetError(
            f"{name} must be one dense tensor; got a nested one: pad it with torch.nested.to_padded_tensor and mark "
            "the padding with valid"
        )
    if value.layout is not torch.strided:
        raise AlphabetError(f"{name} must be a dense tensor; got {value.layout}: convert it with .to_dense()")
    return value


def require_count(name: str, value: object, *, least: int = 1) -> int:
    """The whole number, `least` or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        wanted = {0: "an integer of at least 0", 1: "a positive integer"}.get(least, f"an integer of at least {least}")
        raise AlphabetError(f"{name} must be {wanted}; got {describe(value)}")
    return value


def require_number(name: str, value: object, *, zero: bool = False, infinite: bool = False) -> float:
    """The number, which is positive, or also zero or infinite where that is fine."""
    least = 0.0 if zero else math.ulp(0.0)
    most = math.inf if infinite else sys.float_info.max
    if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most:
        return float(value)
    wanted = f"a {'' if infinite else 'finite '}number that is {'not negative' if zero else 'positive'}"
    raise AlphabetError(f"{name} must be {wanted}; got {describe(value)}")


def require_seed(value: object) -> int:
    """The seed of a random generator."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not -(2**63) <= int(value) < 2**64:
        raise AlphabetError(f"seed must be an integer of 64 bits; got {describe(value)}")
    return int(value)


def require_path(value: object) -> Path:
    """The path of a file, given as such or as text."""
    if not isinstance(value, str | Path):
        raise AlphabetError(f"path must be a string or a pathlib.Path; got {describe(value)}")
    return Path(value)


def require_folder(path: Path) -> None:
    """Raise unless the folder of a file that is to be written exists."""
    if not path.parent.is_dir():
        raise AlphabetError(f"path: the folder {path.parent} does not exist; create it first")


def describe(value: object) -> str:
    """What a value is, in a word or two: itself if it is short, else its type."""
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def require_callable(name: str, value: object) -> None:
    """Raise unless the value can be called."""
    if not callable(value):
        raise AlphabetError(f"{name} must be a function; got {describe(value)}")
