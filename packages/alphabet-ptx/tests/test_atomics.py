"""Atomics against a plain loop over the threads, each opcode of them."""

import numpy as np
import pytest
from alphabet_ptx import atomics
from alphabet_testing.ptx.accesses import WIDTHS, choose_opcodes, registers, split
from alphabet_testing.ptx.snippets import DTYPES, THREADS, offset, run

COMBINE = {
    "add": lambda old, value, new: old + value,
    "min": lambda old, value, new: min(old, value),
    "max": lambda old, value, new: max(old, value),
    "and": lambda old, value, new: old & value,
    "or": lambda old, value, new: old | value,
    "xor": lambda old, value, new: old ^ value,
    "exch": lambda old, value, new: value,
    "cas": lambda old, value, new: new if old == value else old,
}


def check_atomic(opcode):
    """All threads on four cells, in the order of their numbers."""
    parts = opcode.split(".")
    name = next(part for part in parts if part in COMBINE)
    count, kind, size = split(opcode)
    element = {"f16x2": "f2", "bf16x2": "u2", "bf16": "u2"}.get(kind, DTYPES[kind])
    lanes = count * size // np.dtype(element).itemsize
    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.integers(0, 4 if name == "cas" else 100, shape)  # noqa: E731
    cells, values, new = draw(4, lanes), draw(THREADS, lanes), draw(THREADS, lanes)
    encode = (
        (lambda a: (a.astype("f4").view("u4") >> 16).astype("u2")) if "bf16" in kind else (lambda a: a.astype(element))
    )
    memory, given, replacement = encode(cells), encode(values), encode(new)
    out = np.zeros((THREADS, lanes), element)
    names, vector = registers(kind, size, count)
    others = [f"{WIDTHS[size]}{25 + i}" for i in range(count)]
    second = others[0] if count == 1 else "{" + ", ".join(others) + "}"
    third = f"{WIDTHS[size]}30"
    body = ["and.b32 %r9, %r0, 3;"]
    shared = "shared" in opcode
    step = count * size
    body += [f"mul.wide.u32 %d9, %r9, {step};", "add.s64 %d9, %d0, %d9;"]
    address = "%d9"
    if shared:  # through a copy of the cells
        body += [f"mul.lo.u32 %r10, %r9, {step};", "mov.b32 %r11, buffer;", "add.s32 %r10, %r10, %r11;"]
        body += ["setp.lt.u32 %p1, %r0, 4;"]
        for i in range(step // min(size, 4)):
            width = 8 * min(size, 4)
            register = "%h5" if width == 16 else "%r5"
            body += [f"@%p1 ld.global.b{width} {register}, [%d9+{i * width // 8}];"]
            body += [f"@%p1 st.shared.b{width} [%r10+{i * width // 8}], {register};"]
        body += ["bar.sync 0;"]
        address = "%r10"
    body += [offset(step, 1), "mov.b64 %d11, %d10;", offset(step, 3)]
    body += [f"ld.global.b{8 * size} {register}, [%d11+{i * size}];" for i, register in enumerate(others)]
    body += [f"ld.global.b{8 * size} {third}, [%d10];"]
    operands = f"[{address}], {second}" + (f", {third}" if name == "cas" else "")
    body.append(f"{opcode} {vector + ', ' if parts[0] == 'atom' else ''}{operands};")
    body += [offset(step, 2)]
    if parts[0] == "atom":
        body += [f"st.global.b{8 * size} [%d10+{i * size}], {register};" for i, register in enumerate(names)]
    if shared:
        body += ["bar.sync 0;"]
        for i in range(step // min(size, 4)):
            width = 8 * min(size, 4)
            register = "%h5" if width == 16 else "%r5"
            body += [f"@%p1 ld.shared.b{width} {register}, [%r10+{i * width // 8}];"]
            body += [f"@%p1 st.global.b{width} [%d9+{i * width // 8}], {register};"]
    report = run("\n".join(body), memory, given, out, replacement, shared=4 * step)
    assert report.races == []
    old = np.zeros_like(values)
    rounding = (lambda x: x) if "f" not in kind else lambda x: float(encode_decode(x, kind, encode))
    for thread in range(THREADS):
        for lane in range(lanes):
            old[thread, lane] = cells[thread % 4, lane]
            cells[thread % 4, lane] = rounding(
                COMBINE[name](cells[thread % 4, lane], values[thread, lane], new[thread, lane])
            )
    assert (memory == encode(cells)).all(), opcode
    if parts[0] == "atom":
        assert (out == encode(old)).all(), opcode


def encode_decode(value, kind, encode):
    if "bf16" not in kind:
        return np.array(value).astype({"f16": "f2", "f16x2": "f2"}.get(kind, "f8"))
    bits = int(np.float32(value).view(np.uint32))
    return np.uint32((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)


@pytest.mark.parametrize("pattern", atomics.TABLE)
def test_every_atomic_combines_as_it_should(pattern):
    for opcode in choose_opcodes(pattern):
        check_atomic(opcode)
