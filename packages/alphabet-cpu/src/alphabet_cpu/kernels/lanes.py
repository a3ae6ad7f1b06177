"""Sixteen float32 lanes as one numba value: the vector arithmetic that the kernels are written in.

Inside a compiled function `load(array, index)` returns `Lanes`, which add, subtract, multiply and divide, with each
other and with scalars; a product that is added becomes one fused multiply-add. LLVM maps a value to one register of
AVX-512, two of AVX2 or four of NEON. Indices are element offsets into one-dimensional arrays and are not checked.
"""

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

LANES = 16
ROUNDING = 1.5 * 2.0**23  # a float32 plus this is rounded to an integer, which its low bits then hold
_FLOAT, _INT = ir.FloatType(), ir.IntType(32)
_FLOATS, _INTS = ir.VectorType(_FLOAT, LANES), ir.VectorType(_INT, LANES)
# Lets LLVM fuse a product into the sum that uses it, and nothing else: results do not depend on how code was reordered.
_CONTRACT = ("contract",)


class Lanes(types.Type):
    """Numba's type of sixteen float32 values."""

    def __init__(self) -> None:
        super().__init__(name=f"float32x{LANES}")


lanes = Lanes()


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _FLOATS)


def address_of(context: Any, builder: Any, kinds: Any, values: Any) -> Any:
    """The LLVM address of element values[1] of the array values[0], counted flat in any number of dimensions."""
    data = context.make_array(kinds[0])(context, builder, value=values[0]).data
    return builder.gep(data, [context.cast(builder, values[1], kinds[1], types.intp)])


def spread(builder: Any, scalar: Any) -> Any:
    """An LLVM vector of lanes that all hold a scalar."""
    undefined = ir.Constant(_FLOATS, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(_INT, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(_INTS, [0] * LANES))


def load_lanes(builder: Any, address: Any) -> Any:
    """The LLVM vector of the lanes at an address."""
    return builder.load(builder.bitcast(address, _FLOATS.as_pointer()), align=4)


def store_lanes(builder: Any, value: Any, address: Any) -> None:
    """Write an LLVM vector of lanes to an address."""
    builder.store(value, builder.bitcast(address, _FLOATS.as_pointer()), align=4)


def shuffle_lanes(builder: Any, left: Any, right: Any, chosen: list[int]) -> Any:
    """LLVM lanes that are chosen of two: 0 ... 15 are those of the left, 16 ... 31 those of the right."""
    return builder.shuffle_vector(left, right, ir.Constant(_INTS, chosen))


def multiply_into(builder: Any, place: Any, left: Any, right: Any) -> None:
    """Add the product of two LLVM vectors of lanes to the one that `place` holds, by one fused multiply-add."""
    product = builder.fmul(left, right, flags=_CONTRACT)
    builder.store(builder.fadd(builder.load(place), product, flags=_CONTRACT), place)


def _integers(value: int) -> Any:
    return ir.Constant(_INTS, [value] * LANES)


def _call(builder: Any, name: str, arguments: Any, result: Any = _FLOATS, **flags: Any) -> Any:
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}f32")
    return builder.call(function, arguments, **flags)


@intrinsic
def load(_typing, array, index):
    """The lanes array[index] ... array[index + 15]."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return load_lanes(builder, address_of(context, builder, signature.args, values))

    return lanes(array, index), generate


@intrinsic
def store(_typing, array, index, value):
    """Set array[index] ... array[index + 15] to lanes."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        store_lanes(builder, values[2], address_of(context, builder, signature.args, values))
        return context.get_dummy_value()

    return types.void(array, index, value), generate


@intrinsic
def add_doubles(_typing, array, index, value):
    """Add lanes to the float64 numbers array[index] ... array[index + 15], counted flat in any number of dimensions."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        address = address_of(context, builder, signature.args, values)
        doubles = ir.VectorType(ir.DoubleType(), LANES)
        place = builder.bitcast(address, doubles.as_pointer())
        builder.store(builder.fadd(builder.load(place, align=8), builder.fpext(values[2], doubles)), place, align=8)
        return context.get_dummy_value()

    return types.void(array, index, value), generate


def _multiply_doubles(context: Any, builder: Any, signature: Any, values: Any) -> tuple[Any, Any]:
    """LLVM vectors of array[index] ... array[index + 15] times a number, in float64, and of the nearest integers."""
    doubles = ir.VectorType(ir.DoubleType(), LANES)
    address = address_of(context, builder, signature.args, values)
    factor = context.cast(builder, values[2], signature.args[2], types.float64)
    first = builder.insert_element(ir.Constant(doubles, ir.Undefined), factor, ir.Constant(_INT, 0))
    factors = builder.shuffle_vector(first, ir.Constant(doubles, ir.Undefined), ir.Constant(_INTS, [0] * LANES))
    product = builder.fmul(builder.load(builder.bitcast(address, doubles.as_pointer()), align=8), factors)
    rounding = ir.Constant(doubles, [1.5 * 2.0**52] * LANES)
    return product, builder.fsub(builder.fadd(product, rounding), rounding)


@intrinsic
def whole_of_product(_typing, array, index, factor):
    """The integers nearest to the float64 numbers array[index] ... array[index + 15] times a number, as lanes."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.fptrunc(_multiply_doubles(context, builder, signature, values)[1], _FLOATS)

    return lanes(array, index, factor), generate


