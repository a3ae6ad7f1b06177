"""Triton kernels for the tests of what a driver is asked that it should not be; Triton reads their source here."""
# ruff: noqa: N803  constants are upper case in Triton

import triton
import triton.language as tl


@triton.jit
def copy_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def choose_kernel(x, bias, out, n, MODE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n)
    if bias is not None:
        value += tl.load(bias + i, mask=i < n)
    if MODE == "negative":
        value = -value
    tl.store(out + i, value, mask=i < n)


@triton.jit(do_not_specialize=["n", "factor"])
def general_kernel(x, out, n, factor, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)


@triton.jit
def spin_kernel(x, out):
    count = 0
    while tl.load(x) + count >= 0:
        count += 1
    tl.store(out, count)


@triton.jit
def strange_kernel(x):
    value = tl.inline_asm_elementwise(
        "dp4a.s32.s32 $0, $1, $1, $1;", "=r,r", [tl.load(x)], dtype=tl.int32, is_pure=False, pack=1
    )
    tl.store(x, value)


@triton.jit
def sum_table_kernel(table, out, n, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """The sum of the arrays whose addresses are in a table."""
    i = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for k in range(COUNT):
        total += tl.load(tl.load(table + k).to(tl.pointer_type(tl.float32)) + i, mask=i < n)
    tl.store(out + i, total, mask=i < n)


@triton.jit
def fill_table_kernel(table, n, BLOCK: tl.constexpr):
    """Numbers every array whose address is in a table, one program for each."""
    i = tl.arange(0, BLOCK)
    target = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(target + i, (i + tl.program_id(0)).to(tl.float32), mask=i < n)


@triton.jit
def fill_address_kernel(address, value, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(address.to(tl.int64).to(tl.pointer_type(tl.float32)) + i, value, mask=i < n)


@triton.jit
def follow_kernel(table, out):
    """The first element of an array whose address is in a table whose address is in a table."""
    inner = tl.load(table).to(tl.pointer_type(tl.int64))
    tl.store(out, tl.load(tl.load(inner).to(tl.pointer_type(tl.float32))))


def tuned_copy(configurations, **options):
    """A fresh autotuned kernel; a configuration is a block size, a number of warps, or a hook before it."""
    return triton.autotune(
        [triton.Config({"BLOCK": block}, num_warps=warps, pre_hook=hook) for block, warps, hook in configurations],
        key=["n"],
        **options,
    )(copy_kernel)


@triton.jit
def halves_kernel(out, half: tl.float16, brain: tl.bfloat16):
    tl.store(out, half.to(tl.float32))
    tl.store(out + 1, brain.to(tl.float32))
