"""The zero-order hold of a unit step folded into the frames of both banks; some modes of one bank per program.

What the backward needs of the poles, their gains and derivatives, is stored for it: it needs no exponential.
"""

import triton
import triton.language as tl

from alphabet_triton.launching import KERNEL
from alphabet_triton.ops.chunk.kernel import POWERS
from alphabet_triton.ops.poles.kernel import hold, load_pole, square

# What is stored of a pole: gain and its derivative as pairs, and the derivatives of decay and frequency.
POLE_ROWS = tl.constexpr(6)


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
    """Frames, poles (M,) and norm gains (D,) of both banks to matrices (2M, D), poles (2, 6, M) and powers.

    Transitions (2M, 11) are a pole's powers 1, 2, 4, .., each as good as rounded correctly.

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
    b_alpha, b_arest, b_omega, b_orest, b_dalpha, b_domega = load_pole(raw_decay, raw_frequency, o_m, m_m)
    b_pr, b_prrest, b_pi, b_pirest, b_gr, b_gi, b_er, b_ei = hold(b_alpha, b_arest, b_omega, b_orest)
    for i in tl.static_range(POWERS):
        tl.store(transition + o_m * POWERS + i, b_pr, mask=m_m)
        tl.store(transition + (M + o_m) * POWERS + i, b_pi, mask=m_m)
        b_pr, b_prrest, b_pi, b_pirest = square(b_pr, b_prrest, b_pi, b_pirest)
    p_pole = poles + i_f * POLE_ROWS * M + o_m
    tl.store(p_pole, b_gr, mask=m_m)
    tl.store(p_pole + M, b_gi, mask=m_m)
    tl.store(p_pole + 2 * M, b_er, mask=m_m)
    tl.store(p_pole + 3 * M, b_ei, mask=m_m)
    tl.store(p_pole + 4 * M, b_dalpha, mask=m_m)
    tl.store(p_pole + 5 * M, b_domega, mask=m_m)
    b_gr, b_gi = b_gr[:, None], b_gi[:, None]
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
