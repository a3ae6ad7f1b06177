"""The arguments of a launch as the bytes of a kernel's parameters, and its arrays in global memory."""

import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from alphabet_ptx import unwritten
from alphabet_ptx.datatypes import Array, size_of
from alphabet_ptx.descriptors import Mapped
from alphabet_ptx.errors import PtxError
from alphabet_ptx.memory import ORIGIN, GlobalMemory
from alphabet_ptx.program import Parameter, Program

# Element types of Triton and the numpy types that hold them.
ELEMENTS = {
    "i1": "bool uint8 int8",
    "u1": "bool uint8 int8",
    "i8": "int8",
    "u8": "uint8 bool",
    "i16": "int16",
    "u16": "uint16",
    "i32": "int32",
    "u32": "uint32",
    "i64": "int64",
    "u64": "uint64",
    "fp8e4nv": "float8_e4m3fn uint8 int8",
    "fp8e5": "float8_e5m2 uint8 int8",
    "fp8e4b15": "uint8 int8",
    "fp8e4b8": "float8_e4m3fnuz uint8 int8",
    "fp8e5b16": "float8_e5m2fnuz uint8 int8",
    "fp16": "float16",
    "bf16": "bfloat16 uint16 int16",
    "fp32": "float32",
    "fp64": "float64",
}
# Triton appends pointers to scratch memory: the first to that of the grid, for tensor descriptors; the second, which
# profilers use, is never followed.
SCRATCH_POINTERS = 2
SCRATCH = "the kernel's scratch memory"


@dataclass(frozen=True)
class Placed:
    """An array that was passed, and where its bytes are in global memory."""

    array: Array
    offset: int


def name_arguments(arguments: Mapping[str, object] | Sequence[object], names: Sequence[str]) -> dict[str, object]:
    """The arguments by name, in the order of `names`, from a mapping or a sequence."""
    if not isinstance(arguments, Mapping):
        if len(arguments) != len(names):
            raise PtxError(f"arguments must be {len(names)} ({', '.join(names)}); got {len(arguments)}")
        return dict(zip(names, arguments, strict=True))
    missing, unknown = (
        [name for name in names if name not in arguments],
        [name for name in arguments if name not in names],
    )
    if missing or unknown:
        raise PtxError(f"arguments must be {', '.join(names)}; missing {missing}, unknown {unknown}")
    return {name: arguments[name] for name in names}


def as_array(name: str, value: object, kind: str | None) -> Array | None:
    """The array behind an argument, or None for a number; torch tensors on the CPU come through `.numpy()`."""
    element = ""
    if isinstance(value, Mapped):
        value = value.descriptor.base
    if hasattr(value, "detach") and hasattr(value, "numpy"):
        value, element = _read_tensor(name, value)
    if not isinstance(value, np.ndarray):
        return None
    element = element or str(value.dtype)
    if kind is not None and not kind.startswith("*"):
        raise PtxError(f"argument {name} must be a number of type {kind}; got an array")
    if not value.flags.c_contiguous:
        raise PtxError(f"argument {name} must be contiguous; got strides {value.strides} for shape {value.shape}")
    if kind is not None and element not in ELEMENTS[kind[1:]].split():
        raise PtxError(f"argument {name} must have dtype {ELEMENTS[kind[1:]].split()[0]} for {kind}; got {element}")
    return value


def _read_tensor(name: str, tensor: Any) -> tuple[Array, str]:
    """A torch tensor as an array of the same bytes, and the name of its type; numpy may only have its bits."""
    element = str(tensor.dtype).removeprefix("torch.")
    try:
        if element.startswith(("bfloat16", "float8")):
            torch = sys.modules[type(tensor.dtype).__module__]
            tensor = tensor.view(torch.int16 if element == "bfloat16" else torch.uint8)
        return tensor.detach().numpy(), element
    except (TypeError, RuntimeError) as error:
        raise PtxError(f"argument {name} cannot be seen as a numpy array: {error}") from error


