"""The zero-order hold of a unit step folded into the frame, forward and backward; some modes per program.

With lambda = -alpha + i omega, p = exp(lambda) and g = (p - 1) / lambda, derivatives are p and (p - g) / lambda. A
gradient of a complex quantity is the pair of its parts' gradients, and returns by the conjugate: matrix = g n A gives
dg = sum(conj(n A) d_matrix), dA = conj(g) n d_matrix and dn = sum(re(conj(g A) d_matrix)).

Poles are computed in float64: 1 - p then keeps thirteen digits where the decay is slowest, with no special form.
"""

import triton
import triton.language as tl
from alphabet_core.fused import DECAY_MAX, DECAY_MIN, FREQUENCY_MAX

from alphabet_triton.launching import KERNEL

LEAST_DECAY = tl.constexpr(DECAY_MIN)
DECAY_SPAN = tl.constexpr(DECAY_MAX - DECAY_MIN)
MOST_FREQUENCY = tl.constexpr(FREQUENCY_MAX)


@triton.jit
def load_pole(raw_decay, raw_frequency, o_m, m_m):
    """Decay and frequency of some modes, each with its derivative, in float64."""
    b_x = tl.load(raw_decay + o_m, mask=m_m, other=0.0).to(tl.float64)
    b_y = tl.load(raw_frequency + o_m, mask=m_m, other=0.0).to(tl.float64)
    b_sigma = 1.0 / (1.0 + tl.exp(-b_x))
    b_tanh = 1.0 - 2.0 / (tl.exp(2.0 * b_y) + 1.0)
    return (
        b_sigma * DECAY_SPAN + LEAST_DECAY,
        b_tanh * MOST_FREQUENCY,
        b_sigma * (1.0 - b_sigma) * DECAY_SPAN,
        (1.0 - b_tanh * b_tanh) * MOST_FREQUENCY,
    )


@triton.jit
def sine_cosine(b_w):
    """Sine and cosine of angles up to pi by the series of the half angle, which leave out less than 3e-16.

    The library's own reduce any angle, for which they need a stack.
    """
    b_x = 0.5 * b_w
    b_q = -b_x * b_x
    b_s, b_c = b_x * 0.0 + 1.0, b_x * 0.0 + 1.0
    for k in tl.static_range(10, 0, -1):
        b_s = 1.0 + b_s * (b_q * (1.0 / ((2 * k) * (2 * k + 1))))
        b_c = 1.0 + b_c * (b_q * (1.0 / ((2 * k - 1) * (2 * k))))
    b_s *= b_x
    return 2.0 * b_s * b_c, 1.0 - 2.0 * b_s * b_s


@triton.jit
def hold(b_alpha, b_omega):
    """Transition exp(lambda) and gain (exp(lambda) - 1) / lambda, and 1 / lambda, as pairs."""
    b_sine, b_cosine = sine_cosine(b_omega)
    b_radius = tl.exp(-b_alpha)
    b_pr, b_pi = b_radius * b_cosine, b_radius * b_sine
    b_square = b_alpha * b_alpha + b_omega * b_omega
    b_lr, b_li = -b_alpha / b_square, -b_omega / b_square
    return b_pr, b_pi, (b_pr - 1.0) * b_lr - b_pi * b_li, (b_pr - 1.0) * b_li + b_pi * b_lr, b_lr, b_li


@triton.jit(**KERNEL)
def fold_fwd_kernel(
    frame, raw_decay, raw_frequency, gain, matrix, transition, D, M, BD: tl.constexpr, BM: tl.constexpr
):  # fmt: skip
    """Frame (D, 2M), poles (M,) and the norm's gain (D,) to matrix (2M, D) and transition (2M,)."""
    o_m = tl.program_id(0) * BM + tl.arange(0, BM)
    m_m = o_m < M
    b_alpha, b_omega, _, _ = load_pole(raw_decay, raw_frequency, o_m, m_m)
    b_pr, b_pi, b_gr, b_gi, _, _ = hold(b_alpha, b_omega)
    tl.store(transition + o_m, b_pr.to(tl.float32), mask=m_m)
    tl.store(transition + M + o_m, b_pi.to(tl.float32), mask=m_m)
    b_gr, b_gi = b_gr.to(tl.float32)[:, None], b_gi.to(tl.float32)[:, None]
    for d in range(0, D, BD):
        o_d = d + tl.arange(0, BD)
        m_d = o_d < D
        m_w = m_m[:, None] & m_d[None, :]
        p_frame = frame + o_d[None, :] * 2 * M + o_m[:, None]
        p_matrix = matrix + o_m[:, None] * D + o_d[None, :]
        b_ar, b_ai = tl.load(p_frame, mask=m_w, other=0.0), tl.load(p_frame + M, mask=m_w, other=0.0)
        b_n = tl.load(gain + o_d, mask=m_d, other=0.0)[None, :]
        tl.store(p_matrix, b_n * (b_gr * b_ar - b_gi * b_ai), mask=m_w)
        tl.store(p_matrix + M * D, b_n * (b_gr * b_ai + b_gi * b_ar), mask=m_w)