@intrinsic
def rest_of_product(_typing, array, index, factor):
    """What these integers leave of the products, in -1/2 ... 1/2, as lanes: no digit of large products is lost."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        product, whole = _multiply_doubles(context, builder, signature, values)
        return builder.fptrunc(builder.fsub(product, whole), _FLOATS)

    return lanes(array, index, factor), generate


@intrinsic
def broadcast(_typing, array, index):
    """Lanes that all hold array[index]."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return spread(builder, builder.load(address_of(context, builder, signature.args, values)))

    return lanes(array, index), generate


@intrinsic
def splat(_typing, scalar):
    """Lanes that all hold a scalar."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return spread(builder, context.cast(builder, values[0], signature.args[0], types.float32))

    return lanes(scalar), generate


@intrinsic
def total(_typing, value):
    """The float32 sum over the lanes, added up as a tree."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        zero = ir.Constant(_FLOAT, 0.0)
        return _call(builder, "vector.reduce.fadd", [zero, values[0]], _FLOAT, fastmath=("reassoc",))

    return types.float32(value), generate


@intrinsic
def multiply_add(_typing, left, right, term):
    """The lanes left * right + term, fused where the processor can, even if the product is needed elsewhere too."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return _call(builder, "fmuladd", values)

    return lanes(left, right, term), generate


ZERO_BELOW = -60.0


@intrinsic
def zero_below(_typing, value, result):
    """The lanes of `result`, but zero where value < -60."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        low = builder.fcmp_ordered("<", values[0], ir.Constant(_FLOATS, [ZERO_BELOW] * LANES))
        return builder.select(low, ir.Constant(_FLOATS, [0.0] * LANES), values[1])

    return lanes(value, result), generate


def _binary(emit: Callable[[Any, Any], Any]) -> Any:
    @intrinsic
    def apply(_typing, left, right):
        def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            return emit(builder, values)

        return lanes(left, right), generate

    return apply


def _select(relation: str) -> Any:
    return _binary(lambda builder, values: builder.select(builder.fcmp_ordered(relation, *values), *values))


def _shift_exponent(builder: Any, values: Any) -> Any:
    bits, integer = (builder.bitcast(value, _INTS) for value in values)
    return builder.bitcast(builder.add(bits, builder.shl(integer, _integers(23))), _FLOATS)


# The lesser and the greater of two. Where one side is not a number the right side is taken: one instruction, where
# LLVM's own minimum takes three.
minimum, maximum = _select("<"), _select(">")
# value * 2**n, where n is in the low bits of the second: those of `n + ROUNDING`.
scale_by_power = _binary(_shift_exponent)
_add = _binary(lambda builder, values: builder.fadd(*values, flags=_CONTRACT))
_subtract = _binary(lambda builder, values: builder.fsub(*values, flags=_CONTRACT))
_multiply = _binary(lambda builder, values: builder.fmul(*values, flags=_CONTRACT))
_divide = _binary(lambda builder, values: builder.fdiv(*values))


def _overload_operator(symbol: Any, apply: Any) -> None:
    @overload(symbol)
    def choose(left, right):
        is_lanes = isinstance(left, Lanes), isinstance(right, Lanes)
        if is_lanes == (True, True):
            return lambda left, right: apply(left, right)
        if is_lanes == (True, False):
            return lambda left, right: apply(left, splat(right))
        if is_lanes == (False, True):
            return lambda left, right: apply(splat(left), right)
        return None


_OPERATORS = {operator.add: _add, operator.sub: _subtract, operator.mul: _multiply, operator.truediv: _divide}
for _symbol, _apply in _OPERATORS.items():
    _overload_operator(_symbol, _apply)
