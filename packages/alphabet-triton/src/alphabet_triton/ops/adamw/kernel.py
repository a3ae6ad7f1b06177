"""Gradient norm, clipping and AdamW in one kernel, on the parameters' own memory.

A model has a few thousand parameters, so every program finds the norm of the whole gradient for itself: it costs less
than a second launch, and is the same sum in the same order everywhere. (A million parameters would want that launch.)

Settings are float64, and become float32 once, here. Everything else is float32: the corrections 1 - beta^t are
expm1(t log(beta)), of which both functions keep all digits.
"""

import triton
import triton.language as tl
from alphabet_core.fused import CLIP_EPSILON

from alphabet_triton.launching import KERNEL, MOST_PARAMETERS
from alphabet_triton.ops.pairs.kernel import add_to_pair

EPSILON = tl.constexpr(CLIP_EPSILON)
COUNT = tl.constexpr(MOST_PARAMETERS)
UNIT = tl.constexpr(2.0**-80)  # in which the square of no float32 overflows


@triton.jit
def gradient_norm(grads, N, BN: tl.constexpr):
    """The norm of grads (N,), also where the squares overflow."""
    b_sum, b_rest, b_far = tl.zeros([BN], tl.float32), tl.zeros([BN], tl.float32), tl.zeros([BN], tl.float32)
    for start in range(0, N, BN):
        o_n = start + tl.arange(0, BN)
        b_g = tl.load(grads + o_n, mask=o_n < N, other=0.0)
        b_sum, b_rest = add_to_pair(b_sum, b_rest, b_g * b_g)
        b_far += (b_g * UNIT) * (b_g * UNIT)
    near, far = tl.sum(b_sum), tl.sum(b_far)
    return tl.where(near < float("inf"), tl.sqrt_rn(near + tl.sum(b_rest)), tl.sqrt_rn(far) / UNIT)


@triton.jit
def correction(beta, steps):
    """1 - beta^steps, of beta in float64."""
    b_d = (1.0 - beta).to(tl.float32)
    # log(1 - d) by 2 artanh(d / (2 - d)) where d is small: the hardware's logarithm is only absolutely precise there.
    b_s = tl.div_rn(b_d, 2.0 - b_d)
    b_q = b_s * b_s
    b_near = 2.0 * b_s * (1.0 + b_q * (1 / 3 + b_q * (1 / 5 + b_q * (1 / 7 + b_q * (1 / 9)))))
    b_x = steps * tl.where(b_d < 0.25, b_near, -tl.log(1.0 - b_d))  # -t log(beta), not negative
    b_t = b_x * (1.0 - b_x * (1 / 2 - b_x * (1 / 6 - b_x * (1 / 24 - b_x * (1 / 120 - b_x * (1 / 720))))))
    return tl.where(b_x < 0.25, b_t, 1.0 - tl.exp(-b_x))


@triton.jit(**KERNEL)
def adamw_kernel(
    p_0, p_1, p_2, p_3, p_4, p_5, p_6, p_7, p_8, p_9, p_10, p_11, p_12, p_13, p_14, p_15, p_16,
    starts, grads, clipped, average, square, steps, settings, N, BN: tl.constexpr,
):  # fmt: skip
    """Update parameters, average and square (N,) by grads (N,), clipped to the global norm settings[5] and stored so.

    Parameter i has the numbers from starts[i] up to starts[i + 1] of the N.
    settings, in float64: learning rate, both betas, epsilon, weight decay, clip norm. steps count from one.
    """
    pointers = (p_0, p_1, p_2, p_3, p_4, p_5, p_6, p_7, p_8, p_9, p_10, p_11, p_12, p_13, p_14, p_15, p_16)
    rate, beta_1, beta_2 = tl.load(settings), tl.load(settings + 1), tl.load(settings + 2)
    epsilon, decay, most = tl.load(settings + 3), tl.load(settings + 4), tl.load(settings + 5)
    ratio = most.to(tl.float32) / (gradient_norm(grads, N, BN) + EPSILON)
    ratio = tl.where(ratio > 1.0, 1.0, ratio)  # a norm that is not a number makes all gradients so
    count = tl.load(steps)
    correction_1, correction_2 = correction(beta_1, count), tl.sqrt_rn(correction(beta_2, count))
    o_n = tl.program_id(0) * BN + tl.arange(0, BN)
    m_n = o_n < N
    b_p = tl.zeros([BN], tl.float32)
    for i in tl.static_range(COUNT):
        start, end = tl.load(starts + i), tl.load(starts + i + 1)
        b_p += tl.load(pointers[i] + (o_n - start), mask=(o_n >= start) & (o_n < end), other=0.0)
    b_g = tl.load(grads + o_n, mask=m_n, other=0.0) * ratio
    b_m = tl.load(average + o_n, mask=m_n, other=0.0)
    b_v = tl.load(square + o_n, mask=m_n, other=0.0)
    b_m += (1.0 - beta_1).to(tl.float32) * (b_g - b_m)
    b_v = beta_2.to(tl.float32) * b_v + (1.0 - beta_2).to(tl.float32) * b_g * b_g
    b_d = tl.sqrt(b_v) / correction_2 + epsilon.to(tl.float32)
    b_p = b_p * (1.0 - rate * decay).to(tl.float32) - (rate.to(tl.float32) / correction_1) * (b_m / b_d)
    tl.store(clipped + o_n, b_g, mask=m_n)
    tl.store(average + o_n, b_m, mask=m_n)
    tl.store(square + o_n, b_v, mask=m_n)
    for i in tl.static_range(COUNT):
        start, end = tl.load(starts + i), tl.load(starts + i + 1)
        tl.store(pointers[i] + (o_n - start), b_p, mask=(o_n >= start) & (o_n < end))
