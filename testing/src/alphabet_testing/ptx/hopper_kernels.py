"""Triton kernels that use what sm_90 has: products of warp groups, tensor descriptors."""
# ruff: noqa: N803  constants are upper case in Triton

import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a, b, c, K, sam, sak, sbk, sbn, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    """A product along K in steps, either operand in either order."""
    om, on, ok = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    p_a, p_b = a + om[:, None] * sam + ok[None, :] * sak, b + ok[:, None] * sbk + on[None, :] * sbn
    total = tl.zeros((M, N), tl.float32)
    for k in range(0, K, BK):
        b_a = tl.load(p_a + k * sak, mask=ok[None, :] < K - k, other=0.0)
        b_b = tl.load(p_b + k * sbk, mask=ok[:, None] < K - k, other=0.0)
        total = tl.dot(b_a, b_b, total)
    tl.store(c + om[:, None] * N + on[None, :], total)


@triton.jit
def dot_kernel(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, OUT: tl.constexpr):
    """One product, accumulated in a type of choice."""
    om, on, ok = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    product = tl.dot(tl.load(a + om[:, None] * K + ok), tl.load(b + ok[:, None] * N + on), out_dtype=OUT)
    tl.store(c + om[:, None] * N + on, product)


@triton.jit
def attention_kernel(q, k, v, out, T, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Two products in turn, the second with an operand in registers."""
    om, od, on = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D), tl.arange(0, BN)
    b_q = tl.load(q + om[:, None] * D + od)
    largest, weight = tl.full((BM,), -float("inf"), tl.float32), tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for s in range(0, T, BN):
        scores = tl.dot(b_q, tl.load(k + (s + on)[None, :] * D + od[:, None]))
        now = tl.maximum(largest, tl.max(scores, 1))
        p, decay = tl.exp(scores - now[:, None]), tl.exp(largest - now)
        weight = weight * decay + tl.sum(p, 1)
        b_v = tl.load(v + (s + on)[:, None] * D + od)
        total = tl.dot(p.to(b_v.dtype), b_v, total * decay[:, None])
        largest = now
    tl.store(out + om[:, None] * D + od, total / weight[:, None])


@triton.jit
def descriptor_matmul_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A product of descriptors that the kernel makes itself."""
    d_a = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    d_b = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    d_c = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(d_a.load([i, k]), d_b.load([k, j]), total)
    d_c.store([i, j], total.to(tl.float16))


@triton.jit
def passed_matmul_kernel(d_a, d_b, d_c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A product of descriptors that are passed, B transposed."""
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(d_a.load([i, k]), d_b.load([j, k]).T, total)
    d_c.store([i, j], total.to(tl.float16))


@triton.jit
def descriptor_copy_kernel(x, y, A, B, C, BA: tl.constexpr, BB: tl.constexpr, BC: tl.constexpr):
    """Boxes of three dimensions, one more in each element."""
    d_x = tl.make_tensor_descriptor(x, [A, B, C], [B * C, C, 1], [BA, BB, BC])
    d_y = tl.make_tensor_descriptor(y, [A, B, C], [B * C, C, 1], [BA, BB, BC])
    i, j = tl.program_id(0) * BA, tl.program_id(1) * BB
    for k in range(0, C, BC):
        d_y.store([i, j, k], d_x.load([i, j, k]) + 1)


@triton.jit
def descriptor_sum_kernel(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """All programs add the same block to y."""
    d_x = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BM, BN])
    d_y = tl.make_tensor_descriptor(y, [M, N], [N, 1], [BM, BN])
    d_y.atomic_add([0, 0], d_x.load([0, 0]))
