"""Constants as they are written in PTX, and the special registers of a block."""

import re
import struct

import numpy as np

from alphabet_ptx.datatypes import WARP, Array, is_float, size_of
from alphabet_ptx.errors import PtxError


def constant(text: str, kind: str) -> int | float | bool:
    """The value of `text` where an instruction reads the type `kind`."""
    if kind == "pred":
        return int(text, 0) != 0
    if found := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})", text):
        single, double = found.groups()
        if is_float(kind):
            value: float = (
                struct.unpack(">f", bytes.fromhex(single))[0]
                if single
                else struct.unpack(">d", bytes.fromhex(double))[0]
            )
            return value
        return int(single or double, 16)
    if re.fullmatch(r"-?\d+\.\d*(?:[eE][-+]?\d+)?", text):
        return float(text)
    try:
        number = int(text.rstrip("U"), 0)
    except ValueError:
        raise PtxError(f"cannot read the constant {text}") from None
    bits = 8 * size_of(kind)
    if kind == "f16":  # LLVM writes them as bits
        return float(np.array(number, np.uint16).view(np.float16))
    if is_float(kind) and kind != "bf16":
        raise PtxError(f"a constant of type {kind} is written 0f..., 0d... or with a point; found {text}")
    number &= (1 << bits) - 1
    return number - (1 << bits) if kind.startswith("s") and number >> (bits - 1) else number


def special_registers(threads: tuple[int, int, int]) -> dict[str, Array]:
    """Read-only registers by name; those of the grid and the block's place in it are filled in when they are known."""
    count = int(np.prod(threads))
    thread = np.arange(count, dtype=np.uint32)
    registers = {
        "%laneid": thread % np.uint32(WARP),
        "%warpid": thread // np.uint32(WARP),
        "%nwarpid": np.full(count, -(-count // WARP), np.uint32),
    }
    rest = thread
    for axis, size in zip("xyz", threads, strict=True):
        registers[f"%tid.{axis}"] = rest % np.uint32(size)
        rest = rest // np.uint32(size)
        registers[f"%ntid.{axis}"] = np.full(count, size, np.uint32)
        registers[f"%ctaid.{axis}"] = np.zeros(count, np.uint32)
        registers[f"%nctaid.{axis}"] = np.ones(count, np.uint32)
        registers[f"%cluster_ctaid.{axis}"] = np.zeros(count, np.uint32)  # a cluster is one block
        registers[f"%cluster_nctaid.{axis}"] = np.ones(count, np.uint32)
    registers["%cluster_ctarank"] = np.zeros(count, np.uint32)
    registers["%cluster_nctarank"] = np.ones(count, np.uint32)
    lane = registers["%laneid"].astype(np.uint64)
    one = np.uint64(1)
    masks = {
        "eq": one << lane,
        "lt": (one << lane) - one,
        "le": (one << (lane + one)) - one,
        "gt": ~((one << (lane + one)) - one),
        "ge": ~((one << lane) - one),
    }
    return registers | {f"%lanemask_{name}": mask.astype(np.uint32) for name, mask in masks.items()}
