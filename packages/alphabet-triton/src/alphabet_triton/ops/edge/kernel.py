"""Lines 4-7 of Algorithm 1, forward and backward.

A tap took its source to the token `offset` before it; in the backward pass the source at t reads the
gradient at t - offset, for its own gradient and for the tap's.
"""

import triton
import triton.language as tl

from alphabet_triton.launching import KERNEL
from alphabet_triton.ops.lift.kernel import (
    SPACING,
    TAPS,
    activate,
    add_squares,
    locate,
    norm_scale,
    scan_drive,
    tap_tokens,
    valid_tokens,
)


@triton.jit(**KERNEL)
def edge_fwd_kernel(
    values, valid, gate, project, taps, bias, matrix, transition, pre, lifted, scale, local, ends, tickets,
    T, TS, C, D, M,
    MASKED: tl.constexpr, KEEP: tl.constexpr, WIDE: tl.constexpr,
    BT: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """Lines 4-8: values (B, T, C) to lifted (B, D, T), the norm's scale (B, T) and the direct bank's states by chunks.

    local (B, 2M, T): the states of chunks that begin at zero; ends (B, 2M, chunks): the last of each. With KEEP what
    the SiLU is applied to, pre (B, D, T), is stored for the backward. The tickets (B,) that the head draws are zeroed.
    """
    i_t, i_b = locate(tl.cdiv(T, BT))
    o_t = i_t * BT + tl.arange(0, BT)
    p_valid = valid + i_b * T
    m_t = o_t < T
    b_h = tl.zeros([BD, BT], tl.float32)
    b_sum, b_far = tl.zeros([BT], tl.float32), tl.zeros([BT], tl.float32)
    for d in range(0, D if WIDE else 1, BD):
        o_d = d + tl.arange(0, BD)
        m_d = o_d < D
        b_x = tl.load(bias + o_d, mask=m_d, other=0.0)[:, None] + tl.zeros([BD, BT], tl.float32)
        for c in range(C):
            b_w = tl.load(project + o_d * C + c, mask=m_d, other=0.0)
            for k in tl.static_range(TAPS):  # unrolled, so that a channel's loads wait for memory together
                o_k, m_k = tap_tokens(o_t, k, T, p_valid, MASKED)
                b_tap = tl.load(taps + o_d * TAPS + k, mask=m_d, other=0.0)
                b_v = tl.load(values + (i_b * T + o_k) * C + c, mask=m_k, other=0.0)
                b_x += (b_w * b_tap)[:, None] * b_v[None, :]
        m_h = valid_tokens(o_t, m_t, p_valid, MASKED)
        b_h = activate(b_x, m_d[:, None] & m_h[None, :])
        b_sum, b_far = add_squares(b_h, b_sum, b_far)
        p_h = (i_b * D + o_d[:, None]) * TS + o_t[None, :]
        if KEEP:
            tl.store(pre + p_h, b_x, mask=m_d[:, None] & m_t[None, :])
        tl.store(lifted + p_h, b_h, mask=m_d[:, None] & m_t[None, :])
    m_h = valid_tokens(o_t, m_t, p_valid, MASKED)
    b_scale = tl.where(m_h, norm_scale(b_sum, b_far, D), 0.0)
    tl.store(scale + i_b * TS + o_t, b_scale, mask=m_t)
    if i_t == 0:
        tl.store(tickets + i_b, 0)
    m_g = valid_tokens(o_t, m_t, gate + i_b * T, MASKED)
    p_h = lifted + i_b * D * TS
    scan_drive(
        b_h, b_scale, p_h, matrix, transition, local, ends, i_b, i_t, o_t, m_h, m_g, T, D, M, TS,
        WIDE, False, BT, BD, BM,
    )  # fmt: skip


@triton.jit(**KERNEL)
def edge_bwd_kernel(
    d_pre, values, valid, project, taps, d_values, d_weights, T, TS, C, D,
    MASKED: tl.constexpr, VALUES: tl.constexpr, BT: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """d_pre (B, D, T) to d_weights (.., D, 6 + C), those of taps, bias and project; with VALUES to d_values too.

    A program has one of P parts of the features, for a block of tokens. d_values (B, P, T, C) is summed over the parts
    afterwards, d_weights over the blocks.
    """
    parts = tl.cdiv(D, BD)
    i_p, i_b = locate(tl.cdiv(T, BT) * parts)
    i_t, i_d = i_p // parts, i_p % parts
    o_t, o_d = i_t * BT + tl.arange(0, BT), i_d * BD + tl.arange(0, BD)
    m_t, m_d = o_t < T, o_d < D
    m_s = valid_tokens(o_t, m_t, valid + i_b * T, MASKED)
    p_d = d_pre + (i_b * D + o_d[:, None]) * TS
    p_v, p_dv = values + (i_b * T + o_t) * C, d_values + ((i_b * parts + i_d) * T + o_t) * C
    p_w = d_weights + ((i_b * tl.cdiv(T, BT) + i_t) * D + o_d) * (TAPS + 1 + C)
    b_p = tl.zeros([BD, BT], tl.float32)  # the projected features
    for c in range(C):
        b_w = tl.load(project + o_d * C + c, mask=m_d, other=0.0)
        b_p += b_w[:, None] * tl.load(p_v + c, mask=m_s, other=0.0)[None, :]
    b_dp = tl.zeros([BD, BT], tl.float32)
    for k in range(TAPS):
        o_k = o_t - SPACING * (k - TAPS // 2)
        m_k = m_d[:, None] & ((o_k >= 0) & (o_k < T))[None, :]
        b_d = tl.load(p_d + o_k[None, :], mask=m_k, other=0.0)
        b_dp += tl.load(taps + o_d * TAPS + k, mask=m_d, other=0.0)[:, None] * b_d
        tl.store(p_w + k, tl.sum(b_d * b_p, 1), mask=m_d)
    b_d = tl.load(p_d + o_t[None, :], mask=m_d[:, None] & m_t[None, :], other=0.0)
    tl.store(p_w + TAPS, tl.sum(b_d, 1), mask=m_d)
    b_dp = tl.where(m_d[:, None] & m_s[None, :], b_dp, 0.0)
    for c in range(C):
        b_v = tl.load(p_v + c, mask=m_s, other=0.0)
        tl.store(p_w + TAPS + 1 + c, tl.sum(b_dp * b_v[None, :], 1), mask=m_d)
        if VALUES:
            b_w = tl.load(project + o_d * C + c, mask=m_d, other=0.0)
            tl.store(p_dv + c, tl.sum(b_dp * b_w[:, None], 0), mask=m_t)
