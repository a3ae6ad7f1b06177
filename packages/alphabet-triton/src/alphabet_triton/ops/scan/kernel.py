"""z[t] = p z[t-1] + e[t] and the sums of z[t] conj(z[t-lag]), one sequence and some modes per program.

A program walks over time in blocks; the last state of a block is carried into the next, and the block itself is kept
for the lags that reach into it. Complex numbers are pairs of reals.
"""

import triton
import triton.language as tl
from alphabet_core.fused import LAGS
from alphabet_core.fused import MOMENTS as MOMENT_COUNT

from alphabet_triton.buffers import LAG_COUNT
from alphabet_triton.launching import KERNEL

MOMENTS = tl.constexpr(MOMENT_COUNT)
COUNTS = tl.constexpr(LAG_COUNT)
# The sums of each lag are variables of their own, named 1, 2 and 3: a kernel has no lists that a loop could fill.
LAG_1, LAG_2, LAG_3 = (tl.constexpr(lag) for lag in LAGS)


@triton.jit
def compose(ar_1, ai_1, br_1, bi_1, ar_2, ai_2, br_2, bi_2):
    """First z -> a_1 z + b_1, then z -> a_2 z + b_2."""
    return (
        ar_2 * ar_1 - ai_2 * ai_1,
        ar_2 * ai_1 + ai_2 * ar_1,
        ar_2 * br_1 - ai_2 * bi_1 + br_2,
        ar_2 * bi_1 + ai_2 * br_1 + bi_2,
    )


@triton.jit
def load_pair(states, p_re, p_im, o_t, m_m, m_t):
    """States of the tokens o_t, zero where the mask is."""
    m_z = m_m[:, None] & m_t[None, :]
    return tl.load(states + p_re + o_t[None, :], mask=m_z, other=0.0), tl.load(
        states + p_im + o_t[None, :], mask=m_z, other=0.0
    )


@triton.jit
def shift(b_now, b_before, o_s, lag: tl.constexpr, BM: tl.constexpr, BT: tl.constexpr):
    """The block `lag` tokens earlier: out of this one and the end of the one before."""
    b_mixed = tl.where((o_s >= BT - lag)[None, :], b_before, b_now)
    b_index = tl.zeros([BM, BT], tl.int32) + ((o_s + (BT - lag)) % BT)[None, :]
    return tl.gather(b_mixed, b_index, 1)


@triton.jit
def pair_lag(
    b_zr, b_zi, b_qr, b_qi, p_valid, o_s, o_t, m_0,
    lag: tl.constexpr, MASKED: tl.constexpr, BM: tl.constexpr, BT: tl.constexpr,
):  # fmt: skip
    """A block's sum of z[t] conj(z[t-lag]) over its valid pairs, in float64, and how many there are."""
    m_l = m_0 & (o_t >= lag)
    if MASKED:
        m_l = m_l & (tl.load(p_valid + o_t - lag, mask=m_l, other=0) != 0)
    b_lr, b_li = shift(b_zr, b_qr, o_s, lag, BM, BT), shift(b_zi, b_qi, o_s, lag, BM, BT)
    b_re = tl.sum(tl.where(m_l[None, :], b_zr * b_lr + b_zi * b_li, 0.0), 1).to(tl.float64)
    b_im = tl.sum(tl.where(m_l[None, :], b_zi * b_lr - b_zr * b_li, 0.0), 1).to(tl.float64)
    return b_re, b_im, tl.sum(m_l.to(tl.int32))


