"""Lines 9-13 of Algorithm 1, forward and backward.

A tap took its source to the token `offset` before it; in the backward pass the source at t reads the
gradient at t - offset, for its own gradient and for the tap's.
"""

import triton
import triton.language as tl

from alphabet_triton.launching import KERNEL
from alphabet_triton.ops.chunk.kernel import (
    MOMENTS,
    halo_tokens,
    keep_valid,
    load_chunk,
    read_at,
    store_moments,
    store_states,
)
from alphabet_triton.ops.lift.kernel import (
    SPACING,
    TAPS,
    activate,
    add_squares,
    locate,
    multiply,
    norm_scale,
    scan_drive,
    valid_tokens,
)


@triton.jit
def synthesize(
    lifted, scale, states, synthesis, through, i_b, o_d, o_t, m_d, m_t, D, N, TS, BN: tl.constexpr
):  # fmt: skip
    """The stream h (1 + through s) + synthesis z of features o_d at tokens o_t, zero where masked; and h and s."""
    p_h = lifted + (i_b * D + o_d[:, None]) * TS + o_t[None, :]
    b_h = tl.load(p_h, mask=m_d[:, None] & m_t[None, :], other=0.0)
    b_r = tl.load(scale + i_b * TS + o_t, mask=m_t, other=0.0)
    b_through = tl.load(through + o_d, mask=m_d, other=0.0)
    b_s = b_h * (1.0 + b_through[:, None] * b_r[None, :])
    for n in range(0, N, BN):
        o_n = n + tl.arange(0, BN)
        m_n = o_n < N
        p_z = states + (i_b * N + o_n[:, None]) * TS + o_t[None, :]
        b_w = tl.load(synthesis + o_d[:, None] * N + o_n[None, :], mask=m_d[:, None] & m_n[None, :], other=0.0)
        b_z = tl.load(p_z, mask=m_n[:, None] & m_t[None, :], other=0.0)
        b_s += tl.dot(b_w, b_z, input_precision="tf32x3")
    return b_s, b_h, b_r


@triton.jit
def feed_through(lifted, scale, through, i_b, o_d, o_t, m_d, m_t, D, TS):
    """The stream h (1 + through s) of features o_d at tokens o_t without the states' part, zero where masked."""
    p_h = lifted + (i_b * D + o_d[:, None]) * TS + o_t[None, :]
    b_h = tl.load(p_h, mask=m_d[:, None] & m_t[None, :], other=0.0)
    b_r = tl.load(scale + i_b * TS + o_t, mask=m_t, other=0.0)
    b_through = tl.load(through + o_d, mask=m_d, other=0.0)
    return b_h * (1.0 + b_through[:, None] * b_r[None, :])


