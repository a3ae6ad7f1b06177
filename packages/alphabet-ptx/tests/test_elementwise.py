"""Every elementwise opcode of the table against exact arithmetic in Python."""

import math
import operator
from fractions import Fraction

import numpy as np
import pytest
from alphabet_ptx import conversions, integers, reals
from alphabet_testing.ptx.exact_floats import agree, check_float, finite, flush, larger, smaller
from alphabet_testing.ptx.snippets import DTYPES, FORMATS, THREADS, compute, decode_fp8, expand, round_fraction, stem
from alphabet_testing.ptx.values import make_values, to_python, wrap

TABLE = integers.TABLE | reals.TABLE | conversions.TABLE


def bit_field(value, start, count, width, signed):
    bits = [value >> i & 1 for i in range(width)]
    sign = bits[min(start + count - 1, width - 1)] if signed and count else 0
    return sum((bits[start + i] if i < count and start + i < width else sign) << i for i in range(width))


def insert_bits(a, b, start, count, width):
    for i in range(count):
        if start + i < width:
            b = b & ~(1 << start + i) | (a >> i & 1) << start + i
    return b


def permute(a, b, selector):
    octets = (a | b << 32).to_bytes(8, "little")
    result = 0
    for i in range(4):
        choice = selector >> 4 * i & 15
        byte = octets[choice & 7]
        result |= (byte if choice < 8 else 255 * (byte >> 7)) << 8 * i
    return result


