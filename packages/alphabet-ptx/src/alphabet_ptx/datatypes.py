"""The types of PTX as numpy arrays: one element per thread, and two where a register holds a packed pair.

bfloat16 has no numpy type: its values are the 16 bits, which `rounding` turns into float32 and back; and those of the
8-bit types the 8 bits, which `fp8` turns into float16 and back.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Mask = NDArray[np.bool_]

WARP = 32

DTYPES: dict[str, np.dtype[Any]] = {
    "pred": np.dtype(np.bool_),
    "b8": np.dtype(np.uint8),
    "u8": np.dtype(np.uint8),
    "s8": np.dtype(np.int8),
    "e4m3x2": np.dtype((np.uint8, (2,))),
    "e5m2x2": np.dtype((np.uint8, (2,))),
    "b16": np.dtype(np.uint16),
    "u16": np.dtype(np.uint16),
    "s16": np.dtype(np.int16),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(np.uint16),
    "b32": np.dtype(np.uint32),
    "u32": np.dtype(np.uint32),
    "s32": np.dtype(np.int32),
    "f32": np.dtype(np.float32),
    "tf32": np.dtype(np.uint32),
    "f16x2": np.dtype((np.float16, (2,))),
    "bf16x2": np.dtype((np.uint16, (2,))),
    "b64": np.dtype(np.uint64),
    "u64": np.dtype(np.uint64),
    "s64": np.dtype(np.int64),
    "f64": np.dtype(np.float64),
}


def size_of(kind: str) -> int:
    """The number of bytes of a PTX type."""
    return DTYPES[kind].itemsize


def unsigned(size: int) -> np.dtype[Any]:
    """The numpy type of an unsigned integer of `size` bytes, which stands for plain bits."""
    return np.dtype(f"u{size}")


def is_float(kind: str) -> bool:
    """Whether the type's numbers have a fraction."""
    return "f" in kind


def is_signed(kind: str) -> bool:
    """Whether a narrower value of this integer type is extended by its sign."""
    return kind.startswith("s")
