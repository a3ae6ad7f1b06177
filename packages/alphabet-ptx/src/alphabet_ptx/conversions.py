"""Instructions that move, compare, choose and convert values."""

import numpy as np

from alphabet_ptx import traces
from alphabet_ptx.datatypes import DTYPES, Array, is_float, is_signed, size_of
from alphabet_ptx.elementwise import Operation, elementwise, flatten, parts
from alphabet_ptx.fp8 import decode_fp8, encode_fp8
from alphabet_ptx.machine import Binder
from alphabet_ptx.program import Instruction, Vector
from alphabet_ptx.rounding import decode_bf16, encode_bf16, encode_f16, flush, round_f32, round_tf32

_WHOLE = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _move(instruction: Instruction) -> Operation:
    """mov: a copy, or `{...}` on one side: the pieces of a wider register, lowest first."""
    kind = parts(instruction)[-1]
    target, source = instruction.operands
    if isinstance(target, Vector):
        pieces = len(flatten([target]))
        piece = f"b{8 * size_of(kind) // pieces}"

        def unpack(value: Array) -> tuple[Array, ...]:
            columns = np.ascontiguousarray(value).view(DTYPES[piece]).reshape(len(value), pieces)
            return tuple(columns[:, i] for i in range(pieces))

        return Operation(unpack, (piece,) * pieces, (kind,), trace=traces.unpack(pieces))
    if isinstance(source, Vector):
        pieces = len(flatten([source]))
        piece = f"b{8 * size_of(kind) // pieces}"
        return Operation(
            lambda *values: np.stack(values, axis=1).view(DTYPES[kind])[:, 0],
            (kind,),
            (piece,) * pieces,
            trace=traces.pack,
        )
    return Operation(lambda value: value, (kind,), (kind,), trace=traces.copy)


def compare(relation: str, a: Array, b: Array) -> Array:
    """Whether a relation of PTX holds, per thread; the unordered ones, which end in u, hold if either number is NaN."""
    unordered = np.isnan(a) | np.isnan(b) if a.dtype.kind == "f" else np.zeros(len(a), np.bool_)
    match relation:
        case "num" | "nan":
            return ~unordered if relation == "num" else unordered
        case "equ" | "neu" | "ltu" | "leu" | "gtu" | "geu":
            return np.asarray(unordered | compare(relation[:-1], a, b))
        case "ne":
            return np.asarray((a != b) & ~unordered)
    return np.asarray(_RELATIONS[_UNSIGNED.get(relation, relation)](a, b))


