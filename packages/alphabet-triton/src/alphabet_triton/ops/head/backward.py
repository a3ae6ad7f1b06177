"""The backward of conditioning and affine head, down to the moment sums; some poles of one sequence per program.

With u a lag's moment, r = |u|, q = log(1 + r) / r (one at zero) and v = q u, a gradient g of v gives

    du = q g + (1 / (1 + r) - q) (g . u / r) u / r.
"""

import triton
import triton.language as tl

from alphabet_triton.launching import KERNEL
from alphabet_triton.ops.head.kernel import COORDINATES, LAGS, count_pairs, load_sums, radial_ratio, split_radius
from alphabet_triton.ops.pairs.kernel import add_to_pair, close_pair


@triton.jit
def store_sums(sums, sums_2, p_sums, row, M, m_1, m_2, b_x):
    """Store the gradient of one of the seven sums, for poles of both banks."""
    tl.store(sums + p_sums + row * M, b_x, mask=m_1)
    tl.store(sums_2 + p_sums + row * M, b_x, mask=m_2)


@triton.jit
def coordinate_gradient(p_d, weight, o_n, m_n, M, K, coordinate, BK: tl.constexpr, BN: tl.constexpr):
    """The gradient of a coordinate for some poles: that of a sequence's logits, at p_d, through the weights."""
    b_sum, b_rest = tl.zeros([BK, BN], tl.float32), tl.zeros([BK, BN], tl.float32)
    for start in range(0, K, BK):
        o_k = start + tl.arange(0, BK)
        m_k = o_k < K
        b_d = tl.load(p_d + o_k, mask=m_k, other=0.0)
        p_weight = weight + (o_k[:, None] * 2 * M + o_n[None, :]) * COORDINATES + coordinate
        b_w = tl.load(p_weight, mask=m_k[:, None] & m_n[None, :], other=0.0)
        b_sum, b_rest = add_to_pair(b_sum, b_rest, b_w * b_d[:, None])
    return close_pair(b_sum, b_rest, 0)


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
    store_sums(d_sums, d_sums_2, p_sums, 0, M, m_1, m_2, b_g / (1.0 + b_energy) / n)
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
        store_sums(d_sums, d_sums_2, p_sums, 1 + 2 * lag, M, m_1, m_2, b_dre / n)
        store_sums(d_sums, d_sums_2, p_sums, 2 + 2 * lag, M, m_1, m_2, b_dim / n)


@triton.jit(**KERNEL)
def head_bwd_kernel(
    sums, sums_2, counts, weight, d_logits, d_sums, d_sums_2, M, K, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """d_logits (B, K) to d_sums (B, 7, M) of either bank."""
    i_b, i_n = tl.program_id(0).to(tl.int64), tl.program_id(1)
    p_d = d_logits + i_b * K
    store_sum_gradients(sums, sums_2, counts, weight, p_d, d_sums, d_sums_2, i_b, i_n, M, K, BN, BK)
