"""Plain data: labels, parameters and what fit found out, as JSON that keeps their types; nothing else is accepted."""

from typing import Any

import numpy as np

ARRAY_KINDS = "biufU"  # of numpy's dtypes: booleans, integers, floats and text


def to_plain(value: object) -> dict[str, Any] | None:
    """The value as JSON with its type beside it; None if it is no plain data."""
    if value is None:
        return {"type": "none"}
    if isinstance(value, bool | str | int):
        return {"type": type(value).__name__, "value": value}
    if isinstance(value, float):
        return {"type": "float", "value": value.hex()}
    if isinstance(value, np.generic):
        array = to_plain(np.asarray(value))
        return None if array is None else {**array, "type": "scalar"}
    if isinstance(value, np.ndarray):
        return _array_to_plain(value)
    if isinstance(value, dict):
        pairs = [[to_plain(key), to_plain(each)] for key, each in value.items()]
        return None if any(None in pair for pair in pairs) else {"type": "dict", "value": pairs}
    if isinstance(value, list | tuple):
        items = [to_plain(each) for each in value]
        return None if None in items else {"type": "list" if isinstance(value, list) else "tuple", "value": items}
    return None


def from_plain(plain: dict[str, Any]) -> Any:
    """What `to_plain` was given; a ValueError, KeyError or TypeError if it never gave this."""
    kind, value = plain["type"], plain.get("value")
    if kind == "none":
        return None
    for name, expected in (("bool", bool), ("str", str), ("int", int)):
        if kind == name:
            if type(value) is not expected:
                raise ValueError(f"a {name} is stored as {value!r}")
            return value
    if kind == "float":
        return float.fromhex(value)  # type: ignore[arg-type]
    if kind in ("list", "tuple"):
        items = [from_plain(each) for each in value or ()]
        return items if kind == "list" else tuple(items)
    if kind == "dict":
        return {from_plain(key): from_plain(each) for key, each in value or ()}
    if kind in ("array", "scalar"):
        array = _array_from_plain(plain)
        return array[()] if kind == "scalar" else array
    raise ValueError(f"there is no type {kind!r}")


def _array_to_plain(array: np.ndarray[Any, Any]) -> dict[str, Any] | None:
    items: list[Any] = array.ravel().tolist()
    if array.dtype.kind == "O":  # labels as objects
        items = [to_plain(each) for each in items]
        return None if None in items else {"type": "array", "dtype": "O", "shape": list(array.shape), "value": items}
    if array.dtype.kind not in ARRAY_KINDS:
        return None
    if array.dtype.kind == "f":
        items = [float(each).hex() for each in items]
    return {"type": "array", "dtype": array.dtype.str, "shape": list(array.shape), "value": items}


def _array_from_plain(plain: dict[str, Any]) -> np.ndarray[Any, Any]:
    shape, items = tuple(int(size) for size in plain["shape"]), plain["value"]
    if plain["dtype"] == "O":
        found = np.empty(len(items), dtype=object)
        found[:] = [from_plain(each) for each in items]
        return found.reshape(shape)
    dtype = np.dtype(plain["dtype"])
    if dtype.kind not in ARRAY_KINDS:
        raise ValueError(f"there are no arrays of {dtype}")
    if dtype.kind == "f":
        items = [float.fromhex(each) for each in items]
    return np.array(items, dtype=dtype).reshape(shape)