_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
# Those that are one function of numpy; like the ordered relations of PTX they do not hold for NaN.
_RELATIONS = {"eq": np.equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
_JOIN = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _set_predicate(instruction: Instruction) -> Operation:
    """setp: the relation and, for `p|q`, its opposite; both may be joined with a third operand."""
    _, relation, *modifiers, kind = parts(instruction)
    joins = [_JOIN[part] for part in modifiers if part in _JOIN]
    plain = _RELATIONS.get(_UNSIGNED.get(relation, relation))
    if plain is not None and not modifiers and kind != "bf16" and not isinstance(instruction.operands[0], Vector):
        return Operation(plain, ("pred",), (kind, kind))

    def compute(a: Array, b: Array, *c: Array) -> tuple[Array, Array]:
        if kind == "bf16":
            a, b = decode_bf16(a), decode_bf16(b)
        holds = compare(relation, flush(a), flush(b)) if "ftz" in modifiers else compare(relation, a, b)
        if not joins:
            return holds, ~holds
        return joins[0](holds, c[0]), joins[0](~holds, c[0])

    return Operation(compute, ("pred", "pred"), (kind, kind, *["pred"] * len(joins)))


def _set_pair(instruction: Instruction) -> Operation:
    """Relations of packed pairs: `p` is that of the lower halves, `q` that of the upper ones."""
    _, relation, *modifiers, kind = parts(instruction)
    joins = [_JOIN[part] for part in modifiers if part in _JOIN]

    def compute(a: Array, b: Array, *c: Array) -> tuple[Array, ...]:
        if kind == "bf16x2":
            a, b = decode_bf16(a), decode_bf16(b)
        elif "ftz" in modifiers:
            a, b = (_flush_f16(value) for value in (a, b))
        halves = [compare(relation, a[:, i], b[:, i]) for i in range(2)]
        return tuple(joins[0](half, c[0]) for half in halves) if joins else tuple(halves)

    return Operation(compute, ("pred", "pred"), (kind, kind, *["pred"] * len(joins)))


def _flush_f16(value: Array) -> Array:
    return np.where(np.abs(value) < np.finfo(np.float16).tiny, np.copysign(np.float16(0), value), value)


def _select(instruction: Instruction) -> Operation:
    kind = parts(instruction)[-1]
    return Operation(lambda a, b, p: np.where(p, a, b), (kind,), (kind, kind, "pred"), trace=traces.select)


def to_integer(value: Array, kind: str) -> Array:
    """A whole float as an integer: NaN becomes 0, and what lies beyond the type its nearest number."""
    dtype = DTYPES[kind]
    limits = np.iinfo(dtype)
    wide = value.astype(np.float64)
    inside = (wide > float(limits.min)) & (wide < float(limits.max))
    result = np.where(inside, wide, 0.0).astype(dtype)
    result = np.where(wide >= float(limits.max), dtype.type(limits.max), result)
    return np.where(wide <= float(limits.min), dtype.type(limits.min), result)


def _convert(instruction: Instruction) -> Operation:
    _, *modifiers, result, source = parts(instruction)
    whole = next((_WHOLE[part] for part in modifiers if part in _WHOLE), None)
    mode = modifiers[0] if modifiers else "rn"

    def convert(value: Array) -> Array:
        if source == "bf16":
            value = decode_bf16(value)
        if "ftz" in modifiers and value.dtype == np.float32:
            value = flush(value)
        if whole is not None:
            value = whole(value)
        if not is_float(result):
            return to_integer(value, result) if is_float(source) else value.astype(DTYPES[result])
        converted = _to_float(value, result, mode if whole is None else "rn")
        return flush(converted) if "ftz" in modifiers and result == "f32" else converted

    whole_number = not is_float(result) and not is_float(source)
    trace = traces.resize(is_signed(source), size_of(result)) if whole_number else None
    return Operation(convert, (result,), (source,), trace=trace)


def _to_float(value: Array, kind: str, mode: str) -> Array:
    match kind:
        case "bf16":
            return encode_bf16(value.astype(np.float32), mode)
        case "f16" if value.dtype.kind == "f":
            return encode_f16(value, mode)
        case "tf32":
            return round_tf32(value, mode)
        case "f32" if value.dtype == np.float64:
            return round_f32(value, mode)
    return value.astype(DTYPES[kind])


def _convert_pair(instruction: Instruction) -> Operation:
    """Two float32 packed into one register, the first operand in the upper half."""
    _, mode, result, _ = parts(instruction)
    encode = encode_bf16 if result == "bf16x2" else encode_f16
    return Operation(
        lambda a, b: np.stack([encode(b, mode), encode(a, mode)], axis=1),
        (result,),
        ("f32", "f32"),
        trace=traces.convert_pair(2),
    )


def _to_fp8_pair(instruction: Instruction) -> Operation:
    """Two numbers as a pair of 8-bit floats: two float32, the first for the upper half, or a pair of float16."""
    *modifiers, result, source = parts(instruction)
    kind = result.removesuffix("x2")

    def encode(*values: Array) -> Array:
        pair = values[0] if source == "f16x2" else np.stack([values[1], values[0]], axis=1)
        return encode_fp8(_rectify(pair) if "relu" in modifiers else pair, kind)

    sources = (source,) if source == "f16x2" else (source, source)
    return Operation(encode, (result,), sources, trace=traces.convert_pair(1))


def _from_fp8_pair(instruction: Instruction) -> Operation:
    *modifiers, result, source = parts(instruction)

    def decode(value: Array) -> Array:
        pair = decode_fp8(value, source.removesuffix("x2"))
        return _rectify(pair) if "relu" in modifiers else pair

    return Operation(decode, (result,), (source,), trace=traces.convert_pair(2))


def _rectify(value: Array) -> Array:
    """`.relu`: zero for negative numbers; NaN stays."""
    return np.where(np.isnan(value) | (value > 0), value, value.dtype.type(0))


_ALL_INTEGERS = "{u8,s8,u16,s16,u32,s32,u64,s64}"
_ORDERED = "{eq,ne,lt,le,gt,ge}"
_FLOAT_RELATIONS = "{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}"
_JOINS = "[.{and,or,xor}]"

TABLE: dict[str, Binder] = {
    "mov.{pred,b16,u16,s16,b32,u32,s32,f32,b64,u64,s64,f64}": elementwise(_move),
    "selp.{b16,u16,s16,b32,u32,s32,f32,b64,u64,s64,f64}": elementwise(_select),
    f"setp.{{eq,ne}}{_JOINS}.{{b16,b32,b64}}": elementwise(_set_predicate),
    f"setp.{_ORDERED}{_JOINS}.{{s16,s32,s64}}": elementwise(_set_predicate),
    f"setp.{{eq,ne,lt,le,gt,ge,lo,ls,hi,hs}}{_JOINS}.{{u16,u32,u64}}": elementwise(_set_predicate),
    f"setp.{_FLOAT_RELATIONS}{_JOINS}[.ftz].f32": elementwise(_set_predicate),
    f"setp.{_FLOAT_RELATIONS}{_JOINS}.{{f16,bf16,f64}}": elementwise(_set_predicate),
    f"setp.{_FLOAT_RELATIONS}{_JOINS}[.ftz].f16x2": elementwise(_set_pair),
    f"setp.{_FLOAT_RELATIONS}{_JOINS}.bf16x2": elementwise(_set_pair),
    f"cvt.{_ALL_INTEGERS}.{_ALL_INTEGERS}": elementwise(_convert),
    f"cvt.rn.{{f16,f32,f64}}.{_ALL_INTEGERS}": elementwise(_convert),
    f"cvt.{{rni,rzi,rmi,rpi}}[.ftz].{_ALL_INTEGERS}.f32": elementwise(_convert),
    f"cvt.{{rni,rzi,rmi,rpi}}.{_ALL_INTEGERS}.{{f16,f64}}": elementwise(_convert),
    "cvt.{rni,rzi,rmi,rpi}[.ftz].f32.f32": elementwise(_convert),
    "cvt.{rni,rzi,rmi,rpi}.{f16.f16,f64.f64}": elementwise(_convert),
    "cvt[.ftz].{f64.f32,f32.f16}": elementwise(_convert),
    "cvt.{f64.f16,f32.bf16}": elementwise(_convert),
    "cvt.{rn,rz,rm,rp}[.ftz].f32.f64": elementwise(_convert),
    "cvt.{rn,rz}.f16.{f32,f64}": elementwise(_convert),
    "cvt.{rn,rz}.bf16.f32": elementwise(_convert),
    "cvt.{rn,rna}.tf32.f32": elementwise(_convert),
    "cvt.{rn,rz}.{f16x2,bf16x2}.f32": elementwise(_convert_pair),
    "cvt.rn.satfinite[.relu].{e4m3x2,e5m2x2}.{f32,f16x2}": elementwise(_to_fp8_pair),
    "cvt.rn[.relu].f16x2.{e4m3x2,e5m2x2}": elementwise(_from_fp8_pair),
    # Addresses of global memory, where parameters lie too, and of a thread's own are what generic ones are.
    "cvta[.to].{global,param,local}.u64": elementwise(lambda _: Operation(lambda a: a, ("u64",), ("u64",))),
}
