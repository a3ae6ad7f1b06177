"""Rows of states: the real parts of a group of modes, their imaginary parts, and the next group's.

A group is sixteen modes, whole lanes of either part. A bank of at most eight modes is `narrow`: it is one group of
eight, both parts fill one set of lanes, and products with its rows have half the work. `load_modes` then takes the two
apart, so that all that is written with it runs on either layout. `narrow` is None, or something: kernels are compiled
for both.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, register_jitable

from alphabet_cpu.compiling import kernel
from alphabet_cpu.kernels.lanes import LANES, address_of, lanes, load_lanes, shuffle_lanes, store_lanes

HALF = LANES // 2


def is_narrow(modes: int) -> bool | None:
    """Whether a bank of so many modes is narrow, in the form that kernels are compiled for."""
    return True if modes <= HALF else None


def count_columns(modes: int) -> int:
    """How many numbers a row of states has: whole groups."""
    return LANES if is_narrow(modes) else 2 * (modes + -modes % LANES)


@register_jitable
def count_sums(columns: int) -> int:
    """How many numbers hold one sum per mode, in whole lanes."""
    return max(LANES, columns // 2)


@register_jitable
def group_columns(columns: int) -> int:
    """The columns of one group."""
    return min(2 * LANES, columns)


@register_jitable
def imaginary(columns: int) -> int:
    """How far behind a mode's real part its imaginary part lies."""
    return min(LANES, columns // 2)


@kernel
def real_column(mode, columns):
    """The column of a mode's real part."""
    modes = imaginary(columns)
    return mode // modes * 2 * modes + mode % modes


@intrinsic
def load_modes(_typing, array, index, narrow):
    """The real and the imaginary parts of a group of modes, which begins at array[index], as lanes.

    Those of a narrow bank are followed by zeros.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        address = address_of(context, builder, signature.args, values)
        first = load_lanes(builder, address)
        if isinstance(signature.args[2], types.NoneType):
            parts = first, load_lanes(builder, builder.gep(address, [ir.Constant(ir.IntType(64), LANES)]))
        else:
            zeros = ir.Constant(first.type, [0.0] * LANES)
            parts = tuple(
                shuffle_lanes(builder, first, zeros, [*range(start, start + HALF), *range(LANES, LANES + HALF)])
                for start in (0, HALF)
            )
        return context.make_tuple(builder, signature.return_type, parts)

    return types.UniTuple(lanes, 2)(array, index, narrow), generate


@intrinsic
def store_modes(_typing, array, index, narrow, re, im):
    """Write the real and the imaginary parts of a group of modes, from array[index] on."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        address = address_of(context, builder, signature.args, values)
        re, im = values[3:]
        if isinstance(signature.args[2], types.NoneType):
            store_lanes(builder, re, address)
            store_lanes(builder, im, builder.gep(address, [ir.Constant(ir.IntType(64), LANES)]))
        else:
            both = shuffle_lanes(builder, re, im, [*range(HALF), *range(LANES, LANES + HALF)])
            store_lanes(builder, both, address)
        return context.get_dummy_value()

    return types.void(array, index, narrow, re, im), generate


@kernel
def add_modes(array, index, narrow, re, im):
    """Add real and imaginary parts to those of a group of modes."""
    own_re, own_im = load_modes(array, index, narrow)
    store_modes(array, index, narrow, own_re + re, own_im + im)
