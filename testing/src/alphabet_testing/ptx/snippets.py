"""Short PTX programs for the tests, and arithmetic in exact fractions to compare them with."""

import re
from fractions import Fraction
from itertools import pairwise

import numpy as np
from alphabet_ptx import execute

THREADS = 64
DTYPES = {
    "pred": "bool", "b8": "u1", "u8": "u1", "s8": "i1", "b16": "u2", "u16": "u2", "s16": "i2", "f16": "f2",
    "bf16": "u2", "b32": "u4", "u32": "u4", "s32": "i4", "f32": "f4", "tf32": "u4", "f16x2": "u4", "bf16x2": "u4",
    "b64": "u8", "u64": "u8", "s64": "i8", "f64": "f8", "e4m3x2": "u2", "e5m2x2": "u2",
}  # fmt: skip
# precision in bits, smallest and largest exponent
FORMATS = {"f16": (11, -14, 15), "bf16": (8, -126, 127), "f32": (24, -126, 127), "f64": (53, -1022, 1023)}
HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"


def expand(pattern):
    """A list of all opcodes that a pattern of the instruction table stands for."""
    start = re.search(r"[\[{]", pattern)
    if start is None:
        return [pattern]
    depth, cuts = 0, [start.start()]
    for position in range(start.start(), len(pattern)):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(pattern[position], 0)
        if depth == 0 or (depth == 1 and pattern[position] == ","):
            cuts.append(position)
        if depth == 0:
            break
    choices = [pattern[a + 1 : b] for a, b in pairwise(cuts)] + ([""] if start[0] == "[" else [])
    before, after = pattern[: cuts[0]], expand(pattern[cuts[-1] + 1 :])
    return [before + middle + end for choice in choices for middle in expand(choice) for end in after]


def make_kernel(body, parameters=(), threads=THREADS, shared=0):
    """The PTX of a kernel around `body`, with registers %p, %h (16 bits), %r and %d (64 bits) of 40 each."""
    declared = ",\n".join(f".param .{kind} k_param_{i}" for i, kind in enumerate(parameters))
    memory = f".shared .align 16 .b8 buffer[{shared}];\n" if shared else ""
    return (
        f"{HEADER}{memory}.visible .entry k({declared})\n.reqntid {threads}\n{{\n"
        ".reg .pred %p<40>;\n.reg .b16 %h<40>;\n.reg .b32 %r<40>;\n.reg .b64 %d<40>;\n"
        f"{body}\nret;\n}}\n"
    )


def run(body, *arrays, threads=THREADS, shared=0, grid=1, **options):
    """The report of a body whose parameters are pointers to the arrays: %d0, %d1, ... hold them, %r0 the thread."""
    loads = [f"ld.param.b64 %d{i}, [k_param_{i}];" for i in range(len(arrays))]
    text = make_kernel("\n".join(["mov.u32 %r0, %tid.x;", *loads, body]), ["u64"] * len(arrays), threads, shared)
    return execute(text, grid, arrays, **options)


def offset(size, pointer=0):
    """Code that puts into %d10 the thread's place in an array, `size` bytes each."""
    return f"mul.wide.u32 %d10, %r0, {size};\nadd.s64 %d10, %d{pointer}, %d10;"


def stem(kind):
    """The name that registers of a type begin with."""
    if kind == "pred":
        return "%p"
    return {1: "%h", 2: "%h", 4: "%r", 8: "%d"}[np.dtype(DTYPES[kind]).itemsize]


def compute(opcode, sources, results, inputs, *, constants=(), before=(), after=(), taken=None):
    """The results of one elementwise instruction, an array each, from arrays of its sources.

    Sources are in registers from number 21 on, results behind them; the instruction itself takes the first `taken`.
    """
    body, operands = [], []
    outputs = [np.zeros(THREADS, DTYPES[kind]) for kind in results]
    for i, (kind, array) in enumerate(zip([*sources, *results], [*inputs, *outputs], strict=True)):
        assert array.dtype == np.dtype(DTYPES[kind])
        body += [f"mul.wide.u32 %d20, %r0, {array.itemsize};", f"add.s64 %d{i}, %d{i}, %d20;"]
        register = f"{stem(kind)}{i + 21}"
        operands.append(register)
        if i >= len(sources):
            continue
        if kind == "pred":
            body += [f"ld.global.u8 %h0, [%d{i}];", f"setp.ne.b16 {register}, %h0, 0;"]
        else:
            body.append(f"ld.global.b{8 * array.itemsize} {register}, [%d{i}];")
    given, made = operands[: len(sources)], operands[len(sources) :]
    body += before
    body.append(f"{opcode} {'|'.join(made)}, {', '.join([*given[:taken], *constants])};")
    body += after
    for i, (kind, register) in enumerate(zip(results, made, strict=True)):
        if kind == "pred":
            body += [f"selp.b16 %h0, 1, 0, {register};", f"st.global.b8 [%d{len(sources) + i}], %h0;"]
        else:
            width = np.dtype(DTYPES[kind]).itemsize * 8
            body.append(f"st.global.b{width} [%d{len(sources) + i}], {register};")
    report = run("\n".join(body), *inputs, *outputs)
    assert report.races == []
    return outputs


def round_fraction(exact, kind, mode="rn"):
    """A nonzero fraction rounded to a floating format."""
    precision, lowest, highest = FORMATS[kind]
    size = abs(exact)
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length() - 1, lowest)
    while Fraction(2) ** (exponent + 1) <= size:
        exponent += 1
    quantum = Fraction(2) ** (exponent - precision + 1)
    below = size // quantum
    rest = size / quantum - below
    away = {"rm": exact < 0, "rp": exact > 0, "rz": False}.get(mode, False) and rest > 0
    if mode == "rn":
        away = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1)
    if mode == "rna":
        away = rest >= Fraction(1, 2)
    result = (below + away) * quantum
    largest = (2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** highest
    if result > largest:
        inward = mode == "rz" or (mode == "rm" and exact > 0) or (mode == "rp" and exact < 0)
        result = largest if inward else float("inf")
    return float(-result if exact < 0 else result) if result else (-0.0 if exact < 0 else 0.0)


def decode_bf16(bits):
    """The number that the bits of a bfloat16 stand for."""
    return float((np.uint32(bits) << np.uint32(16)).view(np.float32))


def encode_bf16(value):
    """The bits of a bfloat16 for a number that it can represent."""
    return np.uint16(np.float32(value).view(np.uint32) >> np.uint32(16))


def decode_fp8(bits, kind):
    """The number that the bits of an 8-bit float stand for, from the definition of its type."""
    places, bias = (3, 7) if kind == "e4m3" else (2, 15)
    exponent, fraction = (bits & 0x7F) >> places, bits & ((1 << places) - 1)
    if (kind == "e4m3" and bits & 0x7F == 0x7F) or (kind == "e5m2" and exponent == 31 and fraction):
        return float("nan")
    if kind == "e5m2" and exponent == 31:
        size = float("inf")
    else:
        size = (fraction + ((1 << places) if exponent else 0)) * 2.0 ** (max(exponent, 1) - bias - places)
    return -size if bits & 0x80 else size
