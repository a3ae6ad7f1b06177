"""Conditioning and the affine head, one sequence per program."""

import triton
import triton.language as tl

from alphabet_triton.launching import UNSPECIALIZED

COORDINATES = tl.constexpr(7)


@triton.jit
def log1p(b_x):
    """log(1 + x) for x >= 0 to float32's precision: the hardware's logarithm is only absolutely precise near one."""
    b_s = b_x / (2.0 + b_x)
    b_q = b_s * b_s
    b_near = 2.0 * b_s * (1.0 + b_q * (1 / 3 + b_q * (1 / 5 + b_q * (1 / 7 + b_q * (1 / 9 + b_q * (1 / 11))))))
    return tl.where(b_x < 0.5, b_near, tl.log(1.0 + b_x))


@triton.jit
def add_coordinate(b_total, b_x, p_weight, p_descriptor, m_w, m_n, coordinate: tl.constexpr, DESCRIBE: tl.constexpr):
    """One of a pole's seven coordinates, for all poles: its share of the logits, in float64."""
    if DESCRIBE:
        tl.store(p_descriptor + coordinate, b_x, mask=m_n)
    b_w = tl.load(p_weight + coordinate, mask=m_w, other=0.0).to(tl.float64)
    return b_total + tl.sum(b_w * b_x.to(tl.float64)[None, :], 1)


@triton.jit(do_not_specialize=UNSPECIALIZED)
def head_fwd_kernel(
    sums, counts, weight, bias, descriptor, logits, M, K, DESCRIBE: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """Sums (B, 2, 7, M) over counts (B, 4) to logits (B, K), and with DESCRIBE to the descriptor (B, 2, M, 7)."""
    i_k, i_b = tl.program_id(0), tl.program_id(1).to(tl.int64)
    o_n, o_k = tl.arange(0, BN), i_k * BK + tl.arange(0, BK)  # the poles of both banks, and outputs
    m_n, m_k = o_n < 2 * M, o_k < K
    m_w = m_k[:, None] & m_n[None, :]
    p_sums = sums + (i_b * 2 + o_n // M) * COORDINATES * M + o_n % M
    p_weight = weight + (o_k[:, None] * 2 * M + o_n[None, :]) * COORDINATES
    p_descriptor = descriptor + (i_b * 2 * M + o_n) * COORDINATES
    b_total = tl.load(bias + o_k, mask=m_k, other=0.0).to(tl.float64)
    n_0 = tl.maximum(tl.load(counts + i_b * 4), 1).to(tl.float64)
    b_energy = log1p((tl.load(p_sums, mask=m_n, other=0.0) / n_0).to(tl.float32))
    b_total = add_coordinate(b_total, b_energy, p_weight, p_descriptor, m_w, m_n, 0, DESCRIBE)
    for lag in tl.static_range(3):
        n_l = tl.maximum(tl.load(counts + i_b * 4 + 1 + lag), 1).to(tl.float64)
        b_re = (tl.load(p_sums + (1 + 2 * lag) * M, mask=m_n, other=0.0) / n_l).to(tl.float32)
        b_im = (tl.load(p_sums + (2 + 2 * lag) * M, mask=m_n, other=0.0) / n_l).to(tl.float32)
        # In units of the larger part no square overflows.
        b_most = tl.maximum(tl.abs(b_re), tl.abs(b_im))
        b_unit = tl.where(b_most > 0.0, b_most, 1.0)
        b_u, b_v = b_re / b_unit, b_im / b_unit
        b_radius = b_unit * tl.sqrt(b_u * b_u + b_v * b_v)
        b_ratio = tl.where(b_most > 0.0, log1p(b_radius) / tl.where(b_most > 0.0, b_radius, 1.0), 1.0)
        b_total = add_coordinate(b_total, b_re * b_ratio, p_weight, p_descriptor, m_w, m_n, 1 + 2 * lag, DESCRIBE)
        b_total = add_coordinate(b_total, b_im * b_ratio, p_weight, p_descriptor, m_w, m_n, 2 + 2 * lag, DESCRIBE)
    tl.store(logits + i_b * K + o_k, b_total.to(tl.float32), mask=m_k)
