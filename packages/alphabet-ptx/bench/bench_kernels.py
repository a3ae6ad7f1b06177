"""Triton kernels of the kinds that packages publish, written for the benchmark: what a test suite launches."""
# ruff: noqa: D103, N803  names say what kernels compute; constants are upper case in Triton

import triton
import triton.language as tl
from alphabet_testing.ptx.kernels import affine_pair


@triton.jit
def layer_norm_kernel(x, w, b, out, mean, rstd, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        o = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * columns + o, mask=o < columns, other=0.0)
    b_mean = tl.sum(total, axis=0) / columns
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        o = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * columns + o, mask=o < columns, other=0.0)
        v = tl.where(o < columns, v - b_mean, 0.0)
        total += v * v
    b_rstd = 1 / tl.sqrt(tl.sum(total, axis=0) / columns + eps)
    tl.store(mean + row, b_mean)
    tl.store(rstd + row, b_rstd)
    for start in range(0, columns, BLOCK):
        o = start + tl.arange(0, BLOCK)
        m = o < columns
        v = (tl.load(x + row * columns + o, mask=m, other=0.0) - b_mean) * b_rstd
        tl.store(out + row * columns + o, v * tl.load(w + o, mask=m) + tl.load(b + o, mask=m), mask=m)


@triton.jit
def layer_norm_backward_kernel(
    dy, x, w, mean, rstd, dx, dw, db, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """A program takes ROWS rows and leaves its part of the weights' gradients."""
    program = tl.program_id(0)
    o = tl.arange(0, BLOCK)
    m = o < columns
    b_w = tl.load(w + o, mask=m, other=0.0)
    b_dw = tl.zeros((BLOCK,), tl.float32)
    b_db = tl.zeros((BLOCK,), tl.float32)
    for i in range(ROWS):
        row = program * ROWS + i
        if row < rows:
            b_x = tl.load(x + row * columns + o, mask=m, other=0.0)
            b_dy = tl.load(dy + row * columns + o, mask=m, other=0.0)
            b_rstd = tl.load(rstd + row)
            normed = tl.where(m, (b_x - tl.load(mean + row)) * b_rstd, 0.0)
            weighted = b_w * b_dy
            first = tl.sum(normed * weighted, axis=0) / columns
            second = tl.sum(weighted, axis=0) / columns
            tl.store(dx + row * columns + o, (weighted - (normed * first + second)) * b_rstd, mask=m)
            b_dw += b_dy * normed
            b_db += b_dy
    tl.store(dw + program * columns + o, b_dw, mask=m)
    tl.store(db + program * columns + o, b_db, mask=m)


@triton.jit
def cross_entropy_kernel(x, target, loss, dx, columns, BLOCK: tl.constexpr):
    """The loss of a row and its gradient, in two passes over the row."""
    row = tl.program_id(0)
    b_target = tl.load(target + row)
    b_max = -float("inf")
    b_sum = 0.0
    for start in range(0, columns, BLOCK):
        o = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * columns + o, mask=o < columns, other=-float("inf"))
        largest = tl.maximum(b_max, tl.max(v, axis=0))
        b_sum = b_sum * tl.exp(b_max - largest) + tl.sum(tl.exp(v - largest), axis=0)
        b_max = largest
    for start in range(0, columns, BLOCK):
        o = start + tl.arange(0, BLOCK)
        m = o < columns
        p = tl.exp(tl.load(x + row * columns + o, mask=m, other=-float("inf")) - b_max) / b_sum
        tl.store(dx + row * columns + o, tl.where(o == b_target, p - 1.0, p), mask=m)
    tl.store(loss + row, b_max + tl.log(b_sum) - tl.load(x + row * columns + b_target))


@triton.jit
def matmul_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The tutorials' product with masks along K; programs in groups of rows are left out."""
    o_m = tl.program_id(0) * BM + tl.arange(0, BM)
    o_n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        o_k = start + tl.arange(0, BK)
        b_a = tl.load(a + o_m[:, None] * K + o_k[None, :], mask=o_k[None, :] < K, other=0.0)
        b_b = tl.load(b + o_k[:, None] * N + o_n[None, :], mask=o_k[:, None] < K, other=0.0)
        total = tl.dot(b_a, b_b, total)
    tl.store(c + o_m[:, None] * N + o_n[None, :], total, mask=(o_m[:, None] < M) & (o_n[None, :] < N))


