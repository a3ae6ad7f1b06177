"""One chunk of a recurrence: its states from zero, the state that is carried into it, and its moments.

A program has some modes and one chunk of BT tokens; definition.py is the algebra. Complex numbers are pairs of reals,
blocks are [modes, tokens]. The HALO tokens on either side of a chunk are a block of their own, the earlier ones first.

Of a pole p its powers 1, 2, 4, .. are given, each rounded from more digits. Made of a rounded p, they would be as many
times as wrong as it is as a state remembers tokens.
"""

import triton
import triton.language as tl
from alphabet_core.fused import LAGS as LAG_VALUES
from alphabet_core.fused import LIFT_REACH
from alphabet_core.fused import MOMENTS as MOMENT_COUNT

from alphabet_triton.buffers import POWERS as POWER_COUNT

MOMENTS = tl.constexpr(MOMENT_COUNT)
LAGS = tl.constexpr(len(LAG_VALUES))
HALO = tl.constexpr(LIFT_REACH)
POWERS = tl.constexpr(POWER_COUNT)
LONGEST = tl.constexpr(1 << POWER_COUNT)  # all exponents that are made of the powers are below it
assert tuple(1 << i for i in range(LAGS.value)) == LAG_VALUES  # as `store_moments` counts them
assert max(LAG_VALUES) <= HALO.value


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
def times(b_ar, b_ai, b_br, b_bi):
    """The product of two complex numbers."""
    return b_ar * b_br - b_ai * b_bi, b_ar * b_bi + b_ai * b_br


@triton.jit
def load_power(p_pole, m_m, M, n: tl.constexpr):
    """The power p^n [modes] of poles whose powers 1, 2, 4, .. (2M, POWERS) are at p_pole; n is one of these."""
    b_pr, b_pi = tl.load(p_pole, mask=m_m, other=0.0), tl.load(p_pole + M * POWERS, mask=m_m, other=0.0)
    for i in tl.static_range(1, POWERS):
        if n == 1 << i:
            b_pr = tl.load(p_pole + i, mask=m_m, other=0.0)
            b_pi = tl.load(p_pole + M * POWERS + i, mask=m_m, other=0.0)
    return b_pr, b_pi


