"""Integer and bit instructions."""

from collections.abc import Callable

import numpy as np

from alphabet_ptx import traces
from alphabet_ptx.datatypes import DTYPES, Array, is_signed, size_of
from alphabet_ptx.elementwise import Operation, elementwise, parts, same_type
from alphabet_ptx.errors import PtxError
from alphabet_ptx.machine import Binder
from alphabet_ptx.operands import constant
from alphabet_ptx.program import Immediate, Instruction

_WIDER = {"s16": "s32", "u16": "u32", "s32": "s64", "u32": "u64"}


def divide(a: Array, b: Array) -> Array:
    """The quotient rounded towards zero."""
    floor: Array = a // b
    if a.dtype.kind == "u":
        return floor
    return np.asarray(floor + ((floor < 0) & (floor * b != a)).astype(a.dtype))


def _division(compute: Callable[[Array, Array], Array]) -> Binder:
    def build(instruction: Instruction) -> Operation:
        kind = parts(instruction)[-1]

        def guarded(a: Array, b: Array) -> Array:
            return compute(a, np.where(b == 0, np.ones_like(b), b))  # whatever comes of it counts as unknown

        return Operation(
            guarded, (kind,), (kind, kind), undefined=lambda _, b: b == 0, reason="an integer division by zero"
        )

    return elementwise(build)


def multiply_high(a: Array, b: Array) -> Array:
    """The upper half of the product of two 32- or 64-bit integers."""
    if a.dtype.itemsize == 4:
        wide = np.int64 if a.dtype.kind == "i" else np.uint64
        return ((a.astype(wide) * b.astype(wide)) >> wide(32)).astype(a.dtype)
    x, y = a.view(np.uint64), b.view(np.uint64)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    x_high, x_low, y_high, y_low = x >> half, x & low, y >> half, y & low
    middle = x_high * y_low + ((x_low * y_low) >> half)
    other = x_low * y_high + (middle & low)
    high = x_high * y_high + (middle >> half) + (other >> half)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    result: Array = high.view(a.dtype)
    return result


def _wide(accumulate: bool) -> Binder:
    """mul.wide and mad.wide: the whole product."""

    def build(instruction: Instruction) -> Operation:
        kind = parts(instruction)[-1]
        result = _WIDER[kind]
        dtype = DTYPES[result]

        def compute(a: Array, b: Array, *c: Array) -> Array:
            product: Array = a.astype(dtype) * b.astype(dtype)
            return np.add(product, c[0]) if accumulate else product

        return Operation(compute, (result,), (kind, kind, *([result] if accumulate else [])))

    return elementwise(build)


def _with_carry(part: str, *, subtract: bool = False) -> Binder:
    """add, sub and mad with the carry flag: `.cc` writes it, the forms that end in c (addc, madc) read it."""

    def build(instruction: Instruction) -> Operation:
        name, *modifiers = parts(instruction)
        kind = modifiers[-1]
        reads = name.endswith("c")

        def compute(*sources: Array) -> tuple[Array, Array] | Array:
            carry = sources[-1] if reads else np.zeros_like(sources[0], np.bool_)
            terms = [term.view(f"u{term.dtype.itemsize}") for term in (sources[:-1] if reads else sources)]
            if part == "sum":
                a, b = terms
            else:
                product = (terms[0] * terms[1]) if part == "low" else multiply_high(terms[0], terms[1])
                a, b = product, terms[2]
            one = carry.astype(a.dtype)
            total = a - b - one if subtract else a + b + one
            overflow = ((a < b) | ((a == b) & carry)) if subtract else ((total < a) | ((total == a) & carry))
            return (total, overflow) if "cc" in modifiers else total

        count = 2 if part == "sum" else 3
        unsigned = f"u{8 * size_of(kind)}"
        return Operation(compute, (unsigned,), (kind,) * count, carry_in=reads, carry_out="cc" in modifiers)

    return elementwise(build)