def truncate(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def width_of(kind):
    return 8 * np.dtype(DTYPES[kind]).itemsize


WIDER = {"s16": "s32", "u16": "u32", "s32": "s64", "u32": "u64"}
SHIFTS = ("u32",)
# Per mnemonic: the exact integer result; types of sources and result where they are not the opcode's last.
INTEGERS = {
    "add": lambda kind, a, b: a + b,
    "sub": lambda kind, a, b: a - b,
    "mul.lo": lambda kind, a, b: a * b,
    "mul.hi": lambda kind, a, b: a * b >> width_of(kind),
    "mul.wide": lambda kind, a, b: a * b,
    "mad.lo": lambda kind, a, b, c: a * b + c,
    "mad.hi": lambda kind, a, b, c: (a * b >> width_of(kind)) + c,
    "mad.wide": lambda kind, a, b, c: a * b + c,
    "div": lambda kind, a, b: truncate(a, b),
    "rem": lambda kind, a, b: a - b * truncate(a, b),
    "min": lambda kind, a, b: min(a, b),
    "max": lambda kind, a, b: max(a, b),
    "abs": lambda kind, a: abs(a),
    "neg": lambda kind, a: -a,
    "and": lambda kind, a, b: a & b,
    "or": lambda kind, a, b: a | b,
    "xor": lambda kind, a, b: a ^ b,
    "not": lambda kind, a: (not a) if kind == "pred" else ~a,
    "shl": lambda kind, a, n: a << n if n < 64 else 0,
    "shr": lambda kind, a, n: a >> n,
    "bfe": lambda kind, a, start, count: bit_field(a, start & 255, count & 255, width_of(kind), kind[0] == "s"),
    "bfi": lambda kind, a, b, start, count: insert_bits(a, b, start & 255, count & 255, width_of(kind)),
    "prmt": lambda kind, a, b, c: permute(a, b, c),
    "popc": lambda kind, a: a.bit_count(),
    "clz": lambda kind, a: width_of(kind) - a.bit_length(),
    "brev": lambda kind, a: int(f"{a:0{width_of(kind)}b}"[::-1], 2),
    "shf.l.wrap": lambda kind, a, b, n: (a | b << 32) << (n & 31) >> 32,
    "shf.l.clamp": lambda kind, a, b, n: (a | b << 32) << min(n, 32) >> 32,
    "shf.r.wrap": lambda kind, a, b, n: (a | b << 32) >> (n & 31),
    "shf.r.clamp": lambda kind, a, b, n: (a | b << 32) >> min(n, 32),
}  # fmt: skip


def check_integer(opcode):
    name, kind = opcode.rsplit(".", 1)
    oracle = INTEGERS[name]
    count = oracle.__code__.co_argcount - 1
    sources, result = [kind] * count, kind
    if name in ("shl", "shr") or name.startswith("shf"):
        sources[-1] = "u32"
    if name in ("bfe", "bfi"):
        sources[-2:] = ["u32", "u32"]
    if name.endswith("wide"):
        result = WIDER[kind]
        sources[2:] = [result] * len(sources[2:])
    if name in ("popc", "clz"):
        result = "u32"
    inputs = [make_values(source, seed) for seed, source in enumerate(sources)]
    if name in ("div", "rem"):
        inputs[1][inputs[1] == 0] = 3
    (got,) = compute(opcode, sources, [result], inputs)
    for thread in range(THREADS):
        operands = [values[thread].item() for values in inputs]
        want = oracle(kind, *operands)
        want = bool(want) if result == "pred" else wrap(want, result)
        assert got[thread] == want, (opcode, operands, got[thread], want)


RELATIONS = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
JOINS = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


def holds(relation, a, b):
    unordered = a != a or b != b
    if relation in ("num", "nan"):
        return unordered == (relation == "nan")
    if relation[-1] == "u" and relation[:-1] in RELATIONS:
        return unordered or RELATIONS[relation[:-1]](a, b)
    return not unordered and RELATIONS[UNSIGNED.get(relation, relation)](a, b)


def check_setp(opcode):
    _, relation, *modifiers, kind = opcode.split(".")
    if kind.endswith("x2"):
        check_setp_of_pairs(opcode)
        return
    join = next((JOINS[part] for part in modifiers if part in JOINS), None)
    sources = [kind, kind] + ["pred"] * (join is not None)
    inputs = [make_values(source, seed % 2) for seed, source in enumerate(sources)]
    inputs[1][::3] = inputs[0][::3]
    positive, negative = compute(opcode, sources, ["pred", "pred"], inputs)
    for thread in range(THREADS):
        a, b = (to_python(values[thread], kind) for values in inputs[:2])
        want = holds(relation, flush(a), flush(b)) if "ftz" in modifiers else holds(relation, a, b)
        third = inputs[2][thread] if join else None
        assert positive[thread] == (join(want, third) if join else want), (opcode, a, b, third)
        assert negative[thread] == (join(not want, third) if join else not want), (opcode, a, b, third)


def check_setp_of_pairs(opcode):
    """`p` is about the lower halves, `q` about the upper ones."""
    _, relation, *modifiers, pair = opcode.split(".")
    kind = pair.removesuffix("x2")
    join = next((JOINS[part] for part in modifiers if part in JOINS), None)
    halves = [[make_values(kind, seed) for seed in seeds] for seeds in ((0, 1), (2, 3))]
    halves[1][0][::3] = halves[0][0][::3]
    words = [np.stack(half, axis=1).copy().view("u4")[:, 0] for half in halves]
    third = [make_values("pred", 4)] if join else []
    found = compute(opcode, [pair, pair, *["pred"] * len(third)], ["pred", "pred"], [*words, *third])
    for thread in range(THREADS):
        for half in range(2):
            a, b = (to_python(values[half][thread], kind) for values in halves)
            if "ftz" in modifiers:
                a, b = (math.copysign(0.0, value) if abs(value) < 2.0**-14 else value for value in (a, b))
            want = holds(relation, a, b)
            want = join(want, bool(third[0][thread])) if join else want
            assert found[half][thread] == want, (opcode, a, b)


WHOLE = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


def convert(parts, value):
    _, *modifiers, result, source = parts
    if "ftz" in modifiers and source == "f32":
        value = flush(value)
    is_float = "f" in result
    if not is_float:
        if "f" not in source:
            return wrap(value, result).item()
        if math.isnan(value):
            return 0
        limits = np.iinfo(DTYPES[result])
        return max(
            limits.min,
            min(limits.max, WHOLE[modifiers[0]](value) if finite(value) else int(math.copysign(2**70, value))),
        )
    if "f" in source and not finite(value):
        return value
    if modifiers and modifiers[0] in WHOLE:
        return math.copysign(float(WHOLE[modifiers[0]](value)), value)
    mode = modifiers[0] if modifiers and modifiers[0] != "ftz" else "rn"
    if value == 0:
        return float(value)
    if result == "tf32":
        precise = FORMATS["f32"]
        FORMATS["tf32"] = (11, *precise[1:])
    answer = round_fraction(Fraction(value), result, mode)
    return flush(answer) if "ftz" in modifiers and result == "f32" else answer


def nearest_fp8(value, kind):
    """The bits of the nearest number, ties to the even one; the largest for what lies beyond it, 0x7F for NaN."""
    if math.isnan(value):
        return 0x7F
    finite_bits = [bits for bits in range(0x80) if math.isfinite(decode_fp8(bits, kind))]
    size = Fraction(min(abs(value), decode_fp8(finite_bits[-1], kind)))
    distance = lambda bits: (abs(size - Fraction(decode_fp8(bits, kind))), bits & 1)  # noqa: E731
    return min(finite_bits, key=distance) | (0x80 if math.copysign(1, value) < 0 else 0)


def check_fp8(opcode):
    *modifiers, result, source = opcode.split(".")
    rectify = (lambda value: 0.0 if value <= 0 else value) if "relu" in modifiers else lambda value: value
    if result == "f16x2":
        kind = source.removesuffix("x2")
        for first in range(0, 256, 2 * THREADS):
            pairs = np.arange(first, first + 2 * THREADS, dtype=np.uint8).view("u2")
            (got,) = compute(opcode, [source], [result], [pairs])
            for bits, found in zip(pairs.view("u1"), got.view("f2").tolist(), strict=True):
                assert agree(found, rectify(decode_fp8(int(bits), kind)), None, 0), (opcode, bits)
        return
    kind = result.removesuffix("x2")
    wide = source.removesuffix("x2")
    for scale in (2.0**-8, 1.0, 2.0**6):
        with np.errstate(over="ignore"):
            lower, upper = ((make_values(wide, seed) * scale).astype(DTYPES[wide]) for seed in range(2))
        ties = np.array([decode_fp8(bits, kind) + decode_fp8(bits + 1, kind) for bits in range(40)]) / 2
        lower[:40] = ties
        packed = np.stack([lower, upper], axis=1).copy()
        given = [packed.view("u4")[:, 0]] if source == "f16x2" else [upper, lower]
        (got,) = compute(opcode, [source] * len(given), [result], given)
        for bits, value in zip(got.view("u1").tolist(), packed.ravel().tolist(), strict=True):
            assert bits == nearest_fp8(rectify(value), kind), (opcode, value, bits)


def check_cvt(opcode):
    parts = opcode.split(".")
    result, source = parts[-2:]
    if "e4m3" in opcode or "e5m2" in opcode:
        check_fp8(opcode)
        return
    if result.endswith("x2"):
        inputs = [make_values("f32", seed) for seed in range(2)]
        (got,) = compute(opcode, ["f32", "f32"], [result], inputs)
        half = result.removesuffix("x2")
        halves = got.view(DTYPES[half]).reshape(THREADS, 2)
        found = [(halves[:, 1], inputs[0]), (halves[:, 0], inputs[1])]
        parts[-2], result = half, half
    else:
        values = make_values(source, 0)
        (got,) = compute(opcode, [source], [result], [values])
        found = [(got, values)]
    for got, values in found:
        for thread in range(THREADS):
            value = to_python(values[thread], source)
            want = convert(parts, value)
            bits = got[thread]
            number = bits.view(np.float32).item() if result == "tf32" else to_python(bits, result)
            if isinstance(want, float):
                assert agree(number, want, None, 0), (opcode, value, number, want)
            else:
                assert number == want, (opcode, value, number, want)


def check_carry(opcode):
    """A carry comes in from an addition before, and the carry out is added to the result, twice."""
    name, *modifiers, kind = opcode.split(".")
    unsigned, width, count = f"u{kind[1:]}", width_of(kind), 3 if "mad" in name else 2
    inputs = [make_values(unsigned, seed) for seed in range(count + 1)]
    register = stem(unsigned)
    maker, result = f"{register}{21 + count}", f"{register}{22 + count}"
    before = [f"add.cc.{unsigned} {register}20, {maker}, {maker};", f"mov.b{width} {register}19, 0;"]
    after = [f"addc.{unsigned} {register}19, {register}19, {register}19;"] if "cc" in modifiers else []
    after += [f"mad.lo.{unsigned} {result}, {register}19, 2, {result};"]
    kinds = [unsigned] * (count + 1)
    (got,) = compute(opcode, kinds, [unsigned], inputs, before=before, after=after, taken=count)
    for thread in range(THREADS):
        a, b, *c, made = (values[thread].item() for values in inputs)
        carry = made >> width - 1 if name.endswith("c") else 0
        if c:
            want = (a * b >> width if "hi" in modifiers else a * b % (1 << width)) + c[0] + carry
        else:
            want = a + b + carry if name.startswith("add") else a - b - carry
        overflow = "cc" in modifiers and not 0 <= want < 1 << width
        assert got[thread] == (want + 2 * overflow) % (1 << width), (opcode, a, b, c, carry)


def check_other(opcode):
    name, *_, kind = opcode.split(".")
    if name == "mov":
        inputs = [make_values(kind, 0)]
        (got,) = compute(opcode, [kind], [kind], inputs)
        assert got.tobytes() == inputs[0].tobytes()
    elif name == "selp":
        inputs = [make_values(kind, 0), make_values(kind, 1), make_values("pred", 2)]
        (got,) = compute(opcode, [kind, kind, "pred"], [kind], inputs)
        assert got.tobytes() == np.where(inputs[2], *inputs[:2]).tobytes()
    elif name == "cvta":
        inputs = [make_values("u64", 0)]
        (got,) = compute(opcode, ["u64"], ["u64"], inputs)
        assert (got == inputs[0]).all()
    elif name == "lop3":
        inputs = [make_values("b32", seed) for seed in range(3)]
        for table in (0x80, 0xFE, 0x96, 0xCA, 0x1B, 0):
            (got,) = compute(opcode, ["b32"] * 3, ["b32"], inputs, constants=[str(table)])
            for thread in range(0, THREADS, 7):
                a, b, c = (int(values[thread]) for values in inputs)
                want = sum((table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i for i in range(32))
                assert got[thread] == want
    else:
        assert name == "testp"
        values = make_values(kind, 0)
        (got,) = compute(opcode, [kind], ["pred"], [values])
        for value, found in zip(values, got, strict=True):
            normal = bool(np.isfinite(value)) and abs(value) >= np.finfo(value.dtype).tiny
            subnormal = bool(np.isfinite(value)) and value != 0 and not normal
            want = {
                "finite": np.isfinite(value), "infinite": np.isinf(value), "number": value == value,
                "notanumber": np.isnan(value), "normal": normal, "subnormal": subnormal,
            }[opcode.split(".")[1]]  # fmt: skip
            assert found == want, (opcode, value)


def find_check(opcode):
    name = opcode.split(".")[0]
    if name in ("setp", "cvt"):
        return {"setp": check_setp, "cvt": check_cvt}[name]
    if name in ("mov", "selp", "cvta", "lop3", "testp"):
        return check_other
    if ".cc" in opcode or name in ("addc", "subc", "madc"):
        return check_carry
    return check_float if "f" in opcode.split(".")[-1] else check_integer


@pytest.mark.parametrize("pattern", TABLE)
def test_every_opcode_computes_what_exact_arithmetic_says(pattern):
    for opcode in expand(pattern):
        find_check(opcode)(opcode)


@pytest.mark.parametrize(("opcode", "function"), [("min.f32", smaller), ("max.f32", larger), ("max.NaN.f32", larger)])
def test_extrema_of_three(opcode, function):
    inputs = [make_values("f32", seed) for seed in range(3)]
    (got,) = compute(opcode, ["f32"] * 3, ["f32"], inputs)
    for thread in range(THREADS):
        a, b, c = (values[thread].item() for values in inputs)
        want = math.nan if "NaN" in opcode and any(map(math.isnan, (a, b, c))) else function(function(a, b), c)
        assert agree(got[thread].item(), want, "f32", 0)
