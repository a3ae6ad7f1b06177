"""The backward of z[t] = p z[t-1] + e[t] and of the sums of z[t] conj(z[t-lag]), some modes of a sequence per program.

A program walks over time in blocks, from the last to the first. Complex numbers are pairs of reals.
"""

import triton
import triton.language as tl
from alphabet_core.fused import LAGS
from alphabet_core.fused import MOMENTS as MOMENT_COUNT

from alphabet_triton.launching import KERNEL
from alphabet_triton.ops.chunk.kernel import POWERS, compose, load_power, raise_powers, times

MOMENTS = tl.constexpr(MOMENT_COUNT)
# The sums of each lag are variables of their own, named 1, 2 and 3: a kernel has no lists that a loop could fill.
LAG_1, LAG_2, LAG_3 = (tl.constexpr(lag) for lag in LAGS)


@triton.jit
def load_pair(states, p_re, p_im, o_t, m_m, m_t):
    """States of the tokens o_t, zero where the mask is."""
    m_z = m_m[:, None] & m_t[None, :]
    return tl.load(states + p_re + o_t[None, :], mask=m_z, other=0.0), tl.load(
        states + p_im + o_t[None, :], mask=m_z, other=0.0
    )


@triton.jit
def add_partner(b_dr, b_di, b_qr, b_qi, b_a, b_b, sign: tl.constexpr):
    """What the product with a partner q, in a sum with gradient a + i b, gives a state: (a +- i b) q."""
    return (
        b_dr + b_a[:, None] * b_qr - sign * b_b[:, None] * b_qi,
        b_di + b_a[:, None] * b_qi + sign * b_b[:, None] * b_qr,
    )


