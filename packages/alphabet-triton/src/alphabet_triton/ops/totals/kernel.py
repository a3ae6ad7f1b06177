"""All sums over programs and sequences of a step in one kernel, each in an order that does not change.

A program adds up some columns of one of six sources, in pairs of float32. What is a parameter's gradient is written to
its place; the rest goes to the backward of the fold.
"""

import triton
import triton.language as tl
from alphabet_core.fused import MOMENTS

from alphabet_triton.launching import KERNEL
from alphabet_triton.ops.lift.kernel import TAPS
from alphabet_triton.ops.pairs.kernel import add_to_pair, close_pair

COORDINATES = tl.constexpr(2 * MOMENTS)  # of a mode, in the descriptor


@triton.jit
def sum_rows(source, o_n, m_n, P, w, BP: tl.constexpr, BN: tl.constexpr):
    """The sum over all rows of source (P, w), of some columns."""
    b_sum, b_rest = tl.zeros([BP, BN], tl.float32), tl.zeros([BP, BN], tl.float32)
    for start in range(0, P, BP):
        o_p = start + tl.arange(0, BP)
        p_row = source + o_p[:, None].to(tl.int64) * w + o_n[None, :]
        b_x = tl.load(p_row, mask=(o_p < P)[:, None] & m_n[None, :], other=0.0)
        b_sum, b_rest = add_to_pair(b_sum, b_rest, b_x)
    return close_pair(b_sum, b_rest, 0)


@triton.jit
def store_lift(b_x, o_n, m_n, d_taps, d_bias, w):
    """Store the columns of rows (D, w) that are a lift's: its taps (D, 5), then its bias."""
    o_d, o_w = o_n // w, o_n % w
    tl.store(d_taps + o_d * TAPS + o_w, b_x, mask=m_n & (o_w < TAPS))
    tl.store(d_bias + o_d, b_x, mask=m_n & (o_w == TAPS))


@triton.jit
def store_head(d_logits, descriptor, d_head, d_head_bias, o_n, B, M, K, BP: tl.constexpr, BN: tl.constexpr):
    """Some columns of d_head (K, 14 M) = d_logits^T descriptor, with d_head_bias as one more."""
    w = COORDINATES * M + 1
    o_k, o_x = o_n // w, o_n % w
    m_n = o_k < K
    m_x = m_n & (o_x < w - 1)
    b_sum, b_rest = tl.zeros([BP, BN], tl.float32), tl.zeros([BP, BN], tl.float32)
    for start in range(0, B, BP):
        o_b = (start + tl.arange(0, BP))[:, None].to(tl.int64)
        b_d = tl.load(d_logits + o_b * K + o_k[None, :], mask=(o_b < B) & m_n[None, :], other=0.0)
        b_x = tl.load(descriptor + o_b * (w - 1) + o_x[None, :], mask=(o_b < B) & m_x[None, :], other=1.0)
        b_sum, b_rest = add_to_pair(b_sum, b_rest, b_d * b_x)
    b_total = close_pair(b_sum, b_rest, 0)
    tl.store(d_head + o_k * (w - 1) + o_x, b_total, mask=m_x)
    tl.store(d_head_bias + o_k, b_total, mask=m_n & (o_x == w - 1))


@triton.jit
def store_loss(losses, loss, steps, B, L, BN: tl.constexpr):
    """The mean of losses (B,), and one added to each of L counts of steps."""
    b_sum, b_rest = tl.zeros([BN], tl.float32), tl.zeros([BN], tl.float32)
    for start in range(0, B, BN):
        o_b = start + tl.arange(0, BN)
        b_sum, b_rest = add_to_pair(b_sum, b_rest, tl.load(losses + o_b, mask=o_b < B, other=0.0))
    tl.store(loss, close_pair(b_sum, b_rest, 0) / B)
    for start in range(0, L, BN):
        o_l = start + tl.arange(0, BN)
        b_l = tl.load(steps + o_l, mask=o_l < L, other=0.0)
        tl.debug_barrier()  # several threads read the same count
        tl.store(steps + o_l, b_l + 1.0, mask=o_l < L)


@triton.jit(**KERNEL)
def totals_kernel(
    edge_rows, reader_rows, products, d_transition, d_transition_2, d_logits, descriptor, losses,
    d_project, d_taps, d_bias, d_taps_2, d_bias_2, d_head, d_head_bias, d_through, d_matrices, d_transitions,
    loss, steps, P, R, B, C, D, M, K, L, BP: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """The sums of edge_rows (P, D, 6 + C), reader_rows (R, D, 7), products (3, B, 2M, D), transitions' (B, 2M), losses.

    To d_project, taps and biases of both lifts, the head's weight and bias by d_logits (B, K) and descriptor (B, 14 M),
    d_through (D,), d_matrices (3, 2M, D), d_transitions (2, 2M) and the mean loss; the step is counted in steps (L,).
    """
    i_p, o_s = tl.program_id(0), tl.arange(0, BN)
    edges, readers = tl.cdiv(D * (TAPS + 1 + C), BN), tl.cdiv(D * (TAPS + 2), BN)
    matrices, transitions = tl.cdiv(2 * M * D, BN), tl.cdiv(2 * M, BN)
    if i_p < edges:
        o_n = i_p * BN + o_s
        w = TAPS + 1 + C
        m_n = o_n < D * w
        b_x = sum_rows(edge_rows, o_n, m_n, P, D * w, BP, BN)
        store_lift(b_x, o_n, m_n, d_taps, d_bias, w)
        tl.store(d_project + o_n // w * C + (o_n % w - TAPS - 1), b_x, mask=m_n & (o_n % w > TAPS))
    elif i_p < edges + readers:
        o_n = (i_p - edges) * BN + o_s
        m_n = o_n < D * (TAPS + 2)
        b_x = sum_rows(reader_rows, o_n, m_n, R, D * (TAPS + 2), BP, BN)
        store_lift(b_x, o_n, m_n, d_taps_2, d_bias_2, TAPS + 2)
        tl.store(d_through + o_n // (TAPS + 2), b_x, mask=m_n & (o_n % (TAPS + 2) == TAPS + 1))
    elif i_p < edges + readers + 3 * matrices:
        i_x = i_p - edges - readers
        i_f, o_n = i_x // matrices, i_x % matrices * BN + o_s
        m_n, w = o_n < 2 * M * D, 2 * M * D
        b_x = sum_rows(products + i_f.to(tl.int64) * B * w, o_n, m_n, B, w, BP, BN)
        tl.store(d_matrices + i_f * w + o_n, b_x, mask=m_n)
    elif i_p < edges + readers + 3 * matrices + 2 * transitions:
        i_x = i_p - edges - readers - 3 * matrices
        i_f, o_n = i_x // transitions, i_x % transitions * BN + o_s
        m_n = o_n < 2 * M
        if i_f == 1:
            d_transition = d_transition_2
        b_x = sum_rows(d_transition, o_n, m_n, B, 2 * M, BP, BN)
        tl.store(d_transitions + i_f * 2 * M + o_n, b_x, mask=m_n)
    else:
        i_x = i_p - edges - readers - 3 * matrices - 2 * transitions
        if i_x == 0:
            store_loss(losses, loss, steps, B, L, BN)
        else:
            store_head(d_logits, descriptor, d_head, d_head_bias, (i_x - 1) * BN + o_s, B, M, K, BP, BN)
