"""Conditioning and the affine head, forward and backward; some outputs of one sequence per program.

With u a lag's moment, r = |u|, q = log(1 + r) / r (one at zero) and v = q u, a gradient g of v gives

    du = q g + (1 / (1 + r) - q) (g . u / r) u / r.

Divisions and roots are rounded correctly: the hardware's approximate ones may be two units off, next to the logits.
"""

import triton
import triton.language as tl
from alphabet_core.fused import MOMENTS

from alphabet_triton.buffers import LAG_COUNT
from alphabet_triton.launching import KERNEL

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
    return ((b_1 + b_2) / n).to(tl.float32)


@triton.jit
def store_sums(sums, sums_2, p_sums, row, M, m_1, m_2, b_x):
    """Store a gradient for one of the seven sums, for poles of both banks."""
    tl.store(sums + p_sums + row * M, b_x, mask=m_1)
    tl.store(sums_2 + p_sums + row * M, b_x, mask=m_2)


@triton.jit
def count_pairs(counts, i_b, lag):
    """The number of pairs that a lag's sums are divided by, at least one."""
    return tl.maximum(tl.load(counts + i_b * COUNTS + lag), 1).to(tl.float64)


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
def add_coordinate(b_total, b_x, p_weight, p_descriptor, m_w, m_n, coordinate: tl.constexpr):
    """One of a pole's seven coordinates, for some poles: its share of the logits, in float64."""
    tl.store(p_descriptor + coordinate, b_x, mask=m_n)
    b_w = tl.load(p_weight + coordinate, mask=m_w, other=0.0).to(tl.float64)
    return b_total + tl.sum(b_w * b_x.to(tl.float64)[None, :], 1)


@triton.jit(**KERNEL)
def head_fwd_kernel(
    sums, sums_2, counts, weight, bias, descriptor, logits, M, K,
    WIDE: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Sums (B, 7, M) of either bank over counts (B, 4) to the descriptor (B, 2, M, 7) and logits (B, K)."""
    i_b, i_k = tl.program_id(0).to(tl.int64), tl.program_id(1)
    o_k = i_k * BK + tl.arange(0, BK)
    m_k = o_k < K
    b_total = tl.load(bias + o_k, mask=m_k, other=0.0).to(tl.float64)
    for start in range(0, 2 * M if WIDE else 1, BN):
        o_n = start + tl.arange(0, BN)  # the poles of both banks
        m_n = o_n < 2 * M
        m_1, m_2 = o_n < M, m_n & (o_n >= M)
        m_w = m_k[:, None] & m_n[None, :]
        p_sums = i_b * COORDINATES * M + o_n % M
        p_weight = weight + (o_k[:, None] * 2 * M + o_n[None, :]) * COORDINATES
        p_descriptor = descriptor + (i_b * 2 * M + o_n) * COORDINATES
        b_energy = log1p(load_sums(sums, sums_2, p_sums, 0, M, m_1, m_2, count_pairs(counts, i_b, 0)))
        b_total = add_coordinate(b_total, b_energy, p_weight, p_descriptor, m_w, m_n, 0)
        for lag in tl.static_range(LAGS):
            n = count_pairs(counts, i_b, 1 + lag)
            b_re = load_sums(sums, sums_2, p_sums, 1 + 2 * lag, M, m_1, m_2, n)
            b_im = load_sums(sums, sums_2, p_sums, 2 + 2 * lag, M, m_1, m_2, n)
            b_radius, _, _ = split_radius(b_re, b_im)
            b_ratio = radial_ratio(b_radius)
            b_total = add_coordinate(b_total, b_re * b_ratio, p_weight, p_descriptor, m_w, m_n, 1 + 2 * lag)
            b_total = add_coordinate(b_total, b_im * b_ratio, p_weight, p_descriptor, m_w, m_n, 2 + 2 * lag)
    tl.store(logits + i_b * K + o_k, b_total.to(tl.float32), mask=m_k)


@triton.jit
def coordinate_gradient(p_d, weight, o_n, m_n, M, K, coordinate, BK: tl.constexpr, BN: tl.constexpr):
    """The gradient of a coordinate for some poles: that of a sequence's logits, at p_d, through the weights."""
    b_g = tl.zeros([BN], tl.float64)
    for start in range(0, K, BK):
        o_k = start + tl.arange(0, BK)
        m_k = o_k < K
        b_d = tl.load(p_d + o_k, mask=m_k, other=0.0)
        p_weight = weight + (o_k[:, None] * 2 * M + o_n[None, :]) * COORDINATES + coordinate
        b_w = tl.load(p_weight, mask=m_k[:, None] & m_n[None, :], other=0.0)
        b_g += tl.sum(b_w.to(tl.float64) * b_d.to(tl.float64)[:, None], 0)
    return b_g.to(tl.float32)


@triton.jit
def store_sum_gradients(
    sums, sums_2, counts, weight, p_d, d_sums, d_sums_2, i_b, i_n, M, K, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """The gradients of a sequence's logits, at p_d, to d_sums (B, 7, M) of either bank, for some poles."""
    o_n = i_n * BN + tl.arange(0, BN)
    m_n = o_n < 2 * M
    m_1, m_2 = o_n < M, m_n & (o_n >= M)
    p_sums = i_b * COORDINATES * M + o_n % M
    n = count_pairs(counts, i_b, 0)
    b_energy = load_sums(sums, sums_2, p_sums, 0, M, m_1, m_2, n)
    b_g = coordinate_gradient(p_d, weight, o_n, m_n, M, K, 0, BK, BN)
    store_sums(d_sums, d_sums_2, p_sums, 0, M, m_1, m_2, (b_g / (1.0 + b_energy)).to(tl.float64) / n)
    for lag in tl.static_range(LAGS):
        n = count_pairs(counts, i_b, 1 + lag)
        b_re = load_sums(sums, sums_2, p_sums, 1 + 2 * lag, M, m_1, m_2, n)
        b_im = load_sums(sums, sums_2, p_sums, 2 + 2 * lag, M, m_1, m_2, n)
        b_radius, b_u, b_v = split_radius(b_re, b_im)
        b_ratio = radial_ratio(b_radius)
        b_a = coordinate_gradient(p_d, weight, o_n, m_n, M, K, 1 + 2 * lag, BK, BN)
        b_b = coordinate_gradient(p_d, weight, o_n, m_n, M, K, 2 + 2 * lag, BK, BN)
        b_along = (1.0 / (1.0 + b_radius) - b_ratio) * (b_a * b_u + b_b * b_v)
        b_dre, b_dim = b_ratio * b_a + b_along * b_u, b_ratio * b_b + b_along * b_v
        store_sums(d_sums, d_sums_2, p_sums, 1 + 2 * lag, M, m_1, m_2, b_dre.to(tl.float64) / n)
        store_sums(d_sums, d_sums_2, p_sums, 2 + 2 * lag, M, m_1, m_2, b_dim.to(tl.float64) / n)


@triton.jit(**KERNEL)
def head_bwd_kernel(
    sums, sums_2, counts, weight, d_logits, d_sums, d_sums_2, M, K, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """d_logits (B, K) to d_sums (B, 7, M) of either bank."""
    i_b, i_n = tl.program_id(0).to(tl.int64), tl.program_id(1)
    p_d = d_logits + i_b * K
    store_sum_gradients(sums, sums_2, counts, weight, p_d, d_sums, d_sums_2, i_b, i_n, M, K, BN, BK)
