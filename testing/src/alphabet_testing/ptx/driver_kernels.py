"""Triton kernels that the tests of the driver launch; Triton reads their source from this file."""
# ruff: noqa: N803  constants are upper case in Triton

import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, out, n, step, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i * step, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.heuristics({"EVEN": lambda given: given["n"] % given["BLOCK"] == 0})
@triton.jit
def scale_kernel(x, out, n, factor, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out + i, tl.load(x + i) * factor)
    else:
        tl.store(out + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)


def tuned(configurations, **options):
    """A fresh autotuned kernel: what an autotuner found belongs to the object."""

    return triton.autotune(
        [triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in configurations], key=["n"], **options
    )(double_kernel)


@triton.jit
def double_kernel(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


@triton.jit
def sum_pair_kernel(pair, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(pair[0] + i, mask=i < n) + pair[1], mask=i < n)


@triton.jit
def transpose_kernel(x, out, rows: tl.constexpr, columns: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [rows, columns])
    target = tl.make_tensor_descriptor(out, [columns, rows], [rows, 1], [columns, rows])
    target.store([0, 0], source.load([0, 0]).T)


@triton.jit
def copy_descriptor_kernel(source, target, BLOCK: tl.constexpr):
    target.store([0, 0], source.load([0, 0]) + 1)


@triton.jit
def racy_kernel(x, out, n, BLOCK: tl.constexpr):
    """Every program writes its number to one place: the last one wins, whichever that is."""
    tl.store(out, tl.program_id(0).to(tl.float32))


@triton.jit
def shift_kernel(x, scratch, out, n, BARRIER: tl.constexpr, BLOCK: tl.constexpr):
    """Values pass from thread to thread through memory; without the barrier a neighbour may come too early."""
    i = tl.arange(0, BLOCK)
    tl.store(scratch + i, tl.load(x + i, mask=i < n), mask=i < n)
    if BARRIER:
        tl.debug_barrier()
    tl.store(out + i, tl.load(scratch + i - 1, mask=(i > 0) & (i < n), other=0.0), mask=i < n)


@triton.jit
def endless_kernel(x, BLOCK: tl.constexpr):
    while tl.load(x) == 0:
        tl.debug_barrier()


@triton.jit
def count_kernel(x, counts, BLOCK: tl.constexpr):
    """Counts are zeroed by some threads and added to by others, with no barrier between."""
    i = tl.arange(0, BLOCK)
    tl.store(counts + i, 0, mask=i < 8)
    tl.atomic_add(counts + tl.load(x + i), 1)
