"""From five taps to the drive of a recurrence, one block of tokens with all features per program.

Blocks are [features, tokens]: time is the contiguous axis of every buffer. A tap reads its source at the shifted tokens
themselves, so no program needs its neighbours' results.
"""

import triton
import triton.language as tl

from alphabet_triton.launching import UNSPECIALIZED

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


@triton.jit(do_not_specialize=UNSPECIALIZED)
def edge_fwd_kernel(
    values, valid, gate, project, taps, bias, matrix, pre, lifted, scale, drive, T, TS, C, D, N,
    MASKED: tl.constexpr, KEEP: tl.constexpr, BT: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Lines 4-7: values (B, T, C) to lifted (B, D, T), the norm's scale (B, T) and the direct bank's drive (B, N, T).

    With KEEP also what the SiLU is applied to, pre (B, D, T), for the way back.
    """
    i_t, i_b = tl.program_id(0), tl.program_id(1).to(tl.int64)
    o_t, o_d = i_t * BT + tl.arange(0, BT), tl.arange(0, BD)
    m_d = o_d < D
    p_valid = valid + i_b * T
    b_x = tl.load(bias + o_d, mask=m_d, other=0.0)[:, None] + tl.zeros([BD, BT], tl.float32)
    for k in range(TAPS):
        o_k, m_k = tap_tokens(o_t, k, T, p_valid, MASKED)
        b_tap = tl.load(taps + o_d * TAPS + k, mask=m_d, other=0.0)
        for c in range(C):
            b_w = tl.load(project + o_d * C + c, mask=m_d, other=0.0) * b_tap
            b_v = tl.load(values + (i_b * T + o_k) * C + c, mask=m_k, other=0.0)
            b_x += b_w[:, None] * b_v[None, :]
    m_t = o_t < T
    m_h = m_t
    if MASKED:
        m_h = m_h & (tl.load(p_valid + o_t, mask=m_t, other=0) != 0)
    b_h = activate(b_x, m_d[:, None] & m_h[None, :])
    b_scale = norm_scale(b_h, D)
    p_h = (i_b * D + o_d[:, None]) * TS + o_t[None, :]
    if KEEP:
        tl.store(pre + p_h, b_x, mask=m_d[:, None] & m_t[None, :])
    tl.store(lifted + p_h, b_h, mask=m_d[:, None] & m_t[None, :])
    tl.store(scale + i_b * TS + o_t, b_scale, mask=m_t)
    if MASKED:
        b_scale = tl.where(tl.load(gate + i_b * T + o_t, mask=m_t, other=0) != 0, b_scale, 0.0)
    store_drive(b_h, b_scale, matrix, drive + i_b * N * TS, o_d, o_t, m_d, m_t, D, N, TS, BN)


@triton.jit(do_not_specialize=UNSPECIALIZED)
def reader_fwd_kernel(
    lifted, scale, states, valid, synthesis, through, taps, bias, matrix, pre, scale_2, drive, T, TS, D, N,
    MASKED: tl.constexpr, KEEP: tl.constexpr, BT: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Lines 9-13: lifted (B, D, T) and direct states (B, N, T) to the cascaded bank's drive (B, N, T).

    The synthesized stream exists only in registers, once for each tap. With KEEP what the SiLU is applied to, pre
    (B, D, T), and the norm's scale_2 (B, T) are stored for the way back.
    """
    i_t, i_b = tl.program_id(0), tl.program_id(1).to(tl.int64)
    o_t, o_d = i_t * BT + tl.arange(0, BT), tl.arange(0, BD)
    m_d = o_d < D
    p_valid = valid + i_b * T
    b_through = tl.load(through + o_d, mask=m_d, other=0.0)
    b_x = tl.load(bias + o_d, mask=m_d, other=0.0)[:, None] + tl.zeros([BD, BT], tl.float32)
    for k in range(TAPS):
        o_k, m_k = tap_tokens(o_t, k, T, p_valid, MASKED)
        m_s = m_d[:, None] & m_k[None, :]
        b_h = tl.load(lifted + (i_b * D + o_d[:, None]) * TS + o_k[None, :], mask=m_s, other=0.0)
        b_r = tl.load(scale + i_b * TS + o_k, mask=m_k, other=0.0)
        b_s = b_h * (1.0 + b_through[:, None] * b_r[None, :])
        for n in range(0, N, BN):
            o_n = n + tl.arange(0, BN)
            m_n = o_n < N
            b_w = tl.load(synthesis + o_d[:, None] * N + o_n[None, :], mask=m_d[:, None] & m_n[None, :], other=0.0)
            b_z = tl.load(states + (i_b * N + o_n[:, None]) * TS + o_k[None, :], mask=m_n[:, None] & m_k[None, :],
                          other=0.0)  # fmt: skip
            b_s += tl.dot(b_w, b_z, input_precision="tf32x3")
        b_x += tl.load(taps + o_d * TAPS + k, mask=m_d, other=0.0)[:, None] * tl.where(m_s, b_s, 0.0)
    m_t = o_t < T
    m_h = m_t
    if MASKED:
        m_h = m_h & (tl.load(p_valid + o_t, mask=m_t, other=0) != 0)
    b_h = activate(b_x, m_d[:, None] & m_h[None, :])
    b_scale = tl.where(m_h, norm_scale(b_h, D), 0.0)
    if KEEP:
        tl.store(pre + (i_b * D + o_d[:, None]) * TS + o_t[None, :], b_x, mask=m_d[:, None] & m_t[None, :])
        tl.store(scale_2 + i_b * TS + o_t, b_scale, mask=m_t)
    store_drive(b_h, b_scale, matrix, drive + i_b * N * TS, o_d, o_t, m_d, m_t, D, N, TS, BN)