def lay_out(memory: GlobalMemory, arrays: Mapping[str, Array]) -> dict[str, Placed]:
    """Copy the arrays of a launch into global memory; returns where each of them lies there.

    Arrays that overlap in the caller's memory overlap here, too, and are aligned as they are there.
    """
    spans = sorted((_address(array), _address(array) + array.nbytes, name) for name, array in arrays.items())
    groups: list[tuple[int, int, list[str]]] = []
    for start, end, name in spans:
        if groups and (start < groups[-1][1] or (start, end) == groups[-1][:2]):
            first, last, names = groups[-1]
            groups[-1] = (first, max(last, end), [*names, name])
        else:
            groups.append((start, end, [name]))
    pieces = [
        (", ".join(names), end - start, all(arrays[name].flags.writeable for name in names), start)
        for start, end, names in groups
    ]
    placed = {}
    for (start, _, names), piece in zip(groups, memory.allocate(pieces), strict=True):
        for name in names:
            array = arrays[name]
            offset = piece.start + _address(array) - start
            octets = memory.bytes[offset : offset + array.nbytes]
            octets[:] = array.reshape(-1).view(np.uint8)
            unknown = unwritten.find(octets, _address(array))
            if unknown is not None:
                memory.forget(offset, unknown)
            placed[name] = Placed(array, offset)
    return placed


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def write_back(memory: GlobalMemory, placed: Mapping[str, Placed]) -> None:
    """Copy the results back into the caller's arrays."""
    for place in placed.values():
        if place.array.flags.writeable:
            size = place.array.nbytes
            place.array.reshape(-1).view(np.uint8)[:] = memory.bytes[place.offset : place.offset + size]


def pack_parameters(
    program: Program, values: Mapping[str, object], placed: Mapping[str, Placed], kinds: Mapping[str, str]
) -> dict[str, bytes]:
    """The bytes of each parameter; parameters beyond the arguments are Triton's scratch pointers."""
    extra = program.parameters[len(values) :]
    if (
        len(values) > len(program.parameters)
        or len(extra) > SCRATCH_POINTERS
        or any(part.kind != "u64" for part in extra)
    ):
        raise PtxError(f"kernel {program.name} has {len(program.parameters)} parameters; got {len(values)} arguments")
    packed = {parameter.name: bytes(8) for parameter in extra}
    if SCRATCH in placed:
        packed[extra[0].name] = struct.pack("<Q", ORIGIN + placed[SCRATCH].offset)
    for parameter, (name, value) in zip(program.parameters, values.items(), strict=False):
        if isinstance(value, Mapped):
            packed[parameter.name] = value.encode(ORIGIN + placed[name].offset)
        elif parameter.size != size_of(parameter.kind):
            packed[parameter.name] = _pack_bytes(name, value, parameter, kinds.get(name))
        elif name in placed:
            packed[parameter.name] = struct.pack("<Q", ORIGIN + placed[name].offset)
        else:
            packed[parameter.name] = _pack_number(name, value, parameter, kinds.get(name))
    return packed


def _pack_bytes(name: str, value: Any, parameter: Parameter, kind: str | None) -> bytes:
    """A parameter that is passed by value as an array of bytes; so is a number of half precision."""
    if kind in ("fp16", "bf16") and parameter.size == 2 and isinstance(value, int | float | np.number):
        return _pack_half(float(value), kind)
    if not isinstance(value, bytes | bytearray | memoryview) or len(bytes(value)) != parameter.size:
        given = (
            f"{len(bytes(value))} bytes" if isinstance(value, bytes | bytearray | memoryview) else type(value).__name__
        )
        raise PtxError(f"argument {name} is passed by value and must be {parameter.size} bytes; got {given}")
    return bytes(value)


def _pack_half(value: float, kind: str) -> bytes:
    """A number in two bytes, as Triton's launcher makes it: bfloat16 is cut."""
    return struct.pack("<e", value) if kind == "fp16" else struct.pack("<f", value)[2:]


def _pack_number(name: str, value: Any, parameter: Parameter, kind: str | None) -> bytes:
    if value is None and parameter.kind in ("u64", "b64"):
        return bytes(8)
    if not isinstance(value, int | float | np.number | np.bool_) or (kind or "").startswith("*"):
        raise PtxError(f"argument {name} must have type {kind or parameter.kind}; got {type(value).__name__}")
    size = size_of(parameter.kind)
    if kind == "bf16":
        return _pack_half(float(value), kind)
    if parameter.kind.startswith("f") or (kind or "").startswith("fp"):
        return struct.pack({2: "<e", 4: "<f", 8: "<d"}[size], float(value))
    if int(value) != value or not -(1 << (8 * size - 1)) <= value < 1 << 8 * size:
        raise PtxError(f"argument {name} must be an integer of {8 * size} bits; got {value}")
    return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
