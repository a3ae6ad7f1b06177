"""Conditioning and the affine head: with u a lag's moment and r = |u|, the head reads log(1 + r) / r u.

Divisions and roots are rounded correctly: the hardware's approximate ones may be two units off, next to the logits.
"""

import triton
import triton.language as tl
from alphabet_core.fused import MOMENTS

from alphabet_triton.buffers import LAG_COUNT
from alphabet_triton.launching import KERNEL
from alphabet_triton.ops.chunk.kernel import halo_tokens, keep_valid, load_chunk, store_moments, store_states
from alphabet_triton.ops.lift.kernel import locate, valid_tokens
from alphabet_triton.ops.pairs.kernel import add_pairs

COORDINATES = tl.constexpr(MOMENTS)
LAGS = tl.constexpr(LAG_COUNT - 1)
COUNTS = tl.constexpr(LAG_COUNT)


@triton.jit
def log1p(b_x):
    """log(1 + x) for x >= 0 to float32's precision: the hardware's logarithm is only absolutely precise near one."""
    b_s = tl.div_rn(b_x, 2.0 + b_x)
    b_q = b_s * b_s
    b_near = 2.0 * b_s * (1.0 + b_q * (1 / 3 + b_q * (1 / 5 + b_q * (1 / 7 + b_q * (1 / 9 + b_q * (1 / 11))))))
    return tl.where(b_x < 0.5, b_near, tl.log(1.0 + b_x))


@triton.jit
def load_sums(sums, sums_2, p_sums, row, M, m_1, m_2, n):
    """One of the seven sums over n pairs, for poles of both banks."""
    b_1 = tl.load(sums + p_sums + row * M, mask=m_1, other=0.0)
    b_2 = tl.load(sums_2 + p_sums + row * M, mask=m_2, other=0.0)
    return tl.div_rn(b_1 + b_2, n + tl.zeros_like(b_1))


@triton.jit
def count_pairs(counts, i_b, lag):
    """The number of pairs that a lag's sums are divided by, at least one."""
    return tl.maximum(tl.load(counts + i_b * COUNTS + lag), 1).to(tl.float32)


@triton.jit
def split_radius(b_re, b_im):
    """|u| and u / |u| of u = re + i im; in units of the larger part no square overflows."""
    b_most = tl.maximum(tl.abs(b_re), tl.abs(b_im))
    b_unit = tl.where(b_most > 0.0, b_most, 1.0)
    b_u, b_v = tl.div_rn(b_re, b_unit), tl.div_rn(b_im, b_unit)
    b_length = tl.sqrt_rn(b_u * b_u + b_v * b_v)
    b_safe = tl.where(b_most > 0.0, b_length, 1.0)
    return b_unit * b_length, tl.div_rn(b_u, b_safe), tl.div_rn(b_v, b_safe)


@triton.jit
def radial_ratio(b_radius):
    """log(1 + r) / r, one at zero."""
    m_r = b_radius > 0.0
    return tl.where(m_r, tl.div_rn(log1p(b_radius), tl.where(m_r, b_radius, 1.0)), 1.0)


@triton.jit
def store_counts(p_counts, o_t, m_v, p_valid):
    """Store how many pairs (t, t - lag) of valid tokens a chunk has, for lag zero and every other."""
    tl.store(p_counts, tl.sum(m_v.to(tl.int32)))
    for i in tl.static_range(LAGS):
        o_l = o_t - (1 << i)
        m_l = valid_tokens(o_l, m_v & (o_l >= 0), p_valid, True)
        tl.store(p_counts + 1 + i, tl.sum(m_l.to(tl.int32)))


@triton.jit
def add_counts(p_parts, p_counts, T, chunks, MASKED: tl.constexpr, BC: tl.constexpr):
    """Store the numbers of valid pairs of every lag in a sequence, at p_counts, of those of its chunks, at p_parts."""
    for i in tl.static_range(COUNTS):
        if MASKED:
            b_n = tl.zeros([BC], tl.int32)
            for first in range(0, chunks, BC):
                o_c = first + tl.arange(0, BC)
                b_n += tl.load(p_parts + o_c * COUNTS + i, mask=o_c < chunks, other=0)
            tl.store(p_counts + i, tl.sum(b_n))
        else:
            tl.store(p_counts + i, tl.maximum(T - ((1 << i) >> 1), 0))  # the lags 0, 1, 2 and 4


@triton.jit
def add_chunks(parts, sums, i_b, size, chunks, BC: tl.constexpr, BJ: tl.constexpr):
    """Store sums (B, size) over a sequence's chunks of parts (B, chunks, size)."""
    for start in range(0, size, BJ):
        o_j = start + tl.arange(0, BJ)
        m_j = o_j < size
        b_x = tl.zeros([BC, BJ], tl.float32)
        for first in range(0, chunks, BC):
            o_c = first + tl.arange(0, BC)
            p_x = parts + (i_b * chunks + o_c[:, None]) * size + o_j[None, :]
            b_x += tl.load(p_x, mask=(o_c < chunks)[:, None] & m_j[None, :], other=0.0)
        tl.store(sums + i_b * size + o_j, tl.sum(b_x, 0), mask=m_j)


