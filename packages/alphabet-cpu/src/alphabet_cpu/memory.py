"""What a compiled function shares with others: numbers that threads claim, and memory that torch owns."""

import sys
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from alphabet_cpu.compiling import kernel
from alphabet_cpu.lanes import address_of

PATIENCE = 1000  # looks, some microseconds
_give_way = types.ExternalFunction("SwitchToThread" if sys.platform == "win32" else "sched_yield", types.int32())


@intrinsic
def claim(_typing, counters, index):
    """counters[index], which then counts one up; of the threads that share the int64 array no two get the same."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        address = address_of(context, builder, signature.args, values)
        return builder.atomic_rmw("add", address, ir.Constant(ir.IntType(64), 1), "monotonic")

    return types.int64(counters, index), generate


@intrinsic
def _read(_typing, counters, index):
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.load_atomic(address_of(context, builder, signature.args, values), "acquire", 8)

    return types.int64(counters, index), generate


@intrinsic
def publish(_typing, counters, index, value):
    """counters[index] = value; whoever sees it sees all that this thread wrote before."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        number = context.cast(builder, values[2], signature.args[2], types.int64)
        builder.store_atomic(number, address_of(context, builder, signature.args, values), "release", 8)
        return context.get_dummy_value()

    return types.void(counters, index, value), generate


@kernel
def wait_until(counters, index, value):
    """Until counters[index] has reached the value.

    Threads claim work in the order in which it depends on each other, so what is waited for has been begun by another
    thread, and as a rule that thread runs: the wait is short, and a system call would be longer. Where the system has
    taken its processor away, it may have this one.
    """
    looks = 0
    while _read(counters, index) < value:
        looks += 1
        if looks % PATIENCE == 0:
            _give_way()


@intrinsic
def _as_pointer(_typing, address):
    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], ir.IntType(8).as_pointer())

    return types.voidptr(address), generate


@kernel
def view_floats(address, count):
    """The float32 numbers at an address, such as `tensor.data_ptr()`; the tensor must be contiguous and stay alive."""
    return carray(_as_pointer(address), count, np.float32)


@kernel
def same_floats(table, kept):
    """Whether the float32 numbers of a table's rows, address and count, are bit by bit those that were kept."""
    if table[:, 1].sum() != kept.size:
        return False
    wanted, at, differing = kept.view(np.uint32), 0, np.uint32(0)
    for i in range(len(table)):
        found = view_floats(table[i, 0], table[i, 1]).view(np.uint32)
        for j in range(found.size):
            differing |= found[j] ^ wanted[at + j]
        at += found.size
    return differing == 0