@triton.jit(**KERNEL)
def scan_fwd_kernel(
    drive, transition, valid, gate, states, sums, counts, T, TS, M,
    MASKED: tl.constexpr, STORE: tl.constexpr, COUNT: tl.constexpr, BT: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """Drive (B, 2M, T), where the gate is open, to moment sums (B, 7, M); with STORE also the states (B, 2M, T).

    With COUNT the number of valid pairs of every lag goes to counts (B, 4). Everything before the first token is zero.
    """
    i_b, i_m = tl.program_id(0).to(tl.int64), tl.program_id(1)
    o_s, o_m = tl.arange(0, BT), i_m * BM + tl.arange(0, BM)
    m_m = o_m < M
    b_pr = tl.load(transition + o_m, mask=m_m, other=0.0)[:, None] + tl.zeros([BM, BT], tl.float32)
    b_pi = tl.load(transition + M + o_m, mask=m_m, other=0.0)[:, None] + tl.zeros([BM, BT], tl.float32)
    p_re = (i_b * 2 * M + o_m[:, None]) * TS
    p_im = p_re + M.to(tl.int64) * TS
    p_valid, p_gate = valid + i_b * T, gate + i_b * T
    b_cr, b_ci = tl.zeros([BM], tl.float32), tl.zeros([BM], tl.float32)
    b_qr, b_qi = tl.zeros([BM, BT], tl.float32), tl.zeros([BM, BT], tl.float32)
    b_energy = tl.zeros([BM], tl.float64)
    b_r1, b_i1 = tl.zeros([BM], tl.float64), tl.zeros([BM], tl.float64)
    b_r2, b_i2 = tl.zeros([BM], tl.float64), tl.zeros([BM], tl.float64)
    b_r3, b_i3 = tl.zeros([BM], tl.float64), tl.zeros([BM], tl.float64)
    n_0, n_1, n_2, n_3 = 0, 0, 0, 0
    for start in range(0, T, BT):
        o_t = start + o_s
        m_t = o_t < T
        m_g = m_t
        if MASKED:
            m_g = m_g & (tl.load(p_gate + o_t, mask=m_t, other=0) != 0)
        b_er, b_ei = load_pair(drive, p_re, p_im, o_t, m_m, m_g)
        b_ar, b_ai, b_zr, b_zi = tl.associative_scan((b_pr, b_pi, b_er, b_ei), 1, compose)
        b_zr, b_zi = (
            b_zr + b_ar * b_cr[:, None] - b_ai * b_ci[:, None], b_zi + b_ar * b_ci[:, None] + b_ai * b_cr[:, None],
        )  # fmt: skip
        if STORE:
            m_e = m_m[:, None] & m_t[None, :]
            tl.store(states + p_re + o_t[None, :], b_zr, mask=m_e)
            tl.store(states + p_im + o_t[None, :], b_zi, mask=m_e)
        m_0 = m_t
        if MASKED:
            m_0 = m_0 & (tl.load(p_valid + o_t, mask=m_t, other=0) != 0)
        b_energy += tl.sum(tl.where(m_0[None, :], b_zr * b_zr + b_zi * b_zi, 0.0), 1).to(tl.float64)
        n_0 += tl.sum(m_0.to(tl.int32))
        b_re, b_im, n = pair_lag(b_zr, b_zi, b_qr, b_qi, p_valid, o_s, o_t, m_0, LAG_1, MASKED, BM, BT)
        b_r1, b_i1, n_1 = b_r1 + b_re, b_i1 + b_im, n_1 + n
        b_re, b_im, n = pair_lag(b_zr, b_zi, b_qr, b_qi, p_valid, o_s, o_t, m_0, LAG_2, MASKED, BM, BT)
        b_r2, b_i2, n_2 = b_r2 + b_re, b_i2 + b_im, n_2 + n
        b_re, b_im, n = pair_lag(b_zr, b_zi, b_qr, b_qi, p_valid, o_s, o_t, m_0, LAG_3, MASKED, BM, BT)
        b_r3, b_i3, n_3 = b_r3 + b_re, b_i3 + b_im, n_3 + n
        m_last = (o_s == BT - 1)[None, :]
        b_cr, b_ci = tl.sum(tl.where(m_last, b_zr, 0.0), 1), tl.sum(tl.where(m_last, b_zi, 0.0), 1)
        b_qr, b_qi = b_zr, b_zi
    p_sums = sums + i_b * MOMENTS * M + o_m
    tl.store(p_sums, b_energy, mask=m_m)
    tl.store(p_sums + M, b_r1, mask=m_m)
    tl.store(p_sums + 2 * M, b_i1, mask=m_m)
    tl.store(p_sums + 3 * M, b_r2, mask=m_m)
    tl.store(p_sums + 4 * M, b_i2, mask=m_m)
    tl.store(p_sums + 5 * M, b_r3, mask=m_m)
    tl.store(p_sums + 6 * M, b_i3, mask=m_m)
    if COUNT:
        if i_m == 0:
            tl.store(counts + i_b * COUNTS, n_0)
            tl.store(counts + i_b * COUNTS + 1, n_1)
            tl.store(counts + i_b * COUNTS + 2, n_2)
            tl.store(counts + i_b * COUNTS + 3, n_3)


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
    2 g z for the energy and, for each lag, the partners on both sides.
    """
    i_b, i_m = tl.program_id(0).to(tl.int64), tl.program_id(1)
    o_s, o_m = tl.arange(0, BT), i_m * BM + tl.arange(0, BM)
    m_m = o_m < M
    b_pr = tl.load(transition + o_m, mask=m_m, other=0.0)[:, None] + tl.zeros([BM, BT], tl.float32)
    b_pi = tl.zeros([BM, BT], tl.float32) - tl.load(transition + M + o_m, mask=m_m, other=0.0)[:, None]
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
        b_ar, b_ai, b_dr, b_di = tl.associative_scan((b_pr, b_pi, b_dr, b_di), 1, compose, reverse=True)
        b_dr, b_di = (
            b_dr + b_ar * b_cr[:, None] - b_ai * b_ci[:, None], b_di + b_ar * b_ci[:, None] + b_ai * b_cr[:, None],
        )  # fmt: skip
        b_qr, b_qi = load_pair(states, p_re, p_im, o_t - 1, m_m, m_t & (o_t >= 1))
        b_tr += tl.sum(b_dr * b_qr + b_di * b_qi, 1)
        b_ti += tl.sum(b_di * b_qr - b_dr * b_qi, 1)
        m_first = (o_s == 0)[None, :]
        b_cr, b_ci = tl.sum(tl.where(m_first, b_dr, 0.0), 1), tl.sum(tl.where(m_first, b_di, 0.0), 1)
        m_e = m_t
        if MASKED:
            m_e = m_e & (tl.load(p_gate + o_t, mask=m_t, other=0) != 0)
        m_s = m_m[:, None] & m_t[None, :]
        tl.store(d_drive + p_re + o_t[None, :], tl.where(m_e[None, :], b_dr, 0.0), mask=m_s)
        tl.store(d_drive + p_im + o_t[None, :], tl.where(m_e[None, :], b_di, 0.0), mask=m_s)
    tl.store(d_transition + i_b * 2 * M + o_m, b_tr, mask=m_m)
    tl.store(d_transition + i_b * 2 * M + M + o_m, b_ti, mask=m_m)