@triton.jit
def raise_powers(
    p_pole, m_m, M, b_k, STEP: tl.constexpr, LIMIT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """The powers p^k [ROWS, COLUMNS], for exponents k that are multiples of STEP below LIMIT, both powers of two.

    Each is a product of a few powers that are rounded correctly, so that no error grows with the exponent.
    """
    tl.static_assert(LIMIT <= LONGEST)
    b_wr, b_wi = tl.full([ROWS, COLUMNS], 1.0, tl.float32), tl.zeros([ROWS, COLUMNS], tl.float32)
    for i in tl.static_range(POWERS):
        if (1 << i >= STEP) and (1 << i < LIMIT):
            b_ar, b_ai = load_power(p_pole, m_m, M, 1 << i)
            m_k = (((b_k >> i) & 1) != 0)[None, :]
            if 1 << i == STEP:
                b_wr, b_wi = tl.where(m_k, b_ar[:, None], b_wr), tl.where(m_k, b_ai[:, None], b_wi)
            else:
                b_xr, b_xi = times(b_wr, b_wi, b_ar[:, None], b_ai[:, None])
                b_wr, b_wi = tl.where(m_k, b_xr, b_wr), tl.where(m_k, b_xi, b_wi)
    return b_wr, b_wi


@triton.jit
def load_rows(p_re, p_im, columns, m_m, m_c):
    """Two blocks of rows at p_re and p_im, their real and imaginary parts; zero where a mask is."""
    m_x = m_m[:, None] & m_c[None, :]
    return tl.load(p_re[:, None] + columns[None, :], mask=m_x, other=0.0), tl.load(
        p_im[:, None] + columns[None, :], mask=m_x, other=0.0
    )


@triton.jit
def scan_alone(b_er, b_ei, p_pole, m_m, M, BM: tl.constexpr, BT: tl.constexpr):
    """The states [BM, BT] that a chunk's drive makes from zero, and the last of them [BM].

    The last is a sum with weights of its own, because the scan's error, that of the rounded pole to the power of a
    token's distance, would be the same in every chunk, and add up for as long as the pole remembers.
    """
    b_0 = tl.zeros([BM, BT], tl.float32)
    b_pr, b_pi = load_power(p_pole, m_m, M, 1)
    _, _, b_zr, b_zi = tl.associative_scan((b_pr[:, None] + b_0, b_pi[:, None] + b_0, b_er, b_ei), 1, compose)
    b_wr, b_wi = raise_powers(p_pole, m_m, M, BT - 1 - tl.arange(0, BT), 1, BT, BM, BT)
    b_wr, b_wi = times(b_wr, b_wi, b_er, b_ei)
    return b_zr, b_zi, tl.sum(b_wr, 1), tl.sum(b_wi, 1)


@triton.jit
def carry_into(i_c, p_re, p_im, p_pole, m_m, M, BM: tl.constexpr, BT: tl.constexpr, BC: tl.constexpr):
    """The states [BM] before chunk i_c, of the ends of earlier chunks at p_re and p_im.

    BC ends at a time, the nearest first, are weighted by powers of p^BT and added up, until the weights are zero: what
    is longer ago than a pole remembers in float32 is not read, so that a long sequence costs each chunk no more.
    """
    o_c = tl.arange(0, BC)
    b_wr, b_wi = raise_powers(p_pole, m_m, M, BT * (BC - 1 - o_c), BT, BT * BC, BM, BC)
    b_sr, b_si = load_power(p_pole, m_m, M, BT * BC)
    b_vr, b_vi = tl.full([BM], 1.0, tl.float32), tl.zeros([BM], tl.float32)
    b_cr, b_ci = tl.zeros([BM], tl.float32), tl.zeros([BM], tl.float32)
    while (i_c > 0) & (tl.max(tl.abs(b_vr) + tl.abs(b_vi)) > 0.0):
        o_e = i_c - BC + o_c
        b_er, b_ei = load_rows(p_re, p_im, o_e, m_m, o_e >= 0)
        b_er, b_ei = times(b_wr, b_wi, b_er, b_ei)
        b_er, b_ei = times(b_vr, b_vi, tl.sum(b_er, 1), tl.sum(b_ei, 1))
        b_cr, b_ci = b_cr + b_er, b_ci + b_ei
        b_vr, b_vi = times(b_vr, b_vi, b_sr, b_si)
        i_c -= BC
    return b_cr, b_ci


@triton.jit
def add_end(i_c, b_cr, b_ci, p_re, p_im, m_m, chunks, b_sr, b_si):
    """The states before chunk i_c + 1, of those before chunk i_c."""
    m_c = m_m & (i_c >= 0) & (i_c < chunks)
    b_cr, b_ci = times(b_sr, b_si, b_cr, b_ci)
    return b_cr + tl.load(p_re + i_c, mask=m_c, other=0.0), b_ci + tl.load(p_im + i_c, mask=m_c, other=0.0)


@triton.jit
def halo_tokens(i_t, BT: tl.constexpr):
    """The tokens on either side of chunk i_t: the last of the one before, and the first of the one after."""
    o_h = tl.arange(0, 2 * HALO)
    return i_t * BT + o_h + tl.where(o_h < HALO, -HALO, BT - HALO)


@triton.jit
def load_chunk(
    local, ends, transition, i_b, i_t, o_m, T, TS, M, BM: tl.constexpr, BT: tl.constexpr, BC: tl.constexpr
):  # fmt: skip
    """States of modes o_m at the tokens of chunk i_t [BM, BT], and at those on either side of it [BM, 2 HALO].

    local (B, 2M, T) are the states of chunks that began at zero, ends (B, 2M, chunks) their last. Nothing is masked:
    what lies outside of the sequence is meaningless.
    """
    m_m = o_m < M
    chunks = tl.cdiv(T, BT)
    p_pole = transition + o_m * POWERS
    b_pr, b_pi = load_power(p_pole, m_m, M, 1)
    b_sr, b_si = load_power(p_pole, m_m, M, BT)
    row = i_b * 2 * M + o_m
    p_re, p_im = ends + row * chunks, ends + (row + M) * chunks
    b_0r, b_0i = carry_into(i_t - 1, p_re, p_im, p_pole, m_m, M, BM, BT, BC)
    b_1r, b_1i = add_end(i_t - 1, b_0r, b_0i, p_re, p_im, m_m, chunks, b_sr, b_si)
    b_2r, b_2i = add_end(i_t, b_1r, b_1i, p_re, p_im, m_m, chunks, b_sr, b_si)

    p_re, p_im = local + row * TS, local + (row + M) * TS
    o_s = tl.arange(0, BT)
    o_t = i_t * BT + o_s
    b_zr, b_zi = load_rows(p_re, p_im, o_t, m_m, o_t < T)
    b_cr, b_ci = times(b_1r, b_1i, b_pr, b_pi)
    b_qr, b_qi = raise_powers(p_pole, m_m, M, o_s, 1, BT, BM, BT)
    b_qr, b_qi = times(b_qr, b_qi, b_cr[:, None], b_ci[:, None])

    o_h = halo_tokens(i_t, BT)
    b_hr, b_hi = load_rows(p_re, p_im, o_h, m_m, (o_h >= 0) & (o_h < T))
    for i in tl.static_range(POWERS):
        if (1 << i >= HALO) and (1 << i < BT):  # to the last HALO tokens of the chunk before
            b_ar, b_ai = load_power(p_pole, m_m, M, 1 << i)
            b_0r, b_0i = times(b_0r, b_0i, b_ar, b_ai)
    m_before = (o_h < i_t * BT)[None, :]
    b_cr = tl.where(m_before, b_0r[:, None], b_2r[:, None])
    b_ci = tl.where(m_before, b_0i[:, None], b_2i[:, None])
    b_cr, b_ci = times(b_cr, b_ci, b_pr[:, None], b_pi[:, None])
    b_wr, b_wi = raise_powers(p_pole, m_m, M, tl.arange(0, 2 * HALO) % HALO, 1, HALO, BM, 2 * HALO)
    b_wr, b_wi = times(b_wr, b_wi, b_cr, b_ci)
    return b_zr + b_qr, b_zi + b_qi, b_hr + b_wr, b_hi + b_wi


@triton.jit
def read_at(b_x, b_halo, offset: tl.constexpr, ROWS: tl.constexpr, BT: tl.constexpr):
    """The block `offset` tokens later than b_x, at most HALO: out of b_x and of the block on either side of it."""
    o_x = tl.arange(0, BT) + offset
    m_x = (o_x >= 0) & (o_x < BT)
    b_index = tl.zeros([ROWS, BT], tl.int32)
    b_inside = tl.gather(b_x, b_index + tl.where(m_x, o_x, 0)[None, :], 1)
    o_h = tl.where(o_x < 0, o_x + HALO, o_x - BT + HALO)
    b_outside = tl.gather(b_halo, b_index + tl.where(m_x, 0, o_h)[None, :], 1)
    return tl.where(m_x[None, :], b_inside, b_outside)


@triton.jit
def store_states(states, i_b, o_m, o_t, M, T, TS, b_zr, b_zi):
    """Store the states of modes o_m at tokens o_t in states (B, 2M, T)."""
    row = i_b * 2 * M + o_m
    m_z = (o_m < M)[:, None] & (o_t < T)[None, :]
    tl.store(states + row[:, None] * TS + o_t[None, :], b_zr, mask=m_z)
    tl.store(states + (row + M)[:, None] * TS + o_t[None, :], b_zi, mask=m_z)


@triton.jit
def keep_valid(b_zr, b_zi, m_v):
    """The states of valid tokens, zero at all others: then no sum over pairs of states has to look at masks."""
    return tl.where(m_v[None, :], b_zr, 0.0), tl.where(m_v[None, :], b_zi, 0.0)


@triton.jit
def store_moments(p_sums, m_m, M, b_zr, b_zi, b_hr, b_hi, BM: tl.constexpr, BT: tl.constexpr):
    """Store a chunk's sums (7, M) of z[t] conj(z[t-lag]), for states that are zero at tokens that are not valid."""
    tl.store(p_sums, tl.sum(b_zr * b_zr + b_zi * b_zi, 1), mask=m_m)
    for i in tl.static_range(LAGS):
        b_lr, b_li = read_at(b_zr, b_hr, -(1 << i), BM, BT), read_at(b_zi, b_hi, -(1 << i), BM, BT)
        tl.store(p_sums + (1 + 2 * i) * M, tl.sum(b_zr * b_lr + b_zi * b_li, 1), mask=m_m)
        tl.store(p_sums + (2 + 2 * i) * M, tl.sum(b_zi * b_lr - b_zr * b_li, 1), mask=m_m)
