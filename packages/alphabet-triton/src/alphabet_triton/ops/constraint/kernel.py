"""`Frame.rebase` of both frames in two kernels, some rows of one frame per program.

A row r of a base moves to r exp(S), S = scale (X - X^T), X the tangent with columns of zero beside it. Rows do not
meet: each program adds the Taylor series of its own rows, r + r S + r S^2 / 2 + ..., in as many substeps as S is
large, and reads S from the tangent. Then one Newton-Schulz step, for which all rows must be there:
r - (r M^T - e) M / 2, where e is the row of the identity.

Products are in float32 proper ("ieee"): with tf32x3 the columns would be as far from orthonormal as its rounding.
"""

import triton
import triton.language as tl
from alphabet_core.fused import TANGENT_SCALE

from alphabet_triton.launching import KERNEL

SCALE = tl.constexpr(TANGENT_SCALE)
# Terms of a substep, whose S has a norm of at most a half: what is left out is below .5^9 / 9! = 6e-9.
# Substeps beyond the most would be rotations by hundreds of turns.
TERMS = tl.constexpr(8)
MOST_SUBSTEPS = tl.constexpr(1024)


@triton.jit
def load_skew(tangent, o_i, o_j, D, N):
    """Entries (o_i, o_j) of X - X^T for a tangent X (D, N), zero outside of (D, D)."""
    m_d = (o_i < D)[:, None] & (o_j < D)[None, :]
    b_x = tl.load(tangent + o_i[:, None] * N + o_j[None, :], mask=m_d & (o_j < N)[None, :], other=0.0)
    return b_x - tl.load(tangent + o_j[None, :] * N + o_i[:, None], mask=m_d & (o_i < N)[:, None], other=0.0)


@triton.jit
def count_substeps(tangent, D, N, BC: tl.constexpr):
    """The number of equal substeps that leave S a Frobenius norm of at most a half; that of S is at most twice X's."""
    b_sum = tl.zeros([BC], tl.float32)
    for start in range(0, D * N, BC):
        o_x = start + tl.arange(0, BC)
        b_x = tl.load(tangent + o_x, mask=o_x < D * N, other=0.0)
        b_sum += b_x * b_x
    bound = 4.0 * SCALE * tl.sqrt(tl.sum(b_sum))
    bound = tl.where(bound < MOST_SUBSTEPS, bound, 0.0)  # of what is larger, or not a number, nothing comes anyway
    return tl.ceil(bound).to(tl.int32)


@triton.jit
def copy_rows(source, target, o_r, D, BC: tl.constexpr):
    """Copy rows of (D, D)."""
    for c in range(0, D, BC):
        o_c = c + tl.arange(0, BC)
        m_c = (o_r < D)[:, None] & (o_c < D)[None, :]
        p_c = o_r[:, None] * D + o_c[None, :]
        tl.store(target + p_c, tl.load(source + p_c, mask=m_c, other=0.0), mask=m_c)


@triton.jit
def choose_rows(base, tangent, base_2, tangent_2, moved, term, D, BR: tl.constexpr):
    """The base, tangent, moved base and scratch of a program's frame, and its rows."""
    blocks = tl.cdiv(D, BR)
    i_f, i_r = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    if i_f == 1:
        base, tangent = base_2, tangent_2
    return base, tangent, moved + i_f * D * D, term + i_f * 2 * D * D, i_r * BR + tl.arange(0, BR)


@triton.jit
def load_block(matrix, o_i, o_j, D):
    """Entries (o_i, o_j) of a matrix (D, D), zero outside of it."""
    return tl.load(matrix + o_i * D + o_j, mask=(o_i < D) & (o_j < D), other=0.0)


@triton.jit(**KERNEL)
def turn_kernel(
    base, tangent, base_2, tangent_2, moved, term, D, N, BR: tl.constexpr, BC: tl.constexpr
):  # fmt: skip
    """Bases (D, D) and tangents (D, N) of two frames to moved (2, D, D) = base exp(S); term (2, 2, D, D) is scratch."""
    base, tangent, p_moved, p_term, o_r = choose_rows(base, tangent, base_2, tangent_2, moved, term, D, BR)
    substeps = tl.maximum(count_substeps(tangent, D, N, BR * BC), 1)
    copy_rows(base, p_moved, o_r, D, BC)
    for _ in range(substeps):
        tl.debug_barrier()
        copy_rows(p_moved, p_term, o_r, D, BC)
        for k in range(TERMS):
            tl.debug_barrier()
            p_in, p_out = p_term + k % 2 * D * D, p_term + (1 - k % 2) * D * D
            unit = SCALE / (substeps * (k + 1)).to(tl.float32)
            for c in range(0, D, BC):
                o_c = c + tl.arange(0, BC)
                m_c = (o_r < D)[:, None] & (o_c < D)[None, :]
                b_t = tl.zeros([BR, BC], tl.float32)
                for j in range(0, D, BC):
                    o_j = j + tl.arange(0, BC)
                    b_in = load_block(p_in, o_r[:, None], o_j[None, :], D)
                    b_t += tl.dot(b_in, load_skew(tangent, o_j, o_c, D, N), input_precision="ieee")
                b_t *= unit
                p_c = o_r[:, None] * D + o_c[None, :]
                tl.store(p_out + p_c, b_t, mask=m_c)
                b_m = tl.load(p_moved + p_c, mask=m_c, other=0.0)
                tl.store(p_moved + p_c, b_m + b_t, mask=m_c)


@triton.jit(**KERNEL)
def orthonormalize_kernel(
    base, tangent, base_2, tangent_2, moved, term, D, N, BR: tl.constexpr, BC: tl.constexpr
):  # fmt: skip
    """Bases from moved (2, D, D) by one Newton-Schulz step, and tangents (D, N) to zero; term is scratch."""
    base, tangent, p_moved, p_term, o_r = choose_rows(base, tangent, base_2, tangent_2, moved, term, D, BR)
    m_r = o_r < D
    for c in range(0, D, BC):
        o_c = c + tl.arange(0, BC)
        b_p = tl.zeros([BR, BC], tl.float32)
        for j in range(0, D, BC):
            o_j = j + tl.arange(0, BC)
            b_r = load_block(p_moved, o_r[:, None], o_j[None, :], D)
            b_m = load_block(p_moved, o_c[None, :], o_j[:, None], D)
            b_p += tl.dot(b_r, b_m, input_precision="ieee")
        b_p -= (o_r[:, None] == o_c[None, :]).to(tl.float32)
        tl.store(p_term + o_r[:, None] * D + o_c[None, :], b_p, mask=m_r[:, None] & (o_c < D)[None, :])
    tl.debug_barrier()
    for c in range(0, D, BC):
        o_c = c + tl.arange(0, BC)
        m_c = m_r[:, None] & (o_c < D)[None, :]
        b_x = tl.zeros([BR, BC], tl.float32)
        for j in range(0, D, BC):
            o_j = j + tl.arange(0, BC)
            b_p = load_block(p_term, o_r[:, None], o_j[None, :], D)
            b_m = load_block(p_moved, o_j[:, None], o_c[None, :], D)
            b_x += tl.dot(b_p, b_m, input_precision="ieee")
        p_c = o_r[:, None] * D + o_c[None, :]
        b_r = tl.load(p_moved + p_c, mask=m_c, other=0.0)
        tl.store(base + p_c, b_r - 0.5 * b_x, mask=m_c)
        m_x = m_r[:, None] & (o_c < N)[None, :]
        tl.store(tangent + o_r[:, None] * N + o_c[None, :], tl.zeros([BR, BC], tl.float32), mask=m_x)