@triton.jit(**KERNEL)
def reader_fwd_kernel(
    lifted, scale, local, ends, transition, valid, synthesis, through, taps, bias, matrix, transition_2,
    states, sums, pre, scale_2, local_2, ends_2, T, TS, D, M,
    MASKED: tl.constexpr, KEEP: tl.constexpr, WIDE: tl.constexpr,
    BT: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Lines 8-14: lifted (B, D, T) and the direct bank's states in chunks to those of the cascaded bank.

    local, ends and local_2, ends_2: states of either bank in chunks that began at zero, and each chunk's last;
    sums (B, chunks, 7, M): every chunk's moment sums of the direct bank. The stream is synthesized once, for the chunk
    and for the tokens on either side that its taps reach. With KEEP the direct bank's states (B, 2M, T), what the SiLU
    is applied to, pre (B, D, T), and the norm's scale_2 (B, T) are stored; if WIDE, pre is stored for the drive.
    """
    chunks = tl.cdiv(T, BT)
    i_t, i_b = locate(chunks)
    o_t = i_t * BT + tl.arange(0, BT)
    o_h = halo_tokens(i_t, BT)
    p_valid = valid + i_b * T
    m_t = o_t < T
    m_v = valid_tokens(o_t, m_t, p_valid, MASKED)
    m_o = valid_tokens(o_h, (o_h >= 0) & (o_h < T), p_valid, MASKED)
    b_h = tl.zeros([BD, BT], tl.float32)
    b_sum, b_far = tl.zeros([BT], tl.float32), tl.zeros([BT], tl.float32)
    for d in range(0, D if WIDE else 1, BD):
        o_d = d + tl.arange(0, BD)
        m_d = o_d < D
        b_s = feed_through(lifted, scale, through, i_b, o_d, o_t, m_d, m_v, D, TS)
        b_o = feed_through(lifted, scale, through, i_b, o_d, o_h, m_d, m_o, D, TS)
        for m in range(0, M, BM):
            o_m = m + tl.arange(0, BM)
            m_m = o_m < M
            b_zr, b_zi, b_hr, b_hi = load_chunk(local, ends, transition, i_b, i_t, o_m, T, TS, M, BM, BT, BC)
            if KEEP:
                store_states(states, i_b, o_m, o_t, M, T, TS, b_zr, b_zi)
            b_zr, b_zi = keep_valid(b_zr, b_zi, m_v)
            b_hr, b_hi = keep_valid(b_hr, b_hi, m_o)
            p_sums = sums + (i_b * chunks + i_t) * MOMENTS * M + o_m
            store_moments(p_sums, m_m, M, b_zr, b_zi, b_hr, b_hi, BM, BT)
            p_w = synthesis + o_d[:, None] * 2 * M + o_m[None, :]
            m_w = m_d[:, None] & m_m[None, :]
            b_w = tl.load(p_w, mask=m_w, other=0.0)
            b_s += tl.dot(b_w, b_zr, input_precision="tf32x3")
            b_o += tl.dot(b_w, b_hr, input_precision="tf32x3")
            b_w = tl.load(p_w + M, mask=m_w, other=0.0)
            b_s += tl.dot(b_w, b_zi, input_precision="tf32x3")
            b_o += tl.dot(b_w, b_hi, input_precision="tf32x3")
        b_x = tl.load(bias + o_d, mask=m_d, other=0.0)[:, None] + tl.zeros([BD, BT], tl.float32)
        for k in tl.static_range(TAPS):
            b_tap = tl.load(taps + o_d * TAPS + k, mask=m_d, other=0.0)
            b_x += b_tap[:, None] * read_at(b_s, b_o, SPACING * (k - TAPS // 2), BD, BT)
        b_h = activate(b_x, m_d[:, None] & m_v[None, :])
        b_sum, b_far = add_squares(b_h, b_sum, b_far)
        if KEEP or WIDE:
            tl.store(pre + (i_b * D + o_d[:, None]) * TS + o_t[None, :], b_x, mask=m_d[:, None] & m_t[None, :])
    b_scale = tl.where(m_v, norm_scale(b_sum, b_far, D), 0.0)
    if KEEP:
        tl.store(scale_2 + i_b * TS + o_t, b_scale, mask=m_t)
    p_h = pre + i_b * D * TS
    scan_drive(
        b_h, b_scale, p_h, matrix, transition_2, local_2, ends_2, i_b, i_t, o_t, m_v, m_v, T, D, M, TS,
        WIDE, True, BT, BD, BM,
    )  # fmt: skip


@triton.jit(**KERNEL)
def reader_bwd_kernel(
    d_pre, lifted, scale, states, valid, synthesis, through, taps, d_stream, d_lifted, d_scale, d_states, d_weights,
    T, TS, D, N,
    MASKED: tl.constexpr, WIDE: tl.constexpr, BT: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """d_pre (B, D, T) to the gradients of the stream, of the lifted features, of the norm's scale and of the states.

    d_stream, d_lifted (B, D, T), d_scale (B, T), d_states (B, N, T); d_weights (.., D, 7), one row per program, is for
    taps, bias and through. The stream is computed once more.
    """
    i_t, i_b = locate(tl.cdiv(T, BT))
    o_t = i_t * BT + tl.arange(0, BT)
    m_t = o_t < T
    m_v = valid_tokens(o_t, m_t, valid + i_b * T, MASKED)
    b_ds = tl.zeros([BD, BT], tl.float32)
    b_dr = tl.zeros([BT], tl.float32)
    for d in range(0, D if WIDE else 1, BD):
        o_d = d + tl.arange(0, BD)
        m_d = o_d < D
        m_h = m_d[:, None] & m_t[None, :]
        p_h = (i_b * D + o_d[:, None]) * TS
        p_w = d_weights + (tl.program_id(0).to(tl.int64) * D + o_d) * (TAPS + 2)
        b_s, b_h, b_r = synthesize(lifted, scale, states, synthesis, through, i_b, o_d, o_t, m_d, m_v, D, N, TS, BN)
        b_ds = tl.zeros([BD, BT], tl.float32)
        for k in range(TAPS):
            o_k = o_t - SPACING * (k - TAPS // 2)
            m_k = m_d[:, None] & ((o_k >= 0) & (o_k < T))[None, :]
            b_d = tl.load(d_pre + p_h + o_k[None, :], mask=m_k, other=0.0)
            b_ds += tl.load(taps + o_d * TAPS + k, mask=m_d, other=0.0)[:, None] * b_d
            tl.store(p_w + k, tl.sum(b_d * b_s, 1), mask=m_d)
        tl.store(p_w + TAPS, tl.sum(tl.load(d_pre + p_h + o_t[None, :], mask=m_h, other=0.0), 1), mask=m_d)
        b_ds = tl.where(m_d[:, None] & m_v[None, :], b_ds, 0.0)
        b_through = tl.load(through + o_d, mask=m_d, other=0.0)
        tl.store(p_w + TAPS + 1, tl.sum(b_ds * b_h * b_r[None, :], 1), mask=m_d)
        tl.store(d_stream + p_h + o_t[None, :], b_ds, mask=m_h)
        tl.store(d_lifted + p_h + o_t[None, :], b_ds * (1.0 + b_through[:, None] * b_r[None, :]), mask=m_h)
        b_dr += tl.sum(b_ds * b_h * b_through[:, None], 0)
    tl.store(d_scale + i_b * TS + o_t, b_dr, mask=m_t)
    if WIDE:
        tl.debug_barrier()
    p_stream = d_stream + i_b * D * TS
    for n in range(0, N, BN):
        o_n = n + tl.arange(0, BN)
        m_n = o_n < N
        b_dz = multiply(b_ds, p_stream, synthesis, o_n, o_t, m_n, m_t, 1, N, D, TS, WIDE, False, BN, BD, BT)
        tl.store(d_states + (i_b * N + o_n[:, None]) * TS + o_t[None, :], b_dz, mask=m_n[:, None] & m_t[None, :])
