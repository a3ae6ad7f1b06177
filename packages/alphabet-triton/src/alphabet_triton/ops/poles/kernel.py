"""The zero-order hold of a unit step in pairs of float32, to some 2e-9: transitions are as good as rounded correctly.

With lambda = -alpha + i omega, p = exp(lambda) and g = (p - 1) / lambda, derivatives are p and g' = (p - g) / lambda.

Each function is a series around zero, after a reduction of its argument: the first terms in pairs, all that is below a
hundredth in float32. exp(x) - 1 and cos(x) - 1 are what comes before one is added, so that p - 1 keeps its digits where
the decay is slow.
"""

import triton
import triton.language as tl
from alphabet_core.fused import DECAY_MAX, DECAY_MIN, FREQUENCY_MAX

from alphabet_triton.ops.pairs.kernel import add_pairs, divide_pairs, multiply_pairs, normalize, two_sum


def _split(number: float, bits: int = 24) -> tuple[float, float]:
    """A number's first bits, and the rest of it."""
    import struct

    unit = 1 << (24 - bits)
    whole = struct.unpack("<i", struct.pack("<f", number))[0]
    first = struct.unpack("<f", struct.pack("<i", whole - whole % unit))[0]
    return first, number - first


LEAST, LEAST_REST = (tl.constexpr(part) for part in _split(DECAY_MIN))
SPAN, SPAN_REST = (tl.constexpr(part) for part in _split(DECAY_MAX - DECAY_MIN))
MOST, MOST_REST = (tl.constexpr(part) for part in _split(FREQUENCY_MAX))
# ln 2 and pi / 2, whose first parts have few bits: times a small integer they are exact.
LN_2, LN_2_REST = (tl.constexpr(part) for part in _split(0.6931471805599453, bits=15))
QUARTER, QUARTER_REST = (tl.constexpr(part) for part in _split(1.5707963267948966, bits=15))


@triton.jit
def exponential(b_x, b_xrest):
    """exp(x) - 1 and exp(x) of a pair x <= 0, as pairs."""
    b_k = tl.floor(b_x * 1.4426950408889634 + 0.5)
    b_k = tl.maximum(b_k, -120.0)  # of what is smaller, one does not notice anything
    b_r, b_rest = two_sum(b_x - b_k * LN_2, b_xrest - b_k * LN_2_REST)
    b_r, b_rest = tl.where(b_x < -80.0, 0.0, b_r), tl.where(b_x < -80.0, 0.0, b_rest)
    b_q, b_qrest = multiply_pairs(b_r, b_rest, 0.5 * b_r, 0.5 * b_rest)
    b_far = 1 / 24 + b_r * (1 / 120 + b_r * (1 / 720 + b_r * (1 / 5040 + b_r * (1 / 40320 + b_r * (1 / 362880)))))
    b_far = b_r * b_r * b_r * (1 / 6 + b_r * b_far)
    b_m, b_mrest = add_pairs(b_r, b_rest, b_q, b_qrest)
    b_m, b_mrest = add_pairs(b_m, b_mrest, b_far, 0.0 * b_far)
    b_m, b_mrest = normalize(b_m, b_mrest)
    b_e, b_erest = add_pairs(1.0 + 0.0 * b_m, 0.0 * b_m, b_m, b_mrest)
    b_unit = ((b_k.to(tl.int32) + 127) << 23).to(tl.float32, bitcast=True)  # 2^k
    b_e, b_erest = normalize(b_e * b_unit, b_erest * b_unit)
    b_c, b_crest = add_pairs(-1.0 + 0.0 * b_e, 0.0 * b_e, b_e, b_erest)
    m_near = b_k == 0.0
    return tl.where(m_near, b_m, b_c), tl.where(m_near, b_mrest, b_crest), b_e, b_erest


