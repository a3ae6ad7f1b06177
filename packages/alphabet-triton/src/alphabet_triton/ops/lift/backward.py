"""The backward from a drive to what a lift activates, for both lifts.

With h = silu(x), s = 1 / sqrt(mean(h^2) + epsilon) and e = s W h, a gradient of e gives g = W^T de and

    dh = dh + s g - h s^3 / D (ds + sum(h g)),    dx = dh silu'(x),    silu'(x) = sigma + h (1 - sigma),

where dh and ds on the right come from whatever else read h and s.
"""

import triton
import triton.language as tl

from alphabet_triton.launching import KERNEL
from alphabet_triton.ops.lift.kernel import locate, valid_tokens


@triton.jit(**KERNEL)
def norm_bwd_kernel(
    pre, scale, valid, matrix, d_lifted, d_scale, d_drive, d_pre, T, TS, D, N,
    MASKED: tl.constexpr, ALONE: tl.constexpr, WIDE: tl.constexpr,
    BT: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """d_drive (B, N, T) and, unless ALONE, d_lifted (B, D, T) and d_scale (B, T) to d_pre (B, D, T).

    Where d_drive's gate is shut it is zero already. If WIDE, d_pre holds g until the sum over all features is known.
    """
    i_t, i_b = locate(tl.cdiv(T, BT))
    o_t = i_t * BT + tl.arange(0, BT)
    m_t = o_t < T
    m_h = valid_tokens(o_t, m_t, valid + i_b * T, MASKED)
    b_x, b_g = tl.zeros([BD, BT], tl.float32), tl.zeros([BD, BT], tl.float32)
    b_ds = tl.zeros([BT], tl.float32)
    for d in range(0, D if WIDE else 1, BD):
        o_d = d + tl.arange(0, BD)
        m_d = o_d < D
        p_h = (i_b * D + o_d[:, None]) * TS + o_t[None, :]
        b_x = tl.load(pre + p_h, mask=m_d[:, None] & m_h[None, :], other=0.0)
        b_g = tl.zeros([BD, BT], tl.float32)
        for n in range(0, N, BN):
            o_n = n + tl.arange(0, BN)
            m_n = o_n < N
            p_e = d_drive + (i_b * N + o_n[:, None]) * TS + o_t[None, :]
            b_w = tl.load(matrix + o_n[None, :] * D + o_d[:, None], mask=m_d[:, None] & m_n[None, :], other=0.0)
            b_e = tl.load(p_e, mask=m_n[:, None] & m_t[None, :], other=0.0)
            b_g += tl.dot(b_w, b_e, input_precision="tf32x3")
        b_ds += tl.sum(b_x * tl.sigmoid(b_x) * b_g, axis=0)
        if WIDE:
            tl.store(d_pre + p_h, b_g, mask=m_d[:, None] & m_t[None, :])
    b_r = tl.load(scale + i_b * TS + o_t, mask=m_h, other=0.0)
    if not ALONE:
        b_ds += tl.load(d_scale + i_b * TS + o_t, mask=m_h, other=0.0)
    b_pull = b_r * b_ds / D  # times s twice more, one at a time: s^3 vanishes where s itself does not
    if WIDE:
        tl.debug_barrier()
    for d in range(0, D if WIDE else 1, BD):
        o_d = d + tl.arange(0, BD)
        m_d = o_d < D
        m_s = m_d[:, None] & m_h[None, :]
        p_h = (i_b * D + o_d[:, None]) * TS + o_t[None, :]
        if WIDE:
            b_x = tl.load(pre + p_h, mask=m_s, other=0.0)
            b_g = tl.load(d_pre + p_h, mask=m_s, other=0.0)
        b_sigma = tl.sigmoid(b_x)
        b_h = b_x * b_sigma
        b_dh = b_r[None, :] * (b_g - b_h * b_r[None, :] * b_pull[None, :])
        if not ALONE:
            b_dh += tl.load(d_lifted + p_h, mask=m_s, other=0.0)
        b_dx = tl.where(m_s, b_dh * (b_sigma + b_h * (1.0 - b_sigma)), 0.0)
        tl.store(d_pre + p_h, b_dx, mask=m_d[:, None] & m_t[None, :])


@triton.jit
def sum_outer(
    p_left, p_right, p_scale, o_l, o_r, T, TS, L, R, normed,
    BT: tl.constexpr, BL: tl.constexpr, BR: tl.constexpr,
):  # fmt: skip
    """The sum over t of left (L, T) times right (R, T), or if normed times scale silu(right), of some rows of each."""
    m_l, m_r = o_l < L, o_r < R
    p_l, p_r = p_left + o_l[:, None].to(tl.int64) * TS, p_right + o_r[None, :].to(tl.int64) * TS
    b_out = tl.zeros([BL, BR], tl.float32)
    for start in range(0, T, BT):
        o_t = start + tl.arange(0, BT)
        m_t = o_t < T
        b_x = tl.load(p_l + o_t[None, :], mask=m_l[:, None] & m_t[None, :], other=0.0)
        b_y = tl.load(p_r + o_t[:, None], mask=m_r[None, :] & m_t[:, None], other=0.0)
        if normed:
            b_y *= tl.sigmoid(b_y) * tl.load(p_scale + o_t, mask=m_t, other=0.0)[:, None]
        b_out += tl.dot(b_x, b_y, input_precision="tf32x3")
    return b_out


@triton.jit(**KERNEL)
def outer_bwd_kernel(
    left, right, scale, out, T, TS, L, R,
    NORMED: tl.constexpr, BT: tl.constexpr, BL: tl.constexpr, BR: tl.constexpr,
):  # fmt: skip
    """Out (B, L, R): the sum over t of left (B, L, T) times right (B, R, T), or if NORMED times scale silu(right)."""
    columns = tl.cdiv(R, BR)
    i_p, i_b = locate(tl.cdiv(L, BL) * columns)
    o_l, o_r = i_p // columns * BL + tl.arange(0, BL), i_p % columns * BR + tl.arange(0, BR)
    p_left, p_right = left + i_b * L * TS, right + i_b * R * TS
    b_out = sum_outer(p_left, p_right, scale + i_b * TS, o_l, o_r, T, TS, L, R, NORMED, BT, BL, BR)
    m_o = (o_l < L)[:, None] & (o_r < R)[None, :]
    tl.store(out + (i_b * L + o_l[:, None]) * R + o_r[None, :], b_out, mask=m_o)


@triton.jit(**KERNEL)
def products_bwd_kernel(
    d_drive, pre, scale, d_drive_2, pre_2, scale_2, states, d_stream, products, T, TS, B, D, N,
    BT: tl.constexpr, BL: tl.constexpr, BR: tl.constexpr,
):  # fmt: skip
    """Products (3, B, N, D): sums over t of d_drive (scale silu(pre))^T of both banks, and of states d_stream^T."""
    columns = tl.cdiv(D, BR)
    i_p, i_x = locate(tl.cdiv(N, BL) * columns)
    i_f, i_b = i_x // B, i_x % B
    o_l, o_r = i_p // columns * BL + tl.arange(0, BL), i_p % columns * BR + tl.arange(0, BR)
    if i_f == 1:
        d_drive, pre, scale = d_drive_2, pre_2, scale_2
    elif i_f == 2:
        d_drive, pre = states, d_stream
    p_left, p_right = d_drive + i_b * N * TS, pre + i_b * D * TS
    b_out = sum_outer(p_left, p_right, scale + i_b * TS, o_l, o_r, T, TS, N, D, i_f < 2, BT, BL, BR)
    m_o = (o_l < N)[:, None] & (o_r < D)[None, :]
    tl.store(products + (i_x * N + o_l[:, None]) * D + o_r[None, :], b_out, mask=m_o)
