"""Triton kernels that call functions, use 8-bit types, follow tables of addresses, print and assert."""
# ruff: noqa: N803  constants are upper case in Triton

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit(noinline=True)
def sum_and_difference(x, y):
    return 2 * x + y, x - y


@triton.jit(noinline=True)
def choose(x, i):
    total, difference = sum_and_difference(x, i.to(tl.float32))
    if i > 2:
        total = total + difference
    return total


@triton.jit
def calls_kernel(x, out, n, BLOCK: tl.constexpr):
    """A function that calls another one, under a branch, and the other one again."""
    i = tl.program_id(0)
    o = tl.arange(0, BLOCK)
    s = 0.0
    if i > 0:
        s = choose(n.to(tl.float32), i)
    total, difference = sum_and_difference(s, s + 1)
    tl.store(out + i * BLOCK + o, total * difference + tl.load(x + o))


@triton.jit(noinline=True)
def row_total(x, row, N: tl.constexpr):
    return tl.sum(tl.load(x + row * N + tl.arange(0, N)), axis=0)


@triton.jit
def reducing_calls_kernel(x, out, ROWS: tl.constexpr, N: tl.constexpr):
    """A function that needs shared memory and barriers, called in a loop."""
    for row in range(ROWS):
        tl.store(out + row, row_total(x, row, N))


@triton.jit
def to_fp8_kernel(x, small, wide, out, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    v = tl.load(x + o)
    small_value, wide_value = v.to(tl.float8e4nv), v.to(tl.float8e5)
    tl.store(small + o, small_value)
    tl.store(wide + o, wide_value)
    tl.store(out + o, small_value.to(tl.float32))
    tl.store(out + BLOCK + o, wide_value.to(tl.float32))


@triton.jit
def typed_dot_kernel(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, TYPE: tl.constexpr):
    m, n, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    product = tl.dot(tl.load(a + m * K + k[None, :]), tl.load(b + k[:, None] * N + n), out_dtype=TYPE)
    tl.store(c + m * N + n, product)


@triton.jit
def count_kernel(x, where, out, BLOCK: tl.constexpr):
    """Atomic sums of any type, several threads to one place."""
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.load(where + o), tl.load(x + o))


@triton.jit
def relu_square_kernel(x, out, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    v = tl.load(x + o)
    tl.store(out + o, tl.where(v > 0, v, v * v))


@triton.jit
def double_tables_kernel(table, sizes, BLOCK: tl.constexpr):
    """Doubles the arrays whose addresses are in a table."""
    o = tl.arange(0, BLOCK)
    p = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32)) + o
    m = o < tl.load(sizes + tl.program_id(0))
    tl.store(p, 2 * tl.load(p, mask=m), mask=m)


@triton.jit
def reciprocal_root_kernel(x, out, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(out + o, libdevice.rsqrt(tl.load(x + o)))


@triton.jit
def checked_kernel(x, BLOCK: tl.constexpr):
    v = tl.load(x + tl.arange(0, BLOCK))
    tl.device_assert(v > 0, "must be positive")
    tl.device_print("value", v)


@triton.jit
def flags_kernel(x, out, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(out + o, tl.load(x + o) != 0)