@triton.jit
def add_lag(
    b_dr, b_di, states, p_re, p_im, p_sums, p_valid, o_t, m_0, m_m, T, M,
    lag: tl.constexpr, row: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """What a lag's sums, from `row` on, give the states of tokens o_t as the later and as the earlier of a pair."""
    b_a = tl.load(p_sums + row * M, mask=m_m, other=0.0).to(tl.float32)
    b_b = tl.load(p_sums + (row + 1) * M, mask=m_m, other=0.0).to(tl.float32)
    m_l, m_r = m_0 & (o_t >= lag), m_0 & (o_t + lag < T)
    if MASKED:
        m_l = m_l & (tl.load(p_valid + o_t - lag, mask=m_l, other=0) != 0)
        m_r = m_r & (tl.load(p_valid + o_t + lag, mask=m_r, other=0) != 0)
    b_qr, b_qi = load_pair(states, p_re, p_im, o_t - lag, m_m, m_l)
    b_dr, b_di = add_partner(b_dr, b_di, b_qr, b_qi, b_a, b_b, 1)
    b_qr, b_qi = load_pair(states, p_re, p_im, o_t + lag, m_m, m_r)
    return add_partner(b_dr, b_di, b_qr, b_qi, b_a, b_b, -1)


@triton.jit(**KERNEL)
def scan_bwd_kernel(
    states, transition, valid, gate, d_sums, d_states, d_drive, d_transition, T, TS, M,
    MASKED: tl.constexpr, ALONE: tl.constexpr, BT: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """From d_sums (B, 7, M) and, unless ALONE, d_states (B, 2M, T) to d_drive (B, 2M, T) and d_transition (B, 2M).

    The adjoint a[t] = dz[t] + conj(p) a[t+1], zero past the end, runs from the last block to the first; dz collects
    2 g z for the energy and, for each lag, the partners on both sides. What one block gives the next is weighted by
    powers of p of its own, as in the forward pass.
    """
    i_b, i_m = tl.program_id(0).to(tl.int64), tl.program_id(1)
    o_s, o_m = tl.arange(0, BT), i_m * BM + tl.arange(0, BM)
    m_m = o_m < M
    p_pole = transition + o_m * POWERS
    b_0 = tl.zeros([BM, BT], tl.float32)
    b_pr, b_pi = load_power(p_pole, m_m, M, 1)
    b_sr, b_si = load_power(p_pole, m_m, M, BT)
    b_xr, b_xi = raise_powers(p_pole, m_m, M, BT - 1 - o_s, 1, BT, BM, BT)  # from the end of a block to a token
    b_wr, b_wi = raise_powers(p_pole, m_m, M, o_s, 1, BT, BM, BT)  # from a token to the start
    p_re = (i_b * 2 * M + o_m[:, None]) * TS
    p_im = p_re + M.to(tl.int64) * TS
    p_valid, p_gate = valid + i_b * T, gate + i_b * T
    p_sums = d_sums + i_b * MOMENTS * M + o_m
    b_energy = 2.0 * tl.load(p_sums, mask=m_m, other=0.0).to(tl.float32)
    b_cr, b_ci = tl.zeros([BM], tl.float32), tl.zeros([BM], tl.float32)
    b_tr, b_ti = tl.zeros([BM], tl.float32), tl.zeros([BM], tl.float32)
    blocks = tl.cdiv(T, BT)
    for i in range(blocks):
        o_t = (blocks - 1 - i) * BT + o_s
        m_t = o_t < T
        m_0 = m_t
        if MASKED:
            m_0 = m_0 & (tl.load(p_valid + o_t, mask=m_t, other=0) != 0)
        b_zr, b_zi = load_pair(states, p_re, p_im, o_t, m_m, m_0)
        b_dr, b_di = b_energy[:, None] * b_zr, b_energy[:, None] * b_zi
        b_dr, b_di = add_lag(b_dr, b_di, states, p_re, p_im, p_sums, p_valid, o_t, m_0, m_m, T, M, LAG_1, 1, MASKED)
        b_dr, b_di = add_lag(b_dr, b_di, states, p_re, p_im, p_sums, p_valid, o_t, m_0, m_m, T, M, LAG_2, 3, MASKED)
        b_dr, b_di = add_lag(b_dr, b_di, states, p_re, p_im, p_sums, p_valid, o_t, m_0, m_m, T, M, LAG_3, 5, MASKED)
        if not ALONE:
            b_er, b_ei = load_pair(d_states, p_re, p_im, o_t, m_m, m_t)
            b_dr, b_di = b_dr + b_er, b_di + b_ei
        b_er, b_ei = times(b_wr, -b_wi, b_dr, b_di)
        _, _, b_dr, b_di = tl.associative_scan(
            (b_pr[:, None] + b_0, b_0 - b_pi[:, None], b_dr, b_di), 1, compose, reverse=True
        )
        b_ar, b_ai = times(b_pr, -b_pi, b_cr, b_ci)
        b_ar, b_ai = times(b_xr, -b_xi, b_ar[:, None], b_ai[:, None])
        b_dr, b_di = b_dr + b_ar, b_di + b_ai
        b_cr, b_ci = times(b_sr, -b_si, b_cr, b_ci)
        b_cr, b_ci = b_cr + tl.sum(b_er, 1), b_ci + tl.sum(b_ei, 1)
        b_qr, b_qi = load_pair(states, p_re, p_im, o_t - 1, m_m, m_t & (o_t >= 1))
        b_tr += tl.sum(b_dr * b_qr + b_di * b_qi, 1)
        b_ti += tl.sum(b_di * b_qr - b_dr * b_qi, 1)
        m_e = m_t
        if MASKED:
            m_e = m_e & (tl.load(p_gate + o_t, mask=m_t, other=0) != 0)
        m_s = m_m[:, None] & m_t[None, :]
        tl.store(d_drive + p_re + o_t[None, :], tl.where(m_e[None, :], b_dr, 0.0), mask=m_s)
        tl.store(d_drive + p_im + o_t[None, :], tl.where(m_e[None, :], b_di, 0.0), mask=m_s)
    tl.store(d_transition + i_b * 2 * M + o_m, b_tr, mask=m_m)
    tl.store(d_transition + i_b * 2 * M + M + o_m, b_ti, mask=m_m)
