"""From the folded factors' gradients to those of tangents, poles, norm gains and synthesis, of both banks.

A gradient of a complex quantity is the pair of its parts' gradients, and returns by the conjugate: matrix = g n A gives
dg = sum(conj(n A) d_matrix), dA = conj(g) n d_matrix and dn = sum(re(conj(g A) d_matrix)); synthesis = s A adds s times
its gradient to dA. A frame is base (I + S) to first order, S = c (X - X^T), X the tangent with columns of zero beside
it: with G = base^T dA, dX = c (G - G^T), where columns that A does not have are zero in G.

Programs have one of three tasks: a block of a tangent, the poles of some modes, or the gains of some features. What
they share, dA, each computes for itself.
"""

import triton
import triton.language as tl
from alphabet_core.fused import TANGENT_SCALE

from alphabet_triton.launching import KERNEL
from alphabet_triton.ops.chunk.kernel import POWERS, load_power
from alphabet_triton.ops.fold.kernel import POLE_ROWS

SCALE = tl.constexpr(TANGENT_SCALE)


@triton.jit
def frame_gradient(
    d_matrix, d_synthesis, p_pole, gain, synthesis_scale, o_d, o_c, D, M, i_f, FEATURES_FIRST: tl.constexpr
):  # fmt: skip
    """The gradient of a frame's features o_d and columns o_c, zero outside of (D, 2M), in either order of the axes."""
    m_d, m_c = o_d < D, o_c < 2 * M
    o_mode, o_other = o_c % M, tl.where(o_c < M, o_c + M, o_c - M)
    b_gr, b_gi = tl.load(p_pole + o_mode, mask=m_c, other=0.0), tl.load(p_pole + M + o_mode, mask=m_c, other=0.0)
    b_gi = tl.where(o_c < M, b_gi, -b_gi)
    b_n, b_s = tl.load(gain + o_d, mask=m_d, other=0.0), tl.load(synthesis_scale + o_d, mask=m_d, other=0.0)
    b_s = tl.where(i_f == 0, b_s, 0.0)
    if FEATURES_FIRST:
        o_d, m_d, b_n, b_s = o_d[:, None], m_d[:, None], b_n[:, None], b_s[:, None]
        o_c, o_other, m_c, b_gr, b_gi = o_c[None, :], o_other[None, :], m_c[None, :], b_gr[None, :], b_gi[None, :]
    else:
        o_d, m_d, b_n, b_s = o_d[None, :], m_d[None, :], b_n[None, :], b_s[None, :]
        o_c, o_other, m_c, b_gr, b_gi = o_c[:, None], o_other[:, None], m_c[:, None], b_gr[:, None], b_gi[:, None]
    m_w = m_d & m_c
    b_w = tl.load(d_matrix + o_c * D + o_d, mask=m_w, other=0.0)
    b_v = tl.load(d_matrix + o_other * D + o_d, mask=m_w, other=0.0)
    b_x = tl.load(d_synthesis + o_c * D + o_d, mask=m_w & (i_f == 0), other=0.0)
    return b_n * (b_gr * b_w + b_gi * b_v) + b_s * b_x