@triton.jit
def sine_cosine(b_w, b_wrest):
    """Sine, cosine and cosine - 1 of a pair between -pi and pi, as pairs."""
    b_j = tl.floor(b_w * 0.6366197723675814 + 0.5)
    b_r, b_rest = two_sum(b_w - b_j * QUARTER, b_wrest - b_j * QUARTER_REST)
    b_q, b_qrest = multiply_pairs(b_r, b_rest, b_r, b_rest)
    b_t, b_trest = multiply_pairs(b_q, b_qrest, b_q, b_qrest)
    b_t, b_trest = divide_pairs(b_t, b_trest, 24.0 + 0.0 * b_q, 0.0 * b_q)
    b_far = b_q * b_q * b_q * (1 / 720 - b_q * (1 / 40320 - b_q * (1 / 3628800)))
    b_m, b_mrest = add_pairs(-0.5 * b_q, -0.5 * b_qrest, b_t, b_trest - b_far)
    b_m, b_mrest = normalize(b_m, b_mrest)
    b_c, b_crest = add_pairs(1.0 + 0.0 * b_m, 0.0 * b_m, b_m, b_mrest)
    b_far = b_q * b_q * (1 / 120 - b_q * (1 / 5040 - b_q * (1 / 362880 - b_q * (1 / 39916800))))
    b_t, b_trest = divide_pairs(-b_q, -b_qrest, 6.0 + 0.0 * b_q, 0.0 * b_q)
    b_t, b_trest = add_pairs(b_t, b_trest, b_far, 0.0 * b_far)
    b_t, b_trest = multiply_pairs(b_t, b_trest, b_r, b_rest)
    b_s, b_srest = add_pairs(b_r, b_rest, b_t, b_trest)
    b_c, b_crest = normalize(b_c, b_crest)
    b_s, b_srest = normalize(b_s, b_srest)
    m_odd, m_back = (b_j == 1.0) | (b_j == -1.0), (b_j == 2.0) | (b_j == -2.0)
    b_turn = tl.where(b_j < 0.0, -1.0, 1.0)  # of an odd quarter: sin -> +- cos, cos -> -+ sin
    b_sine, b_srest_2 = tl.where(m_odd, b_turn * b_c, b_s), tl.where(m_odd, b_turn * b_crest, b_srest)
    b_cosine, b_crest_2 = tl.where(m_odd, -b_turn * b_s, b_c), tl.where(m_odd, -b_turn * b_srest, b_crest)
    b_sign = tl.where(m_back, -1.0, 1.0)
    b_sine, b_srest, b_cosine, b_crest = b_sign * b_sine, b_sign * b_srest_2, b_sign * b_cosine, b_sign * b_crest_2
    b_l, b_lrest = add_pairs(-1.0 + 0.0 * b_cosine, 0.0 * b_cosine, b_cosine, b_crest)
    m_near = b_j == 0.0
    b_less, b_lessrest = tl.where(m_near, b_m, b_l), tl.where(m_near, b_mrest, b_lrest)
    return b_sine, b_srest, b_cosine, b_crest, b_less, b_lessrest


@triton.jit
def load_pole(raw_decay, raw_frequency, o_m, m_m):
    """Decay and frequency of some modes as pairs, and the derivative of each."""
    b_x = tl.load(raw_decay + o_m, mask=m_m, other=0.0)
    b_y = tl.load(raw_frequency + o_m, mask=m_m, other=0.0)
    b_nothing = tl.zeros_like(b_x)
    _, _, b_e, b_erest = exponential(-tl.abs(b_x), b_nothing)
    b_d, b_drest = add_pairs(1.0 + b_nothing, b_nothing, b_e, b_erest)
    b_d, b_drest = normalize(b_d, b_drest)
    m_up = b_x >= 0.0
    b_sigma, b_srest = divide_pairs(
        tl.where(m_up, 1.0, b_e), tl.where(m_up, 0.0, b_erest), b_d, b_drest
    )  # 1 / (1 + exp(-x)), from exp(-|x|)
    b_alpha, b_arest = multiply_pairs(b_sigma, b_srest, b_nothing + SPAN, b_nothing + SPAN_REST)
    b_alpha, b_arest = add_pairs(b_alpha, b_arest, b_nothing + LEAST, b_nothing + LEAST_REST)
    b_alpha, b_arest = normalize(b_alpha, b_arest)
    b_dalpha = tl.div_rn(b_e, b_d * b_d) * SPAN
    b_m, b_mrest, b_f, b_frest = exponential(-2.0 * tl.abs(b_y), b_nothing)
    b_d, b_drest = add_pairs(1.0 + b_nothing, b_nothing, b_f, b_frest)
    b_d, b_drest = normalize(b_d, b_drest)
    b_tanh, b_trest = divide_pairs(-b_m, -b_mrest, b_d, b_drest)  # (1 - exp(-2|y|)) / (1 + exp(-2|y|))
    b_sign = tl.where(b_y < 0.0, -1.0, 1.0)
    b_omega, b_orest = multiply_pairs(b_sign * b_tanh, b_sign * b_trest, b_nothing + MOST, b_nothing + MOST_REST)
    b_domega = 4.0 * tl.div_rn(b_f, b_d * b_d) * MOST
    return b_alpha, b_arest, b_omega, b_orest, b_dalpha, b_domega


@triton.jit
def times_pole(b_x, b_y, b_alpha, b_omega, constant):
    """A constant + lambda (x + i y), as its two parts."""
    return constant - b_alpha * b_x - b_omega * b_y, b_omega * b_x - b_alpha * b_y


