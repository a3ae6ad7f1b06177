"""From five taps to the drive of a recurrence: what the kernels of both lifts are made of.

A program has one block of tokens with all features. Blocks are [features, tokens]: time is the contiguous axis of
every buffer. A tap reads its source at the shifted tokens themselves, so no program needs its neighbours' results.

Features that a program cannot hold (WIDE) come in parts of BD. What the parts have to do with each other is the norm,
whose squares add up over them, and products, which read again what the program has stored.
"""

import triton
import triton.language as tl
from alphabet_core.fused import LIFT_OFFSETS, NORM_EPSILON

from alphabet_triton.ops.chunk.kernel import POWERS, scan_alone, store_states

TAPS = tl.constexpr(len(LIFT_OFFSETS))
SPACING = tl.constexpr(LIFT_OFFSETS[1] - LIFT_OFFSETS[0])
EPSILON = tl.constexpr(NORM_EPSILON)
assert tuple(SPACING.value * (k - TAPS.value // 2) for k in range(TAPS.value)) == LIFT_OFFSETS
OVERFLOW_UNIT = tl.constexpr(2.0**-80)  # a unit in which the square of no float32 overflows


@triton.jit
def locate(parts):
    """The part and, in int64, the sequence that a program works on, where every sequence has so many parts.

    Grids over time have one axis, which has room for 2^31 - 1 programs; a second would have room for 65,535.
    """
    i_p = tl.program_id(0)
    return i_p % parts, (i_p // parts).to(tl.int64)


@triton.jit
def valid_tokens(o_t, m_t, p_valid, MASKED: tl.constexpr):
    """The mask of tokens o_t that are valid, among those of the mask m_t, which lie inside the sequence."""
    if MASKED:
        m_t = m_t & (tl.load(p_valid + o_t, mask=m_t, other=0) != 0)
    return m_t


@triton.jit
def tap_tokens(o_t, k, T, p_valid, MASKED: tl.constexpr):
    """The tokens that tap k reads for tokens o_t, and the mask of those that lie inside the sequence and are valid."""
    o_k = o_t + SPACING * (k - TAPS // 2)
    return o_k, valid_tokens(o_k, (o_k >= 0) & (o_k < T), p_valid, MASKED)


@triton.jit
def activate(b_x, m_h):
    """SiLU where the mask holds, else zero."""
    return tl.where(m_h, b_x * tl.sigmoid(b_x), 0.0)


@triton.jit
def add_squares(b_h, b_sum, b_far):
    """The sums of every column's squares, as they are and scaled down, with those of more features."""
    b_u = b_h * OVERFLOW_UNIT
    return b_sum + tl.sum(b_h * b_h, axis=0), b_far + tl.sum(b_u * b_u, axis=0)


@triton.jit
def norm_scale(b_sum, b_far, D):
    """1 / sqrt(mean of squares + epsilon) of every column, also where the squares overflow.

    Rounded correctly: an error here is one of all features of a token at once.
    """
    m_near = b_sum < float("inf")
    b_mean = tl.div_rn(tl.where(m_near, b_sum, b_far), D.to(tl.float32) + tl.zeros_like(b_sum))
    b_unit = tl.where(m_near, 1.0, OVERFLOW_UNIT)
    return tl.div_rn(b_unit, tl.sqrt_rn(b_mean + tl.where(m_near, EPSILON, 0.0)))


@triton.jit
def multiply(
    b_x, p_x, p_w, o_n, o_t, m_n, m_t, stride_n, stride_d, D, TS,
    WIDE: tl.constexpr, ACTIVATE: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr, BT: tl.constexpr,
):  # fmt: skip
    """Rows o_n of weights (N, D) @ features (D, T): those held in b_x or, if WIDE, those stored at p_x.

    The program has met a barrier since it stored them. With ACTIVATE the SiLU of what is stored is multiplied.
    """
    if WIDE:
        b_e = tl.zeros([BN, BT], tl.float32)
        for d in range(0, D, BD):
            o_d = d + tl.arange(0, BD)
            m_d = o_d < D
            p_f = p_x + o_d[:, None].to(tl.int64) * TS + o_t[None, :]
            b_f = tl.load(p_f, mask=m_d[:, None] & m_t[None, :], other=0.0)
            if ACTIVATE:
                b_f *= tl.sigmoid(b_f)
            b_w = tl.load(p_w + o_n[:, None] * stride_n + o_d[None, :] * stride_d, mask=m_n[:, None] & m_d[None, :],
                          other=0.0)  # fmt: skip
            b_e += tl.dot(b_w, b_f, input_precision="tf32x3")
    else:
        o_d = tl.arange(0, BD)
        m_d = o_d < D
        b_w = tl.load(p_w + o_n[:, None] * stride_n + o_d[None, :] * stride_d, mask=m_n[:, None] & m_d[None, :],
                      other=0.0)  # fmt: skip
        b_e = tl.dot(b_w, b_x, input_precision="tf32x3")
    return b_e


@triton.jit
def scan_drive(
    b_h, b_scale, p_h, matrix, transition, local, ends, i_b, i_t, o_t, m_h, m_g, T, D, M, TS,
    WIDE: tl.constexpr, ACTIVATE: tl.constexpr, BT: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """Drive scale * matrix (2M, D) @ features (D, T) where the mask m_g is open, and a chunk's scan of it from zero.

    The states go to local (B, 2M, T), the chunk's last to ends (B, 2M, chunks).
    """
    if WIDE:
        tl.debug_barrier()
    chunks = tl.cdiv(T, BT)
    for m in range(0, M, BM):
        o_m = m + tl.arange(0, BM)
        m_m = o_m < M
        b_er = multiply(b_h, p_h, matrix, o_m, o_t, m_m, m_h, D, 1, D, TS, WIDE, ACTIVATE, BM, BD, BT)
        b_ei = multiply(b_h, p_h, matrix, M + o_m, o_t, m_m, m_h, D, 1, D, TS, WIDE, ACTIVATE, BM, BD, BT)
        b_er = tl.where(m_g[None, :], b_er * b_scale[None, :], 0.0)
        b_ei = tl.where(m_g[None, :], b_ei * b_scale[None, :], 0.0)
        b_zr, b_zi, b_lr, b_li = scan_alone(b_er, b_ei, transition + o_m * POWERS, m_m, M, BM, BT)
        store_states(local, i_b, o_m, o_t, M, T, TS, b_zr, b_zi)
        row = i_b * 2 * M + o_m
        tl.store(ends + row * chunks + i_t, b_lr, mask=m_m)
        tl.store(ends + (row + M) * chunks + i_t, b_li, mask=m_m)