def _shift(left: bool) -> Binder:
    """`shl` and `shr`; amounts beyond the width shift everything out."""

    def build(instruction: Instruction) -> Operation:
        kind = parts(instruction)[-1]
        width = 8 * size_of(kind)
        amount = instruction.operands[-1]
        fixed = int(constant(amount.text, "u32")) if isinstance(amount, Immediate) else None
        trace = None if fixed is None or is_signed(kind) else traces.shift(left, min(fixed, width))
        if fixed is not None and fixed < width:
            return Operation(np.left_shift if left else np.right_shift, (kind,), (kind, kind), trace=trace)

        def compute(a: Array, amount: Array) -> Array:
            inside = np.minimum(amount, np.uint32(width - 1)).astype(a.dtype)
            shifted = a << inside if left else a >> inside
            beyond = a >> a.dtype.type(width - 1) if is_signed(kind) and not left else a.dtype.type(0)
            return np.where(amount < width, shifted, beyond)

        return Operation(compute, (kind,), (kind, "u32"), trace=trace)

    return elementwise(build)


def extract_field(a: Array, position: Array, length: Array) -> Array:
    """bfe: `length` bits from `position` on, sign-extended by the field's last bit for signed types."""
    width = 8 * a.dtype.itemsize
    bits, word = a.view(f"u{a.dtype.itemsize}").astype(np.uint64), a.dtype
    start, count = (part & np.uint32(0xFF) for part in (position, length))
    one = np.uint64(1)
    shifted = np.where(start < 64, bits >> np.minimum(start, 63).astype(np.uint64), np.uint64(0))
    mask = np.where(count < 64, (one << np.minimum(count, 63).astype(np.uint64)) - one, ~np.uint64(0))
    field = shifted & mask
    if word.kind == "i":
        last = np.minimum(start.astype(np.int64) + count.astype(np.int64) - 1, width - 1)
        sign = ((bits >> np.maximum(last, 0).astype(np.uint64)) & one) == one
        # The field's own bits end where the word ends.
        inside = np.clip(width - start.astype(np.int64), 0, 63).astype(np.uint64)
        own = mask & np.where(start < width, np.where(start == 0, ~np.uint64(0), (one << inside) - one), np.uint64(0))
        field = np.where(sign & (count > 0), field | ~own, field)
    result: Array = field.astype(f"u{word.itemsize}").view(word)
    return result


def insert_field(a: Array, b: Array, position: Array, length: Array) -> Array:
    """bfi: b, with `length` bits from `position` on replaced by the lower bits of a."""
    start, count = (np.minimum(part & np.uint32(0xFF), 63).astype(np.uint64) for part in (position, length))
    one = np.uint64(1)
    full = (length & np.uint32(0xFF)) >= 64
    mask = np.where(full, ~np.uint64(0), (one << count) - one) << start
    mask = np.where((position & np.uint32(0xFF)) < 8 * a.dtype.itemsize, mask, np.uint64(0))
    result: Array = ((b & ~mask) | ((a.astype(np.uint64) << start) & mask)).astype(a.dtype)
    return result


def permute_bytes(a: Array, b: Array, selector: Array) -> Array:
    """prmt: four bytes out of the eight of a and b; a selector's upper bit replicates the byte's sign."""
    pair = a.astype(np.uint64) | (b.astype(np.uint64) << np.uint64(32))
    result = np.zeros_like(a)
    for i in range(4):
        choice = (selector >> np.uint32(4 * i)) & np.uint32(0xF)
        byte = (pair >> ((choice & np.uint32(7)) * np.uint32(8)).astype(np.uint64)) & np.uint64(0xFF)
        sign = np.where(byte & np.uint64(0x80), np.uint64(0xFF), np.uint64(0))
        chosen = np.where(choice & np.uint32(8), sign, byte).astype(np.uint32)
        result |= chosen << np.uint32(8 * i)
    return result


def _lop3(instruction: Instruction) -> Operation:
    """lop3: any logic function of three words, given by its truth table."""
    table = instruction.operands[-1]
    if not isinstance(table, Immediate):
        raise PtxError("lop3 needs a constant table")
    lut = int(table.text, 0)

    def compute(a: Array, b: Array, c: Array, _: Array) -> Array:
        result = np.zeros_like(a)
        for i in range(8):
            if lut >> i & 1:
                result |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
        return result

    return Operation(compute, ("b32",), ("b32", "b32", "b32", "b32"))