@triton.jit
def store_tangent(
    base, gain, synthesis_scale, d_matrix, d_synthesis, p_pole, d_tangent, i_x, i_f, D, M, S,
    BD: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """A block of d_tangent (D, 2M), c (G - G^T) with G = base^T dA.

    Products are in float32 proper: with tf32x3 a gradient that is zero would be as large as its rounding.
    """
    columns = tl.cdiv(2 * M, BC)
    o_r, o_c = i_x // columns * BR + tl.arange(0, BR), i_x % columns * BC + tl.arange(0, BC)
    b_g, b_t = tl.zeros([BR, BC], tl.float32), tl.zeros([BR, BC], tl.float32)
    for d in range(0, D, BD):
        o_d = d + tl.arange(0, BD)
        m_d = o_d < D
        b_left = tl.load(base + o_d[None, :] * S + o_r[:, None], mask=m_d[None, :] & (o_r < S)[:, None], other=0.0)
        b_da = frame_gradient(d_matrix, d_synthesis, p_pole, gain, synthesis_scale, o_d, o_c, D, M, i_f, True)
        b_g += tl.dot(b_left, b_da, input_precision="ieee")
        b_da = frame_gradient(d_matrix, d_synthesis, p_pole, gain, synthesis_scale, o_d, o_r, D, M, i_f, False)
        b_right = tl.load(base + o_d[:, None] * S + o_c[None, :], mask=m_d[:, None] & (o_c < S)[None, :], other=0.0)
        b_t += tl.dot(b_da, b_right, input_precision="ieee")
    m_x = (o_r < D)[:, None] & (o_c < 2 * M)[None, :]
    tl.store(d_tangent + o_r[:, None] * 2 * M + o_c[None, :], (b_g - b_t) * SCALE, mask=m_x)


@triton.jit
def load_products(base, d_matrix, o_m, o_d, m_w, D, M, S):
    """Frame and gradient of the matrix, as pairs, of some modes and features."""
    p_frame, p_matrix = base + o_d[None, :] * S + o_m[:, None], d_matrix + o_m[:, None] * D + o_d[None, :]
    return (
        tl.load(p_frame, mask=m_w, other=0.0),
        tl.load(p_frame + M, mask=m_w, other=0.0),
        tl.load(p_matrix, mask=m_w, other=0.0),
        tl.load(p_matrix + M * D, mask=m_w, other=0.0),
    )


@triton.jit
def store_poles(
    base, gain, transition, d_matrix, p_transition, p_pole, d_decay, d_frequency, i_m, D, M, S,
    BD: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """d_decay and d_frequency (M,) of some modes."""
    o_m = i_m * BM + tl.arange(0, BM)
    m_m = o_m < M
    b_sr, b_si = tl.zeros([BM, BD], tl.float32), tl.zeros([BM, BD], tl.float32)
    for d in range(0, D, BD):
        o_d = d + tl.arange(0, BD)
        m_d = o_d < D
        b_ar, b_ai, b_wr, b_wi = load_products(base, d_matrix, o_m, o_d, m_m[:, None] & m_d[None, :], D, M, S)
        b_n = tl.load(gain + o_d, mask=m_d, other=0.0)[None, :]
        b_sr += b_n * (b_ar * b_wr + b_ai * b_wi)
        b_si += b_n * (b_ar * b_wi - b_ai * b_wr)
    b_qr, b_qi = tl.sum(b_sr, 1), tl.sum(b_si, 1)
    b_pr, b_pi = load_power(transition + o_m * POWERS, m_m, M, 1)
    b_tr, b_ti = tl.load(p_transition + o_m, mask=m_m, other=0.0), tl.load(p_transition + M + o_m, mask=m_m, other=0.0)
    b_er, b_ei = tl.load(p_pole + 2 * M + o_m, mask=m_m, other=0.0), tl.load(p_pole + 3 * M + o_m, mask=m_m, other=0.0)
    b_re = b_pr * b_tr + b_pi * b_ti + b_er * b_qr + b_ei * b_qi
    b_im = b_pr * b_ti - b_pi * b_tr + b_er * b_qi - b_ei * b_qr
    tl.store(d_decay + o_m, -b_re * tl.load(p_pole + 4 * M + o_m, mask=m_m, other=0.0), mask=m_m)
    tl.store(d_frequency + o_m, b_im * tl.load(p_pole + 5 * M + o_m, mask=m_m, other=0.0), mask=m_m)


@triton.jit
def store_gains(
    base, gain, synthesis_scale, feedthrough, d_matrix, d_synthesis, d_through, p_pole, d_gain, d_synthesis_scale,
    d_feedthrough, i_d, i_f, D, M, S, BD: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """d_gain (D,) of some features and, in the direct bank, d_synthesis_scale and d_feedthrough (D,)."""
    o_d = i_d * BD + tl.arange(0, BD)
    m_d = o_d < D
    b_dn, b_ds = tl.zeros([BM, BD], tl.float32), tl.zeros([BM, BD], tl.float32)
    for m in range(0, M, BM):
        o_m = m + tl.arange(0, BM)
        m_w = (o_m < M)[:, None] & m_d[None, :]
        b_ar, b_ai, b_wr, b_wi = load_products(base, d_matrix, o_m, o_d, m_w, D, M, S)
        b_gr = tl.load(p_pole + o_m, mask=o_m < M, other=0.0)[:, None]
        b_gi = tl.load(p_pole + M + o_m, mask=o_m < M, other=0.0)[:, None]
        b_dn += (b_gr * b_ar - b_gi * b_ai) * b_wr + (b_gr * b_ai + b_gi * b_ar) * b_wi
        p_x, m_x = d_synthesis + o_m[:, None] * D + o_d[None, :], m_w & (i_f == 0)
        b_ds += b_ar * tl.load(p_x, mask=m_x, other=0.0) + b_ai * tl.load(p_x + M * D, mask=m_x, other=0.0)
    b_dn, b_ds = tl.sum(b_dn, 0), tl.sum(b_ds, 0)
    if i_f == 0:
        b_dt = tl.load(d_through + o_d, mask=m_d, other=0.0)
        b_n, b_f = tl.load(gain + o_d, mask=m_d, other=0.0), tl.load(feedthrough + o_d, mask=m_d, other=0.0)
        b_s = tl.load(synthesis_scale + o_d, mask=m_d, other=0.0)
        b_dn += b_s * b_f * b_dt
        tl.store(d_synthesis_scale + o_d, b_ds + b_f * b_n * b_dt, mask=m_d)
        tl.store(d_feedthrough + o_d, b_s * b_n * b_dt, mask=m_d)
    tl.store(d_gain + o_d, b_dn, mask=m_d)


@triton.jit(**KERNEL)
def fold_bwd_kernel(
    base, gain, transition, base_2, gain_2, transition_2, synthesis_scale, feedthrough, poles,
    d_matrices, d_transitions, d_through,
    d_tangent, d_decay, d_frequency, d_gain, d_tangent_2, d_decay_2, d_frequency_2, d_gain_2,
    d_synthesis_scale, d_feedthrough, D, M, S, S_2,
    BD: tl.constexpr, BM: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """The gradients of both banks' tangents (D, 2M), poles (M,), gains (D,), and of the synthesis (D,).

    d_matrices (3, 2M, D): of both matrices, and of the synthesis with its axes exchanged; d_transitions (2, 2M)
    """
    blocks, parts = tl.cdiv(D, BR) * tl.cdiv(2 * M, BC), tl.cdiv(M, BM)
    programs = blocks + parts + tl.cdiv(D, BD)
    i_f, i_x = tl.program_id(0) // programs, tl.program_id(0) % programs
    row = S
    if i_f == 1:
        base, gain, transition, row = base_2, gain_2, transition_2, S_2
        d_tangent, d_decay, d_frequency, d_gain = d_tangent_2, d_decay_2, d_frequency_2, d_gain_2
    d_matrix, d_synthesis = d_matrices + i_f * 2 * M * D, d_matrices + 4 * M * D
    p_transition, p_pole = d_transitions + i_f * 2 * M, poles + i_f * POLE_ROWS * M
    if i_x < blocks:
        store_tangent(
            base, gain, synthesis_scale, d_matrix, d_synthesis, p_pole, d_tangent, i_x, i_f, D, M, row, BD, BR, BC
        )
    elif i_x < blocks + parts:
        store_poles(
            base,
            gain,
            transition,
            d_matrix,
            p_transition,
            p_pole,
            d_decay,
            d_frequency,
            i_x - blocks,
            D,
            M,
            row,
            BD,
            BM,
        )
    else:
        store_gains(
            base, gain, synthesis_scale, feedthrough, d_matrix, d_synthesis, d_through, p_pole, d_gain,
            d_synthesis_scale, d_feedthrough, i_x - blocks - parts, i_f, D, M, row, BD, BM,
        )  # fmt: skip
