"""From five taps to the drive of a recurrence: what the kernels of both lifts are made of.

A program has one block of tokens with all features. Blocks are [features, tokens]: time is the contiguous axis of
every buffer. A tap reads its source at the shifted tokens themselves, so no program needs its neighbours' results.
"""

import triton
import triton.language as tl

TAPS = tl.constexpr(5)
SPACING = tl.constexpr(4)
EPSILON = tl.constexpr(1e-6)
# Beyond this the squares of float32 features are summed scaled.
LARGE = tl.constexpr(1e15)


@triton.jit
def tap_tokens(o_t, k, T, p_valid, MASKED: tl.constexpr):
    """The tokens that tap k reads for tokens o_t, and which of them count: inside the sequence and valid."""
    o_k = o_t + SPACING * (k - TAPS // 2)
    m_k = (o_k >= 0) & (o_k < T)
    if MASKED:
        m_k = m_k & (tl.load(p_valid + o_k, mask=m_k, other=0) != 0)
    return o_k, m_k


@triton.jit
def activate(b_x, m_h):
    """SiLU where the mask holds, else zero."""
    return tl.where(m_h, b_x * tl.sigmoid(b_x), 0.0)


@triton.jit
def norm_scale(b_h, D):
    """1 / sqrt(mean of squares + epsilon) of every column, also where the squares overflow."""
    b_most = tl.max(tl.abs(b_h), axis=0)
    b_unit = tl.where(b_most > LARGE, b_most, 1.0)
    b_u = b_h / b_unit[None, :]
    return 1.0 / (b_unit * tl.sqrt(tl.sum(b_u * b_u, axis=0) / D + EPSILON / b_unit / b_unit))


@triton.jit
def store_drive(b_h, b_scale, p_matrix, p_drive, o_d, o_t, m_d, m_t, D, N, TS, BN: tl.constexpr):
    """Drive (N, T) = scale * matrix (N, D) @ features (D, T), in blocks of rows."""
    for n in range(0, N, BN):
        o_n = n + tl.arange(0, BN)
        m_n = o_n < N
        b_w = tl.load(p_matrix + o_n[:, None] * D + o_d[None, :], mask=m_n[:, None] & m_d[None, :], other=0.0)
        b_e = tl.dot(b_w, b_h, input_precision="tf32x3") * b_scale[None, :]
        tl.store(p_drive + o_n[:, None] * TS + o_t[None, :], b_e, mask=m_n[:, None] & m_t[None, :])