def _funnel(instruction: Instruction) -> Operation:
    """shf: one word out of a shifted pair of words."""
    _, direction, mode, _ = parts(instruction)

    def compute(low: Array, high: Array, amount: Array) -> Array:
        pair = low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))
        count = (amount & np.uint32(31)) if mode == "wrap" else np.minimum(amount, np.uint32(32))
        shift = count.astype(np.uint64)
        shifted = (pair << shift) >> np.uint64(32) if direction == "l" else pair >> shift
        return shifted.astype(np.uint32)

    return Operation(compute, ("b32",), ("b32", "b32", "u32"))


def _count(compute: Callable[[Array], Array]) -> Binder:
    def build(instruction: Instruction) -> Operation:
        return Operation(lambda a: compute(a).astype(np.uint32), ("u32",), (parts(instruction)[-1],))

    return elementwise(build)


def leading_zeros(a: Array) -> Array:
    """The number of zeros above the highest one."""
    width = 8 * a.dtype.itemsize
    spread = a.copy()
    for shift in (1, 2, 4, 8, 16, 32):
        if shift < width:
            spread |= spread >> a.dtype.type(shift)
    return width - np.bitwise_count(spread)


def reverse_bits(a: Array) -> Array:
    """The bits in the opposite order."""
    octets = np.unpackbits(np.ascontiguousarray(a).view(np.uint8).reshape(len(a), -1), axis=1, bitorder="little")
    return np.packbits(octets[:, ::-1], axis=1, bitorder="little").view(a.dtype)[:, 0]


_INTEGERS = "{s16,u16,s32,u32,s64,u64}"
_WORDS = "{s32,u32,s64,u64}"

TABLE: dict[str, Binder] = {
    f"add.{_INTEGERS}": same_type(np.add),
    f"sub.{_INTEGERS}": same_type(np.subtract),
    f"mul.lo.{_INTEGERS}": same_type(np.multiply),
    f"mul.hi.{_WORDS}": same_type(multiply_high),
    "mul.wide.{s16,u16,s32,u32}": _wide(accumulate=False),
    f"mad.lo.{_INTEGERS}": same_type(lambda a, b, c: a * b + c, 3),
    f"mad.hi.{_WORDS}": same_type(lambda a, b, c: multiply_high(a, b) + c, 3),
    "mad.wide.{s16,u16,s32,u32}": _wide(accumulate=True),
    f"{{add.cc,addc[.cc]}}.{_WORDS}": _with_carry("sum"),
    f"{{sub.cc,subc[.cc]}}.{_WORDS}": _with_carry("sum", subtract=True),
    f"{{mad.lo.cc,madc.lo[.cc]}}.{_WORDS}": _with_carry("low"),
    "{mad.hi.cc,madc.hi[.cc]}.{u32,u64}": _with_carry("high"),
    f"div.{_INTEGERS}": _division(divide),
    f"rem.{_INTEGERS}": _division(np.fmod),
    f"min.{_INTEGERS}": same_type(np.minimum),
    f"max.{_INTEGERS}": same_type(np.maximum),
    "abs.{s16,s32,s64}": same_type(np.abs, 1),
    "neg.{s16,s32,s64}": same_type(np.negative, 1),
    "and.{pred,b16,b32,b64}": same_type(np.bitwise_and, trace=traces.absorb(by_zero=True)),
    "or.{pred,b16,b32,b64}": same_type(np.bitwise_or, trace=traces.absorb(by_zero=False)),
    "xor.{pred,b16,b32,b64}": same_type(np.bitwise_xor),
    "not.{pred,b16,b32,b64}": same_type(np.invert, 1),
    "shl.{b16,b32,b64}": _shift(left=True),
    "shr.{b16,b32,b64,u16,u32,u64,s16,s32,s64}": _shift(left=False),
    "bfe.{u32,s32,u64,s64}": elementwise(
        lambda i: Operation(extract_field, (parts(i)[-1],), (parts(i)[-1], "u32", "u32"))
    ),
    "bfi.{b32,b64}": elementwise(
        lambda i: Operation(insert_field, (parts(i)[-1],), (parts(i)[-1], parts(i)[-1], "u32", "u32"))
    ),
    "prmt.b32": same_type(permute_bytes, 3, trace=traces.permute),
    "lop3.b32": elementwise(_lop3),
    "shf.{l,r}.{wrap,clamp}.b32": elementwise(_funnel),
    "popc.{b32,b64}": _count(np.bitwise_count),
    "clz.{b32,b64}": _count(leading_zeros),
    "brev.{b32,b64}": same_type(reverse_bits, 1),
}
