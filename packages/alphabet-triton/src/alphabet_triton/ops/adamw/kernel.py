"""Gradient norm, clipping and AdamW in one kernel.

A model has a few thousand parameters, so every program finds the norm of the whole gradient for itself: it costs less
than a second launch, and is the same sum in the same order everywhere. (A million parameters would want that launch.)
"""

import triton
import triton.language as tl
from alphabet_core.fused import CLIP_EPSILON

from alphabet_triton.launching import KERNEL

EPSILON = tl.constexpr(CLIP_EPSILON)


@triton.jit(**KERNEL)
def adamw_kernel(moved, grads, clipped, average, square, step, settings, N, BN: tl.constexpr):
    """Update moved, average and square (N,) by grads (N,), clipped to the global norm settings[5] and stored so.

    settings, in float64: learning rate, both betas, epsilon, weight decay, clip norm. step counts from one.
    """
    o_n = tl.arange(0, BN)
    b_sum = tl.zeros([BN], tl.float64)
    for start in range(0, N, BN):
        b_g = tl.load(grads + start + o_n, mask=start + o_n < N, other=0.0).to(tl.float64)
        b_sum += b_g * b_g
    norm = tl.sqrt(tl.sum(b_sum))
    rate, beta_1, beta_2 = tl.load(settings), tl.load(settings + 1), tl.load(settings + 2)
    epsilon, decay, most = tl.load(settings + 3), tl.load(settings + 4), tl.load(settings + 5)
    ratio = most / (norm + EPSILON)
    ratio = tl.where(ratio > 1.0, 1.0, ratio).to(tl.float32)  # a norm that is not a number makes all gradients so
    steps = tl.load(step).to(tl.float64)
    correction_1 = 1.0 - tl.exp(steps * tl.log(beta_1))
    correction_2 = tl.sqrt(1.0 - tl.exp(steps * tl.log(beta_2)))
    o_n += tl.program_id(0) * BN
    m_n = o_n < N
    b_g = tl.load(grads + o_n, mask=m_n, other=0.0) * ratio
    b_m = tl.load(average + o_n, mask=m_n, other=0.0)
    b_v = tl.load(square + o_n, mask=m_n, other=0.0)
    b_p = tl.load(moved + o_n, mask=m_n, other=0.0)
    b_m += (1.0 - beta_1).to(tl.float32) * (b_g - b_m)
    b_v = beta_2.to(tl.float32) * b_v + (1.0 - beta_2).to(tl.float32) * b_g * b_g
    b_d = tl.sqrt(b_v) / correction_2.to(tl.float32) + epsilon.to(tl.float32)
    b_p = b_p * (1.0 - rate * decay).to(tl.float32) - (rate / correction_1).to(tl.float32) * (b_m / b_d)
    tl.store(clipped + o_n, b_g, mask=m_n)
    tl.store(average + o_n, b_m, mask=m_n)
    tl.store(square + o_n, b_v, mask=m_n)
    tl.store(moved + o_n, b_p, mask=m_n)
