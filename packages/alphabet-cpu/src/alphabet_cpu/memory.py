"""What a compiled function shares with others: numbers that threads claim, and memory that torch owns."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from alphabet_cpu.arithmetic import kernel


@intrinsic
def claim(_typing, counter):
    """counter[0], which then counts one up; of the threads that share the int64 array no two get the same number."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, value=values[0]).data
        return builder.atomic_rmw("add", data, ir.Constant(ir.IntType(64), 1), "monotonic")

    return types.int64(counter), generate


@intrinsic
def _as_pointer(_typing, address):
    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], ir.IntType(8).as_pointer())

    return types.voidptr(address), generate


@kernel
def view_floats(address, count):
    """The float32 numbers at an address, such as `tensor.data_ptr()`; the tensor must be contiguous and stay alive."""
    return carray(_as_pointer(address), count, np.float32)
