"""Triton kernels of the kinds that people write, to be compiled and executed by the tests, and arguments for them."""
# ruff: noqa: N803  constants are upper case in Triton

import numpy as np
import triton
import triton.language as tl
from alphabet_ptx import compile_kernel
from triton.language.extra import libdevice

_compiled = {}


def compile_once(kernel, signature, constants, **options):
    """What compile_kernel returns, which is asked once per process for the same arguments."""
    key = (kernel, repr((signature, constants, options)))
    if key not in _compiled:
        _compiled[key] = compile_kernel(kernel, signature, constants, **options)
    return _compiled[key]


def pointers(names, kind="*fp32"):
    """The signature of pointers with these names, separated by blanks."""
    return dict.fromkeys(names.split(), kind)


def normal(*shape, seed=0, scale=1.0):
    """Normal random numbers in float32."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def blank(*shape):
    """A float32 array of NaN, to be written by a kernel."""
    return np.full(shape, np.nan, np.float32)


@triton.jit
def affine_pair(ar1, ai1, br1, bi1, ar2, ai2, br2, bi2):
    return (
        ar2 * ar1 - ai2 * ai1,
        ar2 * ai1 + ai2 * ar1,
        ar2 * br1 - ai2 * bi1 + br2,
        ar2 * bi1 + ai2 * br1 + bi2,
    )


@triton.jit
def scan_rows_kernel(ar, ai, br, bi, hr, hi, T: tl.constexpr, M: tl.constexpr, REVERSE: tl.constexpr):
    """Time along the last axis of (program, M, T)."""
    o = tl.program_id(0) * T * M + tl.arange(0, M)[:, None] * T + tl.arange(0, T)[None, :]
    h = tl.associative_scan(
        (tl.load(ar + o), tl.load(ai + o), tl.load(br + o), tl.load(bi + o)), 1, affine_pair, reverse=REVERSE
    )
    tl.store(hr + o, h[2])
    tl.store(hi + o, h[3])


@triton.jit
def scan_columns_kernel(ar, ai, br, bi, hr, hi, T: tl.constexpr, M: tl.constexpr, REVERSE: tl.constexpr):
    """Time along the first axis of (program, T, M): partial results cross warps through shared memory."""
    o = tl.program_id(0) * T * M + tl.arange(0, T)[:, None] * M + tl.arange(0, M)[None, :]
    h = tl.associative_scan(
        (tl.load(ar + o), tl.load(ai + o), tl.load(br + o), tl.load(bi + o)), 0, affine_pair, reverse=REVERSE
    )
    tl.store(hr + o, h[2])
    tl.store(hi + o, h[3])


@triton.jit
def carried_scan_kernel(decay, x, y, T, M: tl.constexpr, BT: tl.constexpr):
    """y[m, t] = decay[m] y[m, t-1] + x[m, t] over any T, block by block with a carry."""
    o_m = tl.arange(0, M)
    b_decay = tl.load(decay + o_m)
    b_carry = tl.zeros((M,), tl.float32)
    for start in range(0, T, BT):
        o_t = start + tl.arange(0, BT)
        inside = (o_t < T)[None, :]
        p = o_m[:, None] * T + o_t[None, :]
        b_x = tl.load(x + p, mask=inside, other=0.0)
        b_a = tl.where(inside, b_decay[:, None], 1.0)
        first = (tl.arange(0, BT) == 0)[None, :]
        b_x += tl.where(first, b_a * b_carry[:, None], 0.0)
        zero = tl.zeros_like(b_x)
        _, _, b_y, _ = tl.associative_scan((b_a, zero, b_x, zero), 1, affine_pair)
        tl.store(y + p, b_y, mask=inside)
        b_carry = tl.sum(tl.where((tl.arange(0, BT) == BT - 1)[None, :], b_y, 0.0), axis=1)


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = o < n
    tl.store(out + o, tl.load(x + o, mask=m) + tl.load(y + o, mask=m), mask=m)


@triton.jit
def functions_kernel(x, out, n, BLOCK: tl.constexpr):
    """(functions, n): the transcendental functions, one row each."""
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = o < n
    v = tl.load(x + o, mask=m, other=1.0)
    tl.store(out + o, tl.exp(v), mask=m)
    tl.store(out + n + o, tl.log(tl.abs(v) + 0.5), mask=m)
    tl.store(out + 2 * n + o, tl.sqrt(tl.abs(v)), mask=m)
    tl.store(out + 3 * n + o, tl.rsqrt(tl.abs(v) + 0.25), mask=m)
    tl.store(out + 4 * n + o, tl.sin(v), mask=m)
    tl.store(out + 5 * n + o, tl.cos(v), mask=m)
    tl.store(out + 6 * n + o, tl.sigmoid(v), mask=m)
    tl.store(out + 7 * n + o, 1.0 / (v * v + 1.0), mask=m)
    tl.store(out + 8 * n + o, tl.exp2(v) - tl.log2(tl.abs(v) + 1.0), mask=m)
    tl.store(out + 9 * n + o, tl.floor(v) + 2.0 * tl.ceil(v), mask=m)
    tl.store(out + 10 * n + o, tl.erf(v), mask=m)
    tl.store(out + 11 * n + o, tl.div_rn(v, v * v + 3.0) + tl.sqrt_rn(tl.abs(v)), mask=m)
    tl.store(out + 12 * n + o, tl.clamp(v, -1.0, 1.0) + tl.fma(v, v, 0.5), mask=m)


@triton.jit
def libdevice_kernel(x, out, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = o < n
    v = tl.load(x + o, mask=m, other=1.0)
    tl.store(out + o, libdevice.tanh(v), mask=m)
    tl.store(out + n + o, libdevice.expm1(v), mask=m)
    tl.store(out + 2 * n + o, libdevice.log1p(tl.abs(v)), mask=m)
    tl.store(out + 3 * n + o, libdevice.pow(tl.abs(v) + 0.1, 1.5), mask=m)
    tl.store(out + 4 * n + o, libdevice.rint(v), mask=m)
    tl.store(out + 5 * n + o, libdevice.atan2(v, 0.7), mask=m)


@triton.jit
def double_kernel(x, out, n, BLOCK: tl.constexpr):
    """float64 arithmetic on float32 data: a Kahan-free sum of squares and a polynomial."""
    o = tl.arange(0, BLOCK)
    m = o < n
    v = tl.load(x + o, mask=m, other=0.0).to(tl.float64)
    total = tl.sum(v * v, axis=0)
    tl.store(out + o, (v * 0.1 + v * v / (total + 1.0) - tl.sqrt(total) + tl.exp(-v * v)).to(tl.float32), mask=m)


@triton.jit
def softmax_rows_kernel(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    o = tl.arange(0, BLOCK)
    m = o < columns
    v = tl.load(x + row * columns + o, mask=m, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * columns + o, e / tl.sum(e, axis=0), mask=m)


@triton.jit
def reduce_kernel(x, sums, maxima, where, ROWS: tl.constexpr, COLUMNS: tl.constexpr, AXIS: tl.constexpr):
    o = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    v = tl.load(x + o)
    o_out = tl.arange(0, COLUMNS if AXIS == 0 else ROWS)
    tl.store(sums + o_out, tl.sum(v, axis=AXIS))
    tl.store(maxima + o_out, tl.max(v, axis=AXIS) + tl.min(v, axis=AXIS))
    tl.store(where + o_out, tl.argmax(v, axis=AXIS))


@triton.jit
def cumsum_kernel(x, out, products, ROWS: tl.constexpr, COLUMNS: tl.constexpr, AXIS: tl.constexpr):
    o = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    v = tl.load(x + o)
    tl.store(out + o, tl.cumsum(v, axis=AXIS))
    tl.store(products + o, tl.cumprod(v, axis=AXIS))


@triton.jit
def dot_kernel(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr):
    """c = a @ b, (M, K) by (K, N), the inner dimension in blocks of BK at run time: cp.async if stages allow."""
    o_m, o_n, o_k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, K, BK):
        b_a = tl.load(a + o_m[:, None] * K + start + o_k[None, :])
        b_b = tl.load(b + (start + o_k[:, None]) * N + o_n[None, :])
        total = tl.dot(b_a, b_b, total, input_precision=PRECISION)
    tl.store(c + o_m[:, None] * N + o_n[None, :], total)


@triton.jit
def half_dot_kernel(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    o_m, o_n, o_k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    b_a = tl.load(a + o_m[:, None] * K + o_k[None, :])
    b_b = tl.load(b + o_k[:, None] * N + o_n[None, :])
    tl.store(c + o_m[:, None] * N + o_n[None, :], tl.dot(b_a, b_b))


@triton.jit
def transpose_kernel(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    v = tl.load(x + tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :])
    tl.store(out + tl.arange(0, COLUMNS)[:, None] * ROWS + tl.arange(0, ROWS)[None, :], tl.trans(v) * 2.0)


@triton.jit
def gather_kernel(x, index, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    o = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + o, tl.gather(tl.load(x + o), tl.load(index + o), axis=1))


@triton.jit
def lag_kernel(x, scratch, out, N: tl.constexpr, LAG: tl.constexpr, BARRIER: tl.constexpr):
    """A lag through global memory: right only with the barrier between the store and the load."""
    o = tl.arange(0, N)
    tl.store(scratch + o, tl.load(x + o))
    if BARRIER:
        tl.debug_barrier()
    tl.store(out + o, tl.load(scratch + o - LAG, mask=o >= LAG, other=0.0))


@triton.jit
def histogram_kernel(x, bins, totals, old, n, BLOCK: tl.constexpr):
    """Atomics: a float sum per bin, an integer maximum, and a counter whose old value is used."""
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = o < n
    v = tl.load(x + o, mask=m, other=0.0)
    b = (tl.abs(v) * 4.0).to(tl.int32) % 8
    tl.atomic_add(bins + b, v, mask=m)
    tl.atomic_max(totals, tl.max(tl.where(m, b, 0), axis=0))
    tl.atomic_min(totals + 1, tl.min(tl.where(m, b, 9), axis=0))
    ticket = tl.atomic_add(totals + 2, 1)
    tl.store(old + tl.program_id(0), ticket)
    tl.atomic_cas(totals + 3, 0, 7)
    tl.atomic_xchg(totals + 4, ticket)


@triton.jit
def masked_bytes_kernel(x, mask, observed, out, n, BLOCK: tl.constexpr):
    """Boolean (`*i1`) and byte (`*u8`) masks in memory."""
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = o < n
    keep = tl.load(mask + o, mask=m, other=0) & (tl.load(observed + o, mask=m, other=0) != 0)
    tl.store(out + o, tl.where(keep, tl.load(x + o, mask=m), 0.0), mask=m)


@triton.jit
def integers_kernel(x, y, out, n, BLOCK: tl.constexpr):
    """Integer arithmetic of all sorts, one row each."""
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = o < n
    a, b = tl.load(x + o, mask=m, other=1), tl.load(y + o, mask=m, other=1)
    tl.store(out + o, a // b, mask=m)
    tl.store(out + n + o, a % b, mask=m)
    tl.store(out + 2 * n + o, (a << 3) ^ (a >> 2), mask=m)
    tl.store(out + 3 * n + o, (a.to(tl.int64) * b.to(tl.int64) >> 7).to(tl.int32), mask=m)
    tl.store(out + 4 * n + o, tl.umulhi(a.to(tl.uint32), b.to(tl.uint32)).to(tl.int32), mask=m)
    tl.store(out + 5 * n + o, tl.minimum(a, b) - tl.maximum(a, b) + tl.abs(a), mask=m)
    tl.store(out + 6 * n + o, (a & b) | (~a & 255), mask=m)
    tl.store(out + 7 * n + o, a.to(tl.int8).to(tl.int32) + b.to(tl.int16).to(tl.int32), mask=m)
    tl.store(out + 8 * n + o, (a.to(tl.float32) * 1.5).to(tl.int32), mask=m)


@triton.jit
def random_kernel(out, seed, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + o, tl.rand(seed, o) + tl.randn(seed, o), mask=o < n)


@triton.jit
def half_precision_kernel(x, y, out, n, BLOCK: tl.constexpr):
    """fp16 and bf16 in memory, fp16 arithmetic, float32 in between."""
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = o < n
    a, b = tl.load(x + o, mask=m, other=0.0), tl.load(y + o, mask=m, other=0.0)
    tl.store(out + o, (a * a + a).to(tl.float32) + b.to(tl.float32), mask=m)
    tl.store(out + n + o, (a.to(tl.float32) * 3.0).to(tl.float16).to(tl.float32), mask=m)
    tl.store(out + 2 * n + o, (a.to(tl.float32) * 3.0).to(tl.bfloat16).to(tl.float32) + b, mask=m)
    tl.store(out + 3 * n + o, tl.maximum(a, -a).to(tl.float32) + tl.where(b > 0, b, -b).to(tl.float32), mask=m)


@triton.jit
def collatz_kernel(x, out, BLOCK: tl.constexpr):
    """A loop whose trip count depends on the program's data."""
    i = tl.program_id(0)
    v = tl.load(x + i)
    steps = 0
    while v != 1:
        v = v // 2 if v % 2 == 0 else 3 * v + 1
        steps += 1
    tl.store(out + i, steps)