@triton.jit
def hold(b_alpha, b_arest, b_omega, b_orest):
    """Transition exp(lambda), gain (exp(lambda) - 1) / lambda and the gain's derivative, each as its two parts.

    The transition's parts are pairs.
    """
    b_m, b_mrest, b_e, b_erest = exponential(-b_alpha, -b_arest)
    b_s, b_srest, b_c, b_crest, b_l, b_lrest = sine_cosine(b_omega, b_orest)
    b_pr, b_prrest = multiply_pairs(b_e, b_erest, b_c, b_crest)
    b_pi, b_pirest = multiply_pairs(b_e, b_erest, b_s, b_srest)
    # p - 1 = (exp(-alpha) - 1) cos(omega) + (cos(omega) - 1) + i exp(-alpha) sin(omega)
    b_q, b_qrest = multiply_pairs(b_m, b_mrest, b_c, b_crest)
    b_q, b_qrest = add_pairs(b_q, b_qrest, b_l, b_lrest)
    b_q, b_qrest = normalize(b_q, b_qrest)
    b_a, b_ar = multiply_pairs(b_alpha, b_arest, b_alpha, b_arest)
    b_o, b_or = multiply_pairs(b_omega, b_orest, b_omega, b_orest)
    b_n, b_nrest = add_pairs(b_a, b_ar, b_o, b_or)
    b_n, b_nrest = normalize(b_n, b_nrest)
    b_a, b_ar = multiply_pairs(b_alpha, b_arest, b_q, b_qrest)
    b_o, b_or = multiply_pairs(b_omega, b_orest, b_pi, b_pirest)
    b_x, b_xr = add_pairs(b_o, b_or, -b_a, -b_ar)
    b_x, b_xr = normalize(b_x, b_xr)
    b_gr, b_grrest = divide_pairs(b_x, b_xr, b_n, b_nrest)
    b_a, b_ar = multiply_pairs(b_alpha, b_arest, b_pi, b_pirest)
    b_o, b_or = multiply_pairs(b_omega, b_orest, b_q, b_qrest)
    b_x, b_xr = add_pairs(-b_o, -b_or, -b_a, -b_ar)
    b_x, b_xr = normalize(b_x, b_xr)
    b_gi, b_girest = divide_pairs(b_x, b_xr, b_n, b_nrest)
    # g' = 1/2 + lambda / 3 + lambda^2 / 8 + .. near zero, where p - g has lost its digits
    b_ur, b_ui = 0.0 * b_n + 1 / 45360, 0.0 * b_n
    b_ur, b_ui = times_pole(b_ur, b_ui, b_alpha, b_omega, 1 / 5760)
    b_ur, b_ui = times_pole(b_ur, b_ui, b_alpha, b_omega, 1 / 840)
    b_ur, b_ui = times_pole(b_ur, b_ui, b_alpha, b_omega, 1 / 144)
    b_ur, b_ui = times_pole(b_ur, b_ui, b_alpha, b_omega, 1 / 30)
    b_ur, b_ui = times_pole(b_ur, b_ui, b_alpha, b_omega, 1 / 8)
    b_ur, b_ui = times_pole(b_ur, b_ui, b_alpha, b_omega, 1 / 3)
    b_ur, b_ui = times_pole(b_ur, b_ui, b_alpha, b_omega, 1 / 2)
    b_dr = (b_pr - b_gr) + (b_prrest - b_grrest)
    b_di = (b_pi - b_gi) + (b_pirest - b_girest)
    m_near = b_n < 0.0625
    b_er = tl.where(m_near, b_ur, tl.div_rn(b_omega * b_di - b_alpha * b_dr, b_n))
    b_ei = tl.where(m_near, b_ui, tl.div_rn(-b_alpha * b_di - b_omega * b_dr, b_n))
    return b_pr, b_prrest, b_pi, b_pirest, b_gr, b_gi, b_er, b_ei


@triton.jit
def square(b_x, b_xrest, b_y, b_yrest):
    """The square of x + i y, all in pairs."""
    b_a, b_arest = multiply_pairs(b_x, b_xrest, b_x, b_xrest)
    b_b, b_brest = multiply_pairs(b_y, b_yrest, b_y, b_yrest)
    b_c, b_crest = multiply_pairs(b_x, b_xrest, 2.0 * b_y, 2.0 * b_yrest)
    b_a, b_arest = add_pairs(b_a, b_arest, -b_b, -b_brest)
    b_a, b_arest = normalize(b_a, b_arest)
    return b_a, b_arest, b_c, b_crest
