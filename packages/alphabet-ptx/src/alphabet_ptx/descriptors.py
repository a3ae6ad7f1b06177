"""Tensor descriptors as arguments: Triton's TensorDescriptor, or any object with the same attributes.

Triton passes a descriptor as several parameters. Where the architecture copies tensors by itself, these are a tensor
map of 128 bytes, the sizes and the strides; elsewhere the address, sizes, strides, flags, and sizes and strides again.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from alphabet_ptx.errors import PtxError
from alphabet_ptx.tensormaps import ELEMENTS, TensorMap

PATTERN = re.compile(r"tensordesc<(\w+)\[(\d+(?:,\s*\d+)*)\]>")
TF32 = ELEMENTS.index("tf32")
_ATTRIBUTES = ("base", "shape", "strides", "block_shape")


def is_descriptor(kind: str | None) -> bool:
    """Whether an argument's type is that of a tensor descriptor."""
    return kind is not None and PATTERN.fullmatch(kind) is not None


def check(name: str, value: Any, kind: str) -> None:
    """Raise PtxError unless the argument is a descriptor of blocks as the kernel was compiled for."""
    found = PATTERN.fullmatch(kind)
    missing = [attribute for attribute in _ATTRIBUTES if not hasattr(value, attribute)]
    if found is None or missing:
        raise PtxError(f"argument {name} must be a tensor descriptor for {kind}; got {type(value).__name__}")
    block = [int(size) for size in found[2].split(",")]
    if list(value.block_shape) != block or not len(value.shape) == len(value.strides) == len(block):
        raise PtxError(
            f"argument {name} must describe blocks of {block} and have a size and a stride for each of their "
            f"dimensions; got {list(value.block_shape)}, {list(value.shape)}, {list(value.strides)}"
        )
    if value.strides[-1] != 1:
        raise PtxError(f"argument {name} must be contiguous in its last dimension; got stride {value.strides[-1]}")


@dataclass(frozen=True)
class Mapped:
    """A descriptor that is passed as a tensor map; `meta` is what Triton says of the map."""

    descriptor: Any
    meta: Mapping[str, Any]

    def encode(self, address: int) -> bytes:
        """The map, for a tensor that lies at an address."""
        value, meta = self.descriptor, self.meta
        tensor = TensorMap(
            address=address,
            element=TF32 if getattr(value, "round_f32_to_tf32", False) else int(meta["elem_type"]),
            sizes=tuple(int(size) for size in reversed(value.shape)),
            strides=tuple(int(stride) * int(meta["elem_size"]) for stride in reversed(value.strides[:-1])),
            box=tuple(int(size) for size in reversed(meta["block_size"])),
            swizzle=int(meta["swizzle"]),
            fill=int(_pads_with_nan(value)),
        )
        return tensor.encode()


def expand(
    values: Mapping[str, object], kinds: Mapping[str, str], maps: Sequence[Mapping[str, Any]], parameters: int
) -> tuple[dict[str, object], dict[str, str]]:
    """The arguments and their types with each descriptor as the parameters that Triton makes of it.

    `maps` has what Triton says of each map, and nothing if the kernel uses none; `parameters` is how many there are.
    """
    names = [name for name in values if is_descriptor(kinds[name])]
    for name in names:
        check(name, values[name], kinds[name])
    if not maps:
        # Versions of Triton differ in the number of flags: what the numbers leave over.
        numbers = sum(4 * kinds[name].count(",") + 4 for name in names)
        flags = (parameters - len(values) - numbers) // len(names) if names else 0
    result: dict[str, tuple[object, str]] = {}
    for name, value in values.items():
        if name not in names:
            result[name] = (value, kinds[name])
            continue
        described: Any = value
        parts = [("size", "i32", described.shape), ("stride", "i64", described.strides)]
        if maps:
            result[name] = (Mapped(value, maps[names.index(name)]), _pointer(kinds[name]))
        else:
            result[name] = (described.base, _pointer(kinds[name]))
            chosen = (_pads_with_nan(value), bool(getattr(value, "round_f32_to_tf32", False)))[:flags]
            parts = [("size", "i64", described.shape), parts[1], ("flag", "i1", chosen), *parts]
        for group, (what, kind, given) in enumerate(parts):
            result |= {f"{name}: {what} {i} ({group})": (int(number), kind) for i, number in enumerate(given)}
    return {name: value for name, (value, _) in result.items()}, {name: kind for name, (_, kind) in result.items()}


def _pointer(kind: str) -> str:
    found = PATTERN.fullmatch(kind)
    assert found is not None  # `check` has seen to it
    return f"*{found[1]}"


def _pads_with_nan(value: Any) -> bool:
    return bool(getattr(value, "padding", "zero") == "nan")
