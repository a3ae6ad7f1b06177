"""Memory that a compiled function shares: counters by which threads divide work, and numbers that torch owns."""

import sys
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from alphabet_cpu.compiling import array_kernel, kernel
from alphabet_cpu.kernels.lanes import address_of

LOOKS_BEFORE_YIELD = 1000  # some microseconds
_yield_processor = types.ExternalFunction("SwitchToThread" if sys.platform == "win32" else "sched_yield", types.int32())


@intrinsic
def claim(_typing, counters, index):
    """The number counters[index], which is then one more; no two threads that share the int64 array get the same."""

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
    """Set counters[index]; a thread that reads the new value also sees all that this thread wrote before."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        number = context.cast(builder, values[2], signature.args[2], types.int64)
        builder.store_atomic(number, address_of(context, builder, signature.args, values), "release", 8)
        return context.get_dummy_value()

    return types.void(counters, index, value), generate


@kernel
def wait_until(counters, index, value):
    """Wait until counters[index] has reached a value.

    Threads claim work in the order in which pieces depend on each other, so another thread has begun what this one
    waits for. As a rule that thread is running: the wait is short, and a system call would take longer. Where the
    system has taken its processor away, it may have this one.
    """
    looks = 0
    while _read(counters, index) < value:
        looks += 1
        if looks % LOOKS_BEFORE_YIELD == 0:
            _yield_processor()


@kernel
def count_up(counters):
    """Add one to the first counter, for threads that wait in `look_for`."""
    claim(counters, 0)


@kernel
def look_for(counters, value, looks):
    """Look so many times, without the interpreter's lock, whether the first counter has reached a value."""
    while looks > 0 and _read(counters, 0) < value:
        looks -= 1


@kernel
def end_and_look(ended, counters, value, looks):
    """Add one to the first counter of `ended`, and look for a value as above, both without the interpreter's lock.

    Whoever waits for the former can have the lock at once.
    """
    claim(ended, 0)
    look_for(counters, value, looks)


@intrinsic
def _as_pointer(_typing, address):
    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], ir.IntType(8).as_pointer())

    return types.voidptr(address), generate


@array_kernel
def view_floats(address, count):
    """The float32 array (count,) at an address, such as `data_ptr()` of a contiguous tensor, which must stay alive."""
    return carray(_as_pointer(address), count, np.float32)


@array_kernel
def same_floats(table, kept):
    """Whether float32 numbers, listed in a table of addresses and counts, are bit by bit those that were kept."""
    if table[:, 1].sum() != kept.size:
        return False
    wanted, at, differing = kept.view(np.uint32), 0, np.uint32(0)
    for i in range(len(table)):
        found = view_floats(table[i, 0], table[i, 1]).view(np.uint32)
        for j in range(found.size):
            differing |= found[j] ^ wanted[at + j]
        at += found.size
    return differing == 0


@array_kernel
def all_finite(values):
    """Whether a flat float32 array has no NaN and no infinity, whose exponents are all ones."""
    bits, found = values.view(np.uint32), np.uint32(0)
    for i in range(bits.size):
        found |= np.uint32((bits[i] & np.uint32(0x7F800000)) == np.uint32(0x7F800000))
    return found == 0