@triton.jit
def spilling_kernel(x, out, N: tl.constexpr):
    """A row that has to be kept until its sum is known."""
    o = tl.arange(0, N)
    v = tl.load(x + o)
    tl.store(out + o, v * tl.sum(v, axis=0))


@triton.jit
def cached_kernel(x, y, scale, shift, n, BLOCK: tl.constexpr):
    """Cache hints, a volatile load, scalar arguments of both precisions, a relaxed atomic."""
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = o < n
    v = tl.load(x + o, mask=m, eviction_policy="evict_last") + tl.load(x + o, mask=m, cache_modifier=".cg")
    v += tl.load(x + o, mask=m, volatile=True) + tl.load(x + o, mask=m, eviction_policy="evict_first")
    tl.atomic_add(y + o, v * scale + shift.to(tl.float32), mask=m, sem="relaxed")


@triton.jit
def last_program_kernel(x, partial, counter, out, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr, SEM: tl.constexpr):
    """Every program leaves a partial sum; whoever is last adds them up. Right only if the ticket orders memory."""
    i = tl.program_id(0)
    v = tl.load(x + i * BLOCK + tl.arange(0, BLOCK))
    tl.store(partial + i, tl.sum(v, axis=0))
    tl.debug_barrier()
    ticket = tl.atomic_add(counter, 1, sem=SEM)
    if ticket == PROGRAMS - 1:
        tl.debug_barrier()
        tl.store(out, tl.sum(tl.load(partial + tl.arange(0, PROGRAMS)), axis=0))


@triton.jit
def double_dot_kernel(a, b, c, N: tl.constexpr):
    o = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(c + o, tl.dot(tl.load(a + o), tl.load(b + o)))