@triton.jit
def split_matmul_kernel(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Split along K: programs add their parts by atomics."""
    o_m = tl.program_id(0) * BM + tl.arange(0, BM)
    o_n = tl.program_id(1) * BN + tl.arange(0, BN)
    o_k = tl.program_id(2) * BK + tl.arange(0, BK)
    b_a = tl.load(a + o_m[:, None] * K + o_k[None, :])
    b_b = tl.load(b + o_k[:, None] * N + o_n[None, :])
    tl.atomic_add(c + o_m[:, None] * N + o_n[None, :], tl.dot(b_a, b_b), sem="relaxed")


@triton.jit
def attention_kernel(q, k, v, out, lse, T, scale, BT: tl.constexpr, BS: tl.constexpr, D: tl.constexpr):
    """Causal attention of one block of queries, (head, T, D), with a running maximum."""
    head = tl.program_id(1)
    o_t = tl.program_id(0) * BT + tl.arange(0, BT)
    o_d = tl.arange(0, D)
    m_t = o_t < T
    base = head * T * D
    b_q = tl.load(q + base + o_t[:, None] * D + o_d[None, :], mask=m_t[:, None], other=0.0)
    b_max = tl.full((BT,), -float("inf"), tl.float32)
    b_sum = tl.zeros((BT,), tl.float32)
    total = tl.zeros((BT, D), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BT, BS):
        o_s = start + tl.arange(0, BS)
        m_s = o_s < T
        b_k = tl.load(k + base + o_s[None, :] * D + o_d[:, None], mask=m_s[None, :], other=0.0)
        b_v = tl.load(v + base + o_s[:, None] * D + o_d[None, :], mask=m_s[:, None], other=0.0)
        score = tl.dot(b_q, b_k) * scale
        score = tl.where((o_t[:, None] >= o_s[None, :]) & m_s[None, :], score, -float("inf"))
        largest = tl.maximum(b_max, tl.max(score, axis=1))
        p = tl.exp(score - largest[:, None])
        fade = tl.exp(b_max - largest)
        b_sum = b_sum * fade + tl.sum(p, axis=1)
        total = total * fade[:, None] + tl.dot(p.to(b_v.dtype), b_v)
        b_max = largest
    tl.store(out + base + o_t[:, None] * D + o_d[None, :], total / b_sum[:, None], mask=m_t[:, None])
    tl.store(lse + head * T + o_t, b_max + tl.log(b_sum), mask=m_t)


@triton.jit
def sort_kernel(x, out, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + o, tl.sort(tl.load(x + o)))


@triton.jit
def topk_kernel(x, out, BLOCK: tl.constexpr, COUNT: tl.constexpr):
    row = tl.program_id(0)
    v = tl.load(x + row * BLOCK + tl.arange(0, BLOCK))
    tl.store(out + row * COUNT + tl.arange(0, COUNT), tl.topk(v, COUNT))


@triton.jit
def cumsum_kernel(x, out, T, BT: tl.constexpr, BD: tl.constexpr):
    """Sums along T of (program, T, BD), block by block with a carry."""
    o_d = tl.arange(0, BD)
    carry = tl.zeros((BD,), tl.float32)
    for start in range(0, T, BT):
        o_t = start + tl.arange(0, BT)
        m = (o_t < T)[:, None]
        p = tl.program_id(0) * T * BD + o_t[:, None] * BD + o_d[None, :]
        v = tl.load(x + p, mask=m, other=0.0)
        tl.store(out + p, tl.cumsum(v, axis=0) + carry[None, :], mask=m)
        carry += tl.sum(v, axis=0)


@triton.jit
def complex_scan_kernel(ar, ai, br, bi, hr, hi, T, M: tl.constexpr, BT: tl.constexpr):
    """h[t] = a h[t-1] + b[t] in complex numbers along T of (program, M, T), block by block with a carry."""
    o_m = tl.arange(0, M)
    carry_r = tl.zeros((M,), tl.float32)
    carry_i = tl.zeros((M,), tl.float32)
    pole_r = tl.load(ar + o_m)[:, None]
    pole_i = tl.load(ai + o_m)[:, None]
    last = (tl.arange(0, BT) == BT - 1)[None, :]
    first = (tl.arange(0, BT) == 0)[None, :]
    for start in range(0, T, BT):
        o_t = start + tl.arange(0, BT)
        m = (o_t < T)[None, :]
        p = tl.program_id(0) * M * T + o_m[:, None] * T + o_t[None, :]
        b_r = tl.load(br + p, mask=m, other=0.0)
        b_i = tl.load(bi + p, mask=m, other=0.0)
        b_r += tl.where(first, pole_r * carry_r[:, None] - pole_i * carry_i[:, None], 0.0)
        b_i += tl.where(first, pole_r * carry_i[:, None] + pole_i * carry_r[:, None], 0.0)
        zero = tl.zeros_like(b_r)
        _, _, h_r, h_i = tl.associative_scan((pole_r + zero, pole_i + zero, b_r, b_i), 1, affine_pair)
        tl.store(hr + p, h_r, mask=m)
        tl.store(hi + p, h_i, mask=m)
        carry_r = tl.sum(tl.where(last, h_r, 0.0), axis=1)
        carry_i = tl.sum(tl.where(last, h_i, 0.0), axis=1)


@triton.jit
def state_update_kernel(state, x, dt, A, B, C, D, out, dim, BD: tl.constexpr, N: tl.constexpr):
    """One step of a selective state-space layer: (batch, dim, N) states, softplus of dt."""
    batch = tl.program_id(1)
    o_d = tl.program_id(0) * BD + tl.arange(0, BD)
    o_n = tl.arange(0, N)
    m = o_d < dim
    step = tl.load(dt + batch * dim + o_d, mask=m, other=0.0)
    step = tl.where(step <= 20.0, tl.log(1 + tl.exp(step)), step)
    b_x = tl.load(x + batch * dim + o_d, mask=m, other=0.0)
    p_state = state + batch * dim * N + o_d[:, None] * N + o_n[None, :]
    b_state = tl.load(p_state, mask=m[:, None], other=0.0)
    decay = tl.exp(tl.load(A + o_d[:, None] * N + o_n[None, :], mask=m[:, None], other=0.0) * step[:, None])
    drive = tl.load(B + batch * N + o_n)[None, :] * step[:, None]
    b_state = b_state * decay + drive * b_x[:, None]
    tl.store(p_state, b_state, mask=m[:, None])
    y = tl.sum(b_state * tl.load(C + batch * N + o_n)[None, :], axis=1)
    tl.store(out + batch * dim + o_d, y + b_x * tl.load(D + o_d, mask=m, other=0.0), mask=m)


@triton.jit
def chunk_scan_kernel(x, dt, decay, B, C, states, out, T, BT: tl.constexpr, P: tl.constexpr, N: tl.constexpr):
    """One chunk of a head of SSD: what comes from the state before it, and what from the chunk itself."""
    chunk, head = tl.program_id(0), tl.program_id(1)
    chunks = tl.num_programs(0)
    o_t = chunk * BT + tl.arange(0, BT)
    o_p = tl.arange(0, P)
    o_n = tl.arange(0, N)
    m = o_t < T
    fade = tl.cumsum(tl.load(decay + head * T + o_t, mask=m, other=0.0), axis=0)
    b_c = tl.load(C + o_t[:, None] * N + o_n[None, :], mask=m[:, None], other=0.0)
    b_b = tl.load(B + o_t[None, :] * N + o_n[:, None], mask=m[None, :], other=0.0)
    b_x = tl.load(x + head * T * P + o_t[:, None] * P + o_p[None, :], mask=m[:, None], other=0.0)
    b_dt = tl.load(dt + head * T + o_t, mask=m, other=0.0)
    b_state = tl.load(states + (head * chunks + chunk) * N * P + o_n[:, None] * P + o_p[None, :])
    y = tl.dot(b_c, b_state) * tl.exp(fade)[:, None]
    score = tl.dot(b_c, b_b) * tl.exp(fade[:, None] - fade[None, :]) * b_dt[None, :]
    score = tl.where(tl.arange(0, BT)[:, None] >= tl.arange(0, BT)[None, :], score, 0.0)
    y += tl.dot(score, b_x)
    tl.store(out + head * T * P + o_t[:, None] * P + o_p[None, :], y, mask=m[:, None])


@triton.jit
def rope_kernel(q, cos, sin, out, T, heads, H: tl.constexpr, HALF: tl.constexpr):
    """Rotary embedding of all heads of one token."""
    token = tl.program_id(0)
    o_h = tl.arange(0, H)
    o = tl.arange(0, HALF)
    c = tl.load(cos + (token % T) * HALF + o)[None, :]
    s = tl.load(sin + (token % T) * HALF + o)[None, :]
    p = token * heads * 2 * HALF + o_h[:, None] * 2 * HALF + o[None, :]
    m = (o_h < heads)[:, None]
    first = tl.load(q + p, mask=m, other=0.0).to(tl.float32)
    second = tl.load(q + p + HALF, mask=m, other=0.0).to(tl.float32)
    tl.store(out + p, (first * c - second * s).to(tl.float16), mask=m)
    tl.store(out + p + HALF, (second * c + first * s).to(tl.float16), mask=m)


@triton.jit
def gelu_kernel(x, y, out, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = o < n
    v = tl.load(x + o, mask=m, other=0.0)
    g = 0.5 * v * (1 + tl.erf(v * 0.7071067811865476))
    tl.store(out + o, g * tl.load(y + o, mask=m, other=0.0), mask=m)


@triton.jit
def histogram_kernel(x, bins, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = o < n
    v = tl.load(x + o, mask=m, other=0.0)
    tl.atomic_add(bins + (tl.abs(v) * 8.0).to(tl.int32) % 32, 1, mask=m)