@triton.jit
def store_descriptor(sums, sums_2, counts, descriptor, i_b, M, BN: tl.constexpr):
    """A sequence's descriptor (2, M, 7) of its sums (7, M) of either bank over counts (4,)."""
    for start in range(0, 2 * M, BN):
        o_n = start + tl.arange(0, BN)  # the poles of both banks
        m_n = o_n < 2 * M
        m_1, m_2 = o_n < M, m_n & (o_n >= M)
        p_sums = i_b * COORDINATES * M + o_n % M
        p_descriptor = descriptor + (i_b * 2 * M + o_n) * COORDINATES
        b_energy = load_sums(sums, sums_2, p_sums, 0, M, m_1, m_2, count_pairs(counts, i_b, 0))
        tl.store(p_descriptor, log1p(b_energy), mask=m_n)
        for lag in range(LAGS):
            n = count_pairs(counts, i_b, 1 + lag)
            b_re = load_sums(sums, sums_2, p_sums, 1 + 2 * lag, M, m_1, m_2, n)
            b_im = load_sums(sums, sums_2, p_sums, 2 + 2 * lag, M, m_1, m_2, n)
            b_radius, _, _ = split_radius(b_re, b_im)
            b_ratio = radial_ratio(b_radius)
            tl.store(p_descriptor + 1 + 2 * lag, b_re * b_ratio, mask=m_n)
            tl.store(p_descriptor + 2 + 2 * lag, b_im * b_ratio, mask=m_n)


@triton.jit
def store_logits(p_descriptor, weight, bias, p_logits, size, K, BK: tl.constexpr, BJ: tl.constexpr):
    """Logits (K,) = weight (K, size) @ descriptor (size,) + bias, added up in float32 pairs."""
    for start in range(0, K, BK):
        o_k = start + tl.arange(0, BK)
        m_k = o_k < K
        b_x, b_low = tl.zeros([BK, BJ], tl.float32), tl.zeros([BK, BJ], tl.float32)
        for j in range(0, size, BJ):
            o_j = j + tl.arange(0, BJ)
            m_j = o_j < size
            p_w = weight + o_k[:, None].to(tl.int64) * size + o_j[None, :]
            b_w = tl.load(p_w, mask=m_k[:, None] & m_j[None, :], other=0.0)
            b_d = tl.load(p_descriptor + o_j, mask=m_j, other=0.0)[None, :] + tl.zeros([BK, BJ], tl.float32)
            b_y = b_w * b_d
            b_x, b_low = add_pairs(b_x, b_low, b_y, tl.fma(b_w, b_d, -b_y))
        b_sum, b_rest = tl.reduce((b_x, b_low), 1, add_pairs)
        b_bias = tl.load(bias + o_k, mask=m_k, other=0.0)
        b_sum, b_rest = add_pairs(b_sum, b_rest, b_bias, tl.zeros([BK], tl.float32))
        tl.store(p_logits + o_k, b_sum + b_rest, mask=m_k)


@triton.jit(**KERNEL)
def head_fwd_kernel(
    parts, local, ends, transition, valid, weight, bias, tickets, parts_2, counts_of_chunks,
    states, sums, sums_2, counts, descriptor, logits, T, TS, M, K,
    MASKED: tl.constexpr, KEEP: tl.constexpr,
    BT: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BJ: tl.constexpr,
):  # fmt: skip
    """Lines 14, 15 and the last: every chunk's moments of the cascaded bank, and of all chunks' moments the logits.

    local (B, 2M, T), ends (B, 2M, chunks): the cascaded bank's states in chunks that began at zero, and their last;
    parts, parts_2 (B, chunks, 7, M): moment sums of either bank, of which this writes the second; of all chunks, sums
    and sums_2 (B, 7, M) and counts (B, 4); descriptor (B, 2, M, 7), logits (B, K). With KEEP also the cascaded bank's
    states (B, 2M, T) are stored.

    A program has one chunk. Programs of a sequence draw tickets; the one that draws the last finds all chunks' sums
    written, and adds them up in their order: the result does not depend on which program it is.
    """
    chunks = tl.cdiv(T, BT)
    i_t, i_b = locate(chunks)
    o_t = i_t * BT + tl.arange(0, BT)
    o_h = halo_tokens(i_t, BT)
    p_valid = valid + i_b * T
    m_t = o_t < T
    m_v = valid_tokens(o_t, m_t, p_valid, MASKED)
    m_o = valid_tokens(o_h, (o_h >= 0) & (o_h < T), p_valid, MASKED)
    for m in range(0, M, BM):
        o_m = m + tl.arange(0, BM)
        b_zr, b_zi, b_hr, b_hi = load_chunk(local, ends, transition, i_b, i_t, o_m, T, TS, M, BM, BT, BC)
        if KEEP:
            store_states(states, i_b, o_m, o_t, M, T, TS, b_zr, b_zi)
        b_zr, b_zi = keep_valid(b_zr, b_zi, m_v)
        b_hr, b_hi = keep_valid(b_hr, b_hi, m_o)
        p_sums = parts_2 + (i_b * chunks + i_t) * COORDINATES * M + o_m
        store_moments(p_sums, o_m < M, M, b_zr, b_zi, b_hr, b_hi, BM, BT)
    p_counts = counts_of_chunks + i_b * chunks * COUNTS
    if MASKED:
        store_counts(p_counts + i_t * COUNTS, o_t, m_v, p_valid)
    tl.debug_barrier()  # all threads have stored before one of them draws the ticket
    if tl.atomic_add(tickets + i_b, 1, sem="acq_rel") == chunks - 1:
        tl.debug_barrier()  # no thread reads before that one has drawn it
        add_chunks(parts, sums, i_b, M * COORDINATES, chunks, BC, BJ)
        add_chunks(parts_2, sums_2, i_b, M * COORDINATES, chunks, BC, BJ)
        add_counts(p_counts, counts + i_b * COUNTS, T, chunks, MASKED, BC)
        tl.debug_barrier()
        store_descriptor(sums, sums_2, counts, descriptor, i_b, M, BN)
        tl.debug_barrier()
        p_descriptor = descriptor + i_b * 2 * M * COORDINATES
        store_logits(p_descriptor, weight, bias, logits + i_b * K, 2 * M * COORDINATES, K, BK, BJ)
