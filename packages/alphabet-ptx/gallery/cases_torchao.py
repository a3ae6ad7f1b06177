"""torchao: products of integers and of 8-bit floats, quantization by blocks, sparse products."""

import torch
import triton
from case import EXACT, FP16, FP32, Compared, Source, compare, integers, normal
from torch import Tensor

TORCHAO = Source("torchao")
LARGEST = 448.0  # of fp8 with 4 bits of exponent
# Such a number has 4 bits: rounding costs half of the last, of a block's largest entry.
FP8 = 2.0**-4


def configuration() -> triton.Config:
    """One of those between which torchao's own tuner chooses by their times on a GPU."""
    return triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8}, num_stages=2, num_warps=4)


@TORCHAO.case("product of integers", EXACT)
def int_matmul() -> list[Compared]:
    from torchao.kernel.intmm_triton import int_matmul_kernel

    a, b = (integers(-100, 100, 64, 64, seed=seed, dtype=torch.int8) for seed in range(2))
    got = torch.empty(64, 64, dtype=torch.int32)
    int_matmul_kernel(a, b, got, configuration())
    return [Compared("product", got, a.double() @ b.double())]


@TORCHAO.case("product of integers with scales", FP32)
def int_scaled_matmul() -> list[Compared]:
    from torchao.kernel.intmm_triton import int_scaled_matmul_kernel

    a, b = (integers(-100, 100, 64, 64, seed=seed, dtype=torch.int8) for seed in range(2))
    scales, got = normal(64, 1, seed=2), torch.empty(64, 64)
    int_scaled_matmul_kernel(a, b, scales.expand(64, 64), got, configuration())
    return [Compared("product", got, (a.double() @ b.double()) * scales.double())]


@TORCHAO.case("product of integers with scales of rows and columns", FP32)
def scaled_int8_mm() -> list[Compared]:
    from torchao.prototype.quantized_training.int8_mm import scaled_int8_mm_cuda

    a, b = (integers(-100, 100, 48, 48, seed=seed, dtype=torch.int8) for seed in range(2))
    rows, columns = normal(48, seed=2), normal(48, seed=3)
    exact = (a.double() @ b.double()) * rows.double()[:, None] * columns.double()
    return [Compared("product", scaled_int8_mm_cuda(a, b, rows, columns), exact)]


def blocks(x: Tensor, rows: int, columns: int) -> Tensor:
    """The largest magnitude of each block, at each of its entries."""
    tiles = x.abs().reshape(x.shape[0] // rows, rows, x.shape[1] // columns, columns).amax((1, 3))
    return tiles.repeat_interleave(rows, 0).repeat_interleave(columns, 1)


@TORCHAO.case("quantization of rows by blocks", FP8)
def blockwise_act_quant() -> list[Compared]:
    from torchao.kernel.blockwise_quantization import fp8_blockwise_act_quant

    x = normal(4, 256)
    quantized, scale = fp8_blockwise_act_quant(x, 128)
    whole = blocks(x.double(), 1, 128)
    restored = quantized.double() * scale.double().repeat_interleave(128, 1)
    return [
        Compared("scale", scale, whole[:, ::128] / LARGEST),
        Compared("restored", restored / whole, x.double() / whole),
    ]


@TORCHAO.case("quantization of weights by blocks, and back", FP8)
def blockwise_weight_quant() -> list[Compared]:
    from torchao.kernel.blockwise_quantization import fp8_blockwise_weight_dequant, fp8_blockwise_weight_quant

    x = normal(128, 256)
    quantized, scale = fp8_blockwise_weight_quant(x, 128)
    whole = blocks(x.double(), 128, 128)
    restored = fp8_blockwise_weight_dequant(quantized, scale, 128)
    return [
        Compared("scale", scale, whole[::128, ::128] / LARGEST),
        Compared("restored", restored.double() / whole, x.double() / whole),
    ]


@TORCHAO.case("product of 8-bit floats by blocks", FP16)
def blockwise_gemm() -> list[Compared]:
    from torchao.kernel.blockwise_quantization import blockwise_fp8_gemm

    a, b = (normal(size, 128, seed=seed).to(torch.float8_e4m3fn) for seed, size in enumerate((16, 128)))
    a_scale, b_scale = normal(16, 1, seed=2).abs(), normal(1, 1, seed=3).abs()
    got = blockwise_fp8_gemm(a, a_scale, b, b_scale, 128)
    exact = (a.double() * a_scale.double()) @ (b.double() * b_scale.double()).T
    return [Compared("product", got, exact)]


# The ends of the rows are found behind the last element of a view of their beginnings.
@TORCHAO.case("sum with a product of a sparse matrix", FP16, bounds="storage")
def bsr_dense_addmm() -> list[Compared]:
    from torchao.kernel.bsr_triton_ops import bsr_dense_addmm as launcher

    whole = normal(64, 64, dtype=torch.float16)
    whole[:16, 16:48] = 0
    whole[32:, :32] = 0
    sparse = whole.to_sparse_bsr((16, 16))

    def launch(x: Tensor, y: Tensor) -> Tensor:
        return launcher(x, sparse, y)

    inputs = (normal(64, 32, seed=seed, dtype=torch.float16) for seed in (1, 2))
    return compare(launch, lambda x, y: x + whole.double() @ y, *inputs, gradients=False)


@TORCHAO.case("products of a training step in 8-bit floats by blocks", FP16)
def training_gemm() -> list[Compared]:
    from torchao.prototype.blockwise_fp8_training.kernels import triton_fp8_gemm_1x128_128x128

    a, b = (normal(size, 128, seed=seed).to(torch.float8_e4m3fn) for seed, size in enumerate((64, 128)))
    a_scale, b_scale = normal(1, 64, seed=2).abs().T, normal(1, 1, seed=3).abs()
    got = triton_fp8_gemm_1x128_128x128(a, b.T, a_scale, b_scale)
    exact = (a.double() * a_scale.double()) @ (b.double() * b_scale.double()).T
    return [Compared("product", got, exact)]
