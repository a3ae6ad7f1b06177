"""What a compiled function shares with others: numbers that threads claim, and memory that torch owns."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from alphabet_cpu.arithmetic import kernel


def _address(context: Any, builder: Any, kinds: Any, values: Any) -> Any:
    """Of values[0][values[1]]."""
    data = context.make_array(kinds[0])(context, builder, value=values[0]).data
    return builder.gep(data, [context.cast(builder, values[1], kinds[1], types.intp)])


@intrinsic
def claim(_typing, counters, index):
    """counters[index], which then counts one up; of the threads that share the int64 array no two get the same."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        address = _address(context, builder, signature.args, values)
        return builder.atomic_rmw("add", address, ir.Constant(ir.IntType(64), 1), "monotonic")

    return types.int64(counters, index), generate


@intrinsic
def _read(_typing, counters, index):
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.load_atomic(_address(context, builder, signature.args, values), "acquire", 8)

    return types.int64(counters, index), generate


@intrinsic
def publish(_typing, counters, index, value):
    """counters[index] = value; whoever sees it sees all that this thread wrote before."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        number = context.cast(builder, values[2], signature.args[2], types.int64)
        builder.store_atomic(number, _address(context, builder, signature.args, values), "release", 8)
        return context.get_dummy_value()

    return types.void(counters, index, value), generate


@kernel
def wait_until(counters, index, value):
    """Until counters[index] has reached the value.

    Threads claim work in the order in which it depends on each other, so what is waited for is being done by a thread
    that runs; the wait is short, and a system call would be longer.
    """
    while _read(counters, index) < value:
        pass


@intrinsic
def _as_pointer(_typing, address):
    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], ir.IntType(8).as_pointer())

    return types.voidptr(address), generate


@kernel
def view_floats(address, count):
    """The float32 numbers at an address, such as `tensor.data_ptr()`; the tensor must be contiguous and stay alive."""
    return carray(_as_pointer(address), count, np.float32)
