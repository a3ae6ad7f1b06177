"""The way back from a drive to a lift's source: two kernels for each of the two lifts, the first of them shared.

With h = silu(x), s = 1 / sqrt(mean(h^2) + epsilon) and e = s W h, a gradient of e gives g = W^T de and

    dh = dh + s g - h s^3 / D (ds + sum(h g)),    dx = dh silu'(x),    silu'(x) = sigma + h (1 - sigma),

where dh and ds on the right are what h and s were used for elsewhere. A tap took its source to the token `offset`
before it; on the way back the source at t asks x at t - offset, for its own gradient and for the tap's.
"""

import triton
import triton.language as tl

from alphabet_triton.launching import UNSPECIALIZED
from alphabet_triton.ops.lift.kernel import SPACING, TAPS


@triton.jit(do_not_specialize=UNSPECIALIZED)
def norm_bwd_kernel(
    pre, scale, valid, matrix, d_lifted, d_scale, d_drive, d_pre, T, TS, D, N,
    MASKED: tl.constexpr, ALONE: tl.constexpr, BT: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """d_drive (B, N, T) and, unless ALONE, d_lifted (B, D, T) and d_scale (B, T) to d_pre (B, D, T).

    Where d_drive's gate is shut it is zero already.
    """
    i_t, i_b = tl.program_id(0), tl.program_id(1).to(tl.int64)
    o_t, o_d = i_t * BT + tl.arange(0, BT), tl.arange(0, BD)
    m_t, m_d = o_t < T, o_d < D
    m_h = m_t
    if MASKED:
        m_h = m_h & (tl.load(valid + i_b * T + o_t, mask=m_t, other=0) != 0)
    m_s = m_d[:, None] & m_h[None, :]
    p_h = (i_b * D + o_d[:, None]) * TS + o_t[None, :]
    b_x = tl.load(pre + p_h, mask=m_s, other=0.0)
    b_r = tl.load(scale + i_b * TS + o_t, mask=m_h, other=0.0)
    b_g = tl.zeros([BD, BT], tl.float32)
    for n in range(0, N, BN):
        o_n = n + tl.arange(0, BN)
        m_n = o_n < N
        b_w = tl.load(matrix + o_n[None, :] * D + o_d[:, None], mask=m_d[:, None] & m_n[None, :], other=0.0)
        b_e = tl.load(
            d_drive + (i_b * N + o_n[:, None]) * TS + o_t[None, :], mask=m_n[:, None] & m_t[None, :], other=0.0
        )
        b_g += tl.dot(b_w, b_e, input_precision="tf32x3")
    b_sigma = tl.sigmoid(b_x)
    b_h = b_x * b_sigma
    b_ds = tl.sum(b_h * b_g, axis=0)
    b_dh = b_r[None, :] * b_g
    if not ALONE:
        b_ds += tl.load(d_scale + i_b * TS + o_t, mask=m_h, other=0.0)
        b_dh += tl.load(d_lifted + p_h, mask=m_s, other=0.0)
    b_dh -= b_h * (b_r * b_r * b_r * b_ds / D)[None, :]
    b_dx = tl.where(m_s, b_dh * (b_sigma + b_h * (1.0 - b_sigma)), 0.0)
    tl.store(d_pre + p_h, b_dx, mask=m_d[:, None] & m_t[None, :])


@triton.jit(do_not_specialize=UNSPECIALIZED)
def outer_bwd_kernel(
    left, right, scale, out, T, TS, L, R,
    NORMED: tl.constexpr, BT: tl.constexpr, BL: tl.constexpr, BR: tl.constexpr,
):  # fmt: skip
    """Out (B, L, R): the sum over t of left (B, L, T) times right (B, R, T), or if NORMED times scale silu(right)."""
    i_l, i_r, i_b = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    o_l, o_r = i_l * BL + tl.arange(0, BL), i_r * BR + tl.arange(0, BR)
    m_l, m_r = o_l < L, o_r < R
    b_out = tl.zeros([BL, BR], tl.float32)
    for start in range(0, T, BT):
        o_t = start + tl.arange(0, BT)
        m_t = o_t < T
        b_x = tl.load(left + (i_b * L + o_l[:, None]) * TS + o_t[None, :], mask=m_l[:, None] & m_t[None, :], other=0.0)
        b_y = tl.load(right + (i_b * R + o_r[None, :]) * TS + o_t[:, None], mask=m_r[None, :] & m_t[:, None], other=0.0)
        if NORMED:
            b_y *= tl.sigmoid(b_y) * tl.load(scale + i_b * TS + o_t, mask=m_t, other=0.0)[:, None]
        b_out += tl.dot(b_x, b_y, input_precision="tf32x3")
    tl.store(out + (i_b * L + o_l[:, None]) * R + o_r[None, :], b_out, mask=m_l[:, None] & m_r[None, :])


@triton.jit(do_not_specialize=UNSPECIALIZED)
def edge_bwd_kernel(
    d_pre, values, valid, project, taps, d_values, d_weights, T, TS, C, D,
    MASKED: tl.constexpr, BT: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """d_pre (B, D, T) to d_values (B, T, C) and, a row per program, d_weights (.., D, 6 + C): taps, bias, project."""
    i_t, i_b = tl.program_id(0), tl.program_id(1).to(tl.int64)
    o_t, o_d = i_t * BT + tl.arange(0, BT), tl.arange(0, BD)
    m_t, m_d = o_t < T, o_d < D
    m_s = m_t
    if MASKED:
        m_s = m_s & (tl.load(valid + i_b * T + o_t, mask=m_t, other=0) != 0)
    p_d = d_pre + (i_b * D + o_d[:, None]) * TS
    p_v = values + (i_b * T + o_t) * C
    p_w = d_weights + ((i_b * tl.num_programs(0) + i_t) * D + o_d) * (TAPS + 1 + C)
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
        b_w = tl.load(project + o_d * C + c, mask=m_d, other=0.0)
        tl.store(d_values + (i_b * T + o_t) * C + c, tl.sum(b_dp * b_w[:, None], 0), mask=m_t)


@triton.jit(do_not_specialize=UNSPECIALIZED)
def reader_bwd_kernel(
    d_pre, lifted, scale, states, valid, synthesis, through, taps, d_stream, d_lifted, d_scale, d_states, d_weights,
    T, TS, D, N, MASKED: tl.constexpr, BT: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """d_pre (B, D, T) to the gradients of the stream, of the lifted features, of the norm's scale and of the states.

    d_stream, d_lifted (B, D, T), d_scale (B, T), d_states (B, N, T); d_weights (.., D, 7), one row per program, is for
    taps, bias and through. The stream H1 = h (1 + through s) + synthesis z is computed once more.
    """
    i_t, i_b = tl.program_id(0), tl.program_id(1).to(tl.int64)
    o_t, o_d = i_t * BT + tl.arange(0, BT), tl.arange(0, BD)
    m_t, m_d = o_t < T, o_d < D
    m_v = m_t
    if MASKED:
        m_v = m_v & (tl.load(valid + i_b * T + o_t, mask=m_t, other=0) != 0)
    m_s = m_d[:, None] & m_v[None, :]
    m_h = m_d[:, None] & m_t[None, :]
    p_h = (i_b * D + o_d[:, None]) * TS
    p_w = d_weights + ((i_b * tl.num_programs(0) + i_t) * D + o_d) * (TAPS + 2)
    b_h = tl.load(lifted + p_h + o_t[None, :], mask=m_s, other=0.0)
    b_r = tl.load(scale + i_b * TS + o_t, mask=m_t, other=0.0)
    b_through = tl.load(through + o_d, mask=m_d, other=0.0)
    b_s = b_h * (1.0 + b_through[:, None] * b_r[None, :])
    for n in range(0, N, BN):
        o_n = n + tl.arange(0, BN)
        m_n = o_n < N
        b_w = tl.load(synthesis + o_d[:, None] * N + o_n[None, :], mask=m_d[:, None] & m_n[None, :], other=0.0)
        b_z = tl.load(
            states + (i_b * N + o_n[:, None]) * TS + o_t[None, :], mask=m_n[:, None] & m_v[None, :], other=0.0
        )
        b_s += tl.dot(b_w, b_z, input_precision="tf32x3")
    b_ds = tl.zeros([BD, BT], tl.float32)
    for k in range(TAPS):
        o_k = o_t - SPACING * (k - TAPS // 2)
        m_k = m_d[:, None] & ((o_k >= 0) & (o_k < T))[None, :]
        b_d = tl.load(d_pre + p_h + o_k[None, :], mask=m_k, other=0.0)
        b_ds += tl.load(taps + o_d * TAPS + k, mask=m_d, other=0.0)[:, None] * b_d
        tl.store(p_w + k, tl.sum(b_d * b_s, 1), mask=m_d)
    tl.store(p_w + TAPS, tl.sum(tl.load(d_pre + p_h + o_t[None, :], mask=m_h, other=0.0), 1), mask=m_d)
    b_ds = tl.where(m_s, b_ds, 0.0)
    tl.store(p_w + TAPS + 1, tl.sum(b_ds * b_h * b_r[None, :], 1), mask=m_d)
    tl.store(d_stream + p_h + o_t[None, :], b_ds, mask=m_h)
    tl.store(d_lifted + p_h + o_t[None, :], b_ds * (1.0 + b_through[:, None] * b_r[None, :]), mask=m_h)
    tl.store(d_scale + i_b * TS + o_t, tl.sum(b_ds * b_h * b_through[:, None], 0), mask=m_t)
    for n in range(0, N, BN):
        o_n = n + tl.arange(0, BN)
        m_n = o_n < N
        b_w = tl.load(synthesis + o_d[None, :] * N + o_n[:, None], mask=m_n[:, None] & m_d[None, :], other=0.0)
        b_dz = tl.dot(b_w, b_ds, input_precision="tf32x3")
        tl.store(d_states + (i_b * N + o_n[:, None]) * TS + o_t[None, :], b_dz, mask=m_n[:, None] & m_t[None, :])
