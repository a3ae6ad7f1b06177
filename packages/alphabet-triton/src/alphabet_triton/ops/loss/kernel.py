"""Losses as in `alphabet_core.LOSSES`, and their gradients down to the moment sums; a sequence per program.

With e the exponentials of the logits less the largest of them, and y the target:

    cross entropy   log(sum e) - log(e[y])                   gradient e / sum e - one at y
    multilabel      max(x, 0) - x y + log(1 + exp(-|x|))     gradient sigma(x) - y, each over K
    mse             (x - y)^2                                gradient 2 (x - y), each over K

Gradients are divided by the batch. Every program finds those of its sequence for itself and keeps them in a row of its
own, which it reads again for each of its coordinates.
"""

import triton
import triton.language as tl

from alphabet_triton.launching import KERNEL
from alphabet_triton.ops.head.backward import store_sum_gradients
from alphabet_triton.ops.head.kernel import log1p


@triton.jit
def measure_class(p_logits, p_d, target, share, K, BS: tl.constexpr):
    """The cross entropy of a sequence's logits (K,); `share` times its gradient is stored to p_d.

    A target that is not a class makes both NaN.
    """
    most = float("-inf")
    for start in range(0, K, BS):
        o_k = start + tl.arange(0, BS)
        most = tl.maximum(most, tl.max(tl.load(p_logits + o_k, mask=o_k < K, other=float("-inf"))))
    b_sum = tl.zeros([BS], tl.float32)
    for start in range(0, K, BS):
        o_k = start + tl.arange(0, BS)
        b_x = tl.load(p_logits + o_k, mask=o_k < K, other=float("-inf"))
        b_sum += tl.exp(b_x - most)
    total = tl.sum(b_sum)
    known = (target >= 0) & (target < K)
    chosen = tl.load(p_logits + target, mask=known, other=float("nan"))
    nan = chosen * 0.0
    for start in range(0, K, BS):
        o_k = start + tl.arange(0, BS)
        b_x = tl.load(p_logits + o_k, mask=o_k < K, other=float("-inf"))
        b_d = tl.div_rn(tl.exp(b_x - most), total + tl.zeros([BS], tl.float32)) - (o_k == target).to(tl.float32)
        tl.store(p_d + o_k, share * b_d + nan, mask=o_k < K)
    return log1p(tl.maximum(total - 1.0, 0.0)) + (most - chosen)


@triton.jit
def measure_numbers(p_logits, p_targets, p_d, share, K, SQUARED: tl.constexpr, BS: tl.constexpr):
    """The mean over K of a sequence's losses, squared or multilabel; `share` / K times their gradients go to p_d."""
    b_sum = tl.zeros([BS], tl.float32)
    for start in range(0, K, BS):
        o_k = start + tl.arange(0, BS)
        m_k = o_k < K
        b_x, b_y = tl.load(p_logits + o_k, mask=m_k, other=0.0), tl.load(p_targets + o_k, mask=m_k, other=0.0)
        if SQUARED:
            b_loss, b_d = (b_x - b_y) * (b_x - b_y), 2.0 * (b_x - b_y)
        else:
            b_loss = tl.maximum(b_x, 0.0) - b_x * b_y + log1p(tl.exp(-tl.abs(b_x)))
            b_d = tl.sigmoid(b_x) - b_y
        b_sum += tl.where(m_k, b_loss, 0.0)
        tl.store(p_d + o_k, share / K * b_d, mask=m_k)
    return tl.sum(b_sum) / K


@triton.jit(**KERNEL)
def loss_kernel(
    logits, targets, sums, sums_2, counts, weight, losses, d_logits, d_sums, d_sums_2, B, M, K,
    CLASSES: tl.constexpr, SQUARED: tl.constexpr, BS: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Logits (B, K) and targets, classes (B,) or numbers (B, K), to losses (B,), d_logits (.., B, K) and d_sums.

    d_sums and d_sums_2 (B, 7, M) are the gradients of either bank's sums; of d_logits every part of the poles has its
    own, all alike.
    """
    i_b, i_n = tl.program_id(0).to(tl.int64), tl.program_id(1)
    share = 1.0 / B.to(tl.float32)
    p_logits, p_d = logits + i_b * K, d_logits + (i_n * B + i_b) * K
    if CLASSES:
        loss = measure_class(p_logits, p_d, tl.load(targets + i_b), share, K, BS)
    else:
        loss = measure_numbers(p_logits, targets + i_b * K, p_d, share, K, SQUARED, BS)
    if i_n == 0:
        tl.store(losses + i_b, loss)
    tl.debug_barrier()
    store_sum_gradients(sums, sums_2, counts, weight, p_d, d_sums, d_sums_2, i_b, i_n, M, K, BN, BK)