@triton.jit(**KERNEL)
def fold_bwd_kernel(
    frame, raw_decay, raw_frequency, gain, d_matrix, d_transition, d_frame, d_decay, d_frequency, d_gain, D, M,
    BD: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """d_matrix (2M, D), d_transition (2M,) to d_frame (D, 2M), d_decay, d_frequency (M,), d_gain (.., D) by program."""
    i_m = tl.program_id(0)
    o_m = i_m * BM + tl.arange(0, BM)
    m_m = o_m < M
    b_alpha, b_omega, b_dalpha, b_domega = load_pole(raw_decay, raw_frequency, o_m, m_m)
    b_pr, b_pi, b_gr, b_gi, b_lr, b_li = hold(b_alpha, b_omega)
    b_hr, b_hi = b_gr.to(tl.float32)[:, None], b_gi.to(tl.float32)[:, None]
    b_sr, b_si = tl.zeros([BM, BD], tl.float32), tl.zeros([BM, BD], tl.float32)
    for d in range(0, D, BD):
        o_d = d + tl.arange(0, BD)
        m_d = o_d < D
        m_w = m_m[:, None] & m_d[None, :]
        p_frame = o_d[None, :] * 2 * M + o_m[:, None]
        p_matrix = d_matrix + o_m[:, None] * D + o_d[None, :]
        b_ar = tl.load(frame + p_frame, mask=m_w, other=0.0)
        b_ai = tl.load(frame + p_frame + M, mask=m_w, other=0.0)
        b_wr, b_wi = tl.load(p_matrix, mask=m_w, other=0.0), tl.load(p_matrix + M * D, mask=m_w, other=0.0)
        b_n = tl.load(gain + o_d, mask=m_d, other=0.0)[None, :]
        tl.store(d_frame + p_frame, b_n * (b_hr * b_wr + b_hi * b_wi), mask=m_w)
        tl.store(d_frame + p_frame + M, b_n * (b_hr * b_wi - b_hi * b_wr), mask=m_w)
        b_dn = tl.sum((b_hr * b_ar - b_hi * b_ai) * b_wr + (b_hr * b_ai + b_hi * b_ar) * b_wi, 0)
        tl.store(d_gain + i_m * D + o_d, b_dn, mask=m_d)
        b_ar, b_ai = b_n * b_ar, b_n * b_ai
        b_sr += b_ar * b_wr + b_ai * b_wi
        b_si += b_ar * b_wi - b_ai * b_wr
    b_qr, b_qi = tl.sum(b_sr, 1).to(tl.float64), tl.sum(b_si, 1).to(tl.float64)
    b_tr = tl.load(d_transition + o_m, mask=m_m, other=0.0).to(tl.float64)
    b_ti = tl.load(d_transition + M + o_m, mask=m_m, other=0.0).to(tl.float64)
    b_er = (b_pr - b_gr) * b_lr - (b_pi - b_gi) * b_li
    b_ei = (b_pr - b_gr) * b_li + (b_pi - b_gi) * b_lr
    b_re = b_pr * b_tr + b_pi * b_ti + b_er * b_qr + b_ei * b_qi
    b_im = b_pr * b_ti - b_pi * b_tr + b_er * b_qi - b_ei * b_qr
    tl.store(d_decay + o_m, (-b_re * b_dalpha).to(tl.float32), mask=m_m)
    tl.store(d_frequency + o_m, (b_im * b_domega).to(tl.float32), mask=m_m)
