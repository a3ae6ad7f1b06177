"""The zero-order hold of a unit step folded into the frames of both banks; some modes of one bank per program.

With lambda = -alpha + i omega, p = exp(lambda) and g = (p - 1) / lambda, derivatives are p and (p - g) / lambda, which
are stored for the backward: it needs no exponential.

Poles are computed in float64: 1 - p then keeps thirteen digits where the decay is slowest, with no special form.
"""

import triton
import triton.language as tl
from alphabet_core.fused import DECAY_MAX, DECAY_MIN, FREQUENCY_MAX

from alphabet_triton.launching import KERNEL

LEAST_DECAY = tl.constexpr(DECAY_MIN)
DECAY_SPAN = tl.constexpr(DECAY_MAX - DECAY_MIN)
MOST_FREQUENCY = tl.constexpr(FREQUENCY_MAX)
# What is stored of a pole: gain and its derivative as pairs, and the derivatives of decay and frequency.
POLE_ROWS = tl.constexpr(6)


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
    """Transition exp(lambda), gain (exp(lambda) - 1) / lambda and the gain's derivative, as pairs."""
    b_sine, b_cosine = sine_cosine(b_omega)
    b_radius = tl.exp(-b_alpha)
    b_pr, b_pi = b_radius * b_cosine, b_radius * b_sine
    b_square = b_alpha * b_alpha + b_omega * b_omega
    b_lr, b_li = -b_alpha / b_square, -b_omega / b_square
    b_gr, b_gi = (b_pr - 1.0) * b_lr - b_pi * b_li, (b_pr - 1.0) * b_li + b_pi * b_lr
    b_er = (b_pr - b_gr) * b_lr - (b_pi - b_gi) * b_li
    b_ei = (b_pr - b_gr) * b_li + (b_pi - b_gi) * b_lr
    return b_pr, b_pi, b_gr, b_gi, b_er, b_ei


@triton.jit
def fold_through(gain, synthesis_scale, feedthrough, through, D, BD: tl.constexpr):
    """Through (D,): the gain of the normed features that the synthesis adds to its stream."""
    for d in range(0, D, BD):
        o_d = d + tl.arange(0, BD)
        m_d = o_d < D
        b_t = tl.load(synthesis_scale + o_d, mask=m_d, other=0.0) * tl.load(feedthrough + o_d, mask=m_d, other=0.0)
        tl.store(through + o_d, b_t * tl.load(gain + o_d, mask=m_d, other=0.0), mask=m_d)


@triton.jit(**KERNEL)
def fold_fwd_kernel(
    base, raw_decay, raw_frequency, gain, base_2, raw_decay_2, raw_frequency_2, gain_2, synthesis_scale, feedthrough,
    matrix, transition, matrix_2, transition_2, poles, synthesis, through, D, M, S, S_2,
    BD: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """Frames, poles (M,) and norm gains (D,) of both banks to matrices (2M, D), transitions (2M,) and poles (2, 6, M).

    A frame is the first 2M columns of a base with rows of S. The direct bank's also gives the synthesis (D, 2M) and,
    with its gain, through (D,).
    """
    blocks = tl.cdiv(M, BM)
    i_f, i_m = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    row = S
    if i_f == 1:
        base, raw_decay, raw_frequency, gain = base_2, raw_decay_2, raw_frequency_2, gain_2
        matrix, transition, row = matrix_2, transition_2, S_2
    elif i_m == 0:
        fold_through(gain, synthesis_scale, feedthrough, through, D, BD)
    o_m = i_m * BM + tl.arange(0, BM)
    m_m = o_m < M
    b_alpha, b_omega, b_dalpha, b_domega = load_pole(raw_decay, raw_frequency, o_m, m_m)
    b_pr, b_pi, b_gr, b_gi, b_er, b_ei = hold(b_alpha, b_omega)
    tl.store(transition + o_m, b_pr.to(tl.float32), mask=m_m)
    tl.store(transition + M + o_m, b_pi.to(tl.float32), mask=m_m)
    p_pole = poles + i_f * POLE_ROWS * M + o_m
    tl.store(p_pole, b_gr.to(tl.float32), mask=m_m)
    tl.store(p_pole + M, b_gi.to(tl.float32), mask=m_m)
    tl.store(p_pole + 2 * M, b_er.to(tl.float32), mask=m_m)
    tl.store(p_pole + 3 * M, b_ei.to(tl.float32), mask=m_m)
    tl.store(p_pole + 4 * M, b_dalpha.to(tl.float32), mask=m_m)
    tl.store(p_pole + 5 * M, b_domega.to(tl.float32), mask=m_m)
    b_gr, b_gi = b_gr.to(tl.float32)[:, None], b_gi.to(tl.float32)[:, None]
    for d in range(0, D, BD):
        o_d = d + tl.arange(0, BD)
        m_d = o_d < D
        m_w = m_m[:, None] & m_d[None, :]
        p_frame = base + o_d[None, :] * row + o_m[:, None]
        p_matrix = matrix + o_m[:, None] * D + o_d[None, :]
        b_ar, b_ai = tl.load(p_frame, mask=m_w, other=0.0), tl.load(p_frame + M, mask=m_w, other=0.0)
        b_n = tl.load(gain + o_d, mask=m_d, other=0.0)[None, :]
        tl.store(p_matrix, b_n * (b_gr * b_ar - b_gi * b_ai), mask=m_w)
        tl.store(p_matrix + M * D, b_n * (b_gr * b_ai + b_gi * b_ar), mask=m_w)
        if i_f == 0:
            b_s = tl.load(synthesis_scale + o_d, mask=m_d, other=0.0)[None, :]
            p_synthesis = synthesis + o_d[None, :] * 2 * M + o_m[:, None]
            tl.store(p_synthesis, b_s * b_ar, mask=m_w)
            tl.store(p_synthesis + M, b_s * b_ai, mask=m_w)
