"""xformers: norms, indexing, rotary embedding with a cache, products of tiles, and attention over split keys."""

import sys

import torch
import torch.nn.functional as F
from case import FP16, FP32, TF32, Compared, Source, compare, normal
from torch import Tensor

XFORMERS = Source("xformers")
# xformers takes flash-attn for usable where it is found, and here it is installed without its CUDA code.
sys.modules.setdefault("flash_attn", None)  # type: ignore[arg-type]


@XFORMERS.case("RMS norm", FP32)
def rms_norm() -> list[Compared]:
    from xformers.ops.rmsnorm import rms_norm as launcher

    return compare(
        lambda x, w: launcher(x, w, 1e-5),
        lambda x, w: F.rms_norm(x, (70,), w, 1e-5),
        normal(6, 70),
        normal(70, seed=1),
        gradients=False,
    )


@XFORMERS.case("sum and RMS norm", FP32)
def rms_norm_add() -> list[Compared]:
    from xformers.ops.rmsnorm import rms_norm_add as launcher

    def launch(x: Tensor, y: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        result = launcher(x, y, w, 1e-5)
        return result, x  # which holds the sum now

    return compare(
        launch,
        lambda x, y, w: (F.rms_norm(x + y, (70,), w, 1e-5), x + y),
        normal(6, 70),
        normal(6, 70, seed=1),
        normal(70, seed=2),
        gradients=False,
    )


@XFORMERS.case("rows chosen from several sources", FP32)
def index_select_cat() -> list[Compared]:
    from xformers.ops.indexing import index_select_cat as launcher

    rows = [torch.tensor([4, 0, 7]), torch.tensor([1, 2, 5, 3])]

    def definition(*sources: Tensor) -> Tensor:
        return torch.cat([source[row].flatten() for source, row in zip(sources, rows, strict=True)])

    return compare(lambda *sources: launcher(sources, rows), definition, normal(8, 40), normal(6, 24, seed=1))


@XFORMERS.case("scaled sum into chosen rows", FP32)
def scaled_index_add() -> list[Compared]:
    from xformers.ops.indexing import scaled_index_add as launcher

    rows = torch.tensor([4, 0, 3])

    def definition(x: Tensor, source: Tensor, scale: Tensor) -> Tensor:
        return x.index_add(0, rows, source * scale, alpha=1.5)

    return compare(
        lambda x, source, scale: launcher(x * 1, rows, source, scale, 1.5),
        definition,
        normal(5, 6, 40),
        normal(3, 6, 40, seed=1),
        normal(40, seed=2),
    )


@XFORMERS.case("rotary embedding into a cache", FP32)
def rope_padded() -> list[Compared]:
    from xformers.ops import rope_padded as launcher
    from xformers.ops.fmha.attn_bias import BlockDiagonalCausalWithOffsetPaddedKeysMask as Mask

    steps, past, width = [3, 2], [2, 4], 16
    bias = Mask.from_seqlens(q_seqlen=steps, kv_padding=8, kv_seqlen=[a + b for a, b in zip(steps, past, strict=True)])
    xq, xk, xv = (normal(1, sum(steps), 2, width, seed=seed) for seed in range(3))
    cache_k, cache_v = torch.zeros(1, 16, 2, width), torch.zeros(1, 16, 2, width)
    got = launcher(xq.clone(), xk, xv, cache_k, cache_v, bias)

    places = torch.cat([torch.arange(first, first + count) for first, count in zip(past, steps, strict=True)])
    angle = places.double()[:, None] * 10_000.0 ** (-torch.arange(0, width, 2).double() / width)
    turn = torch.polar(torch.ones_like(angle), angle)[None, :, None]

    def turned(x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.double().reshape(*x.shape[:-1], width // 2, 2))
        return torch.view_as_real(pairs * turn).flatten(-2)

    rows = places + torch.tensor([0] * steps[0] + [8] * steps[1])
    exact_k, exact_v = torch.zeros(1, 16, 2, width).double(), torch.zeros(1, 16, 2, width).double()
    exact_k[:, rows], exact_v[:, rows] = turned(xk), xv.double()
    return [
        Compared("queries", got, turned(xq)),
        Compared("cache of keys", cache_k, exact_k),
        Compared("cache of values", cache_v, exact_v),
    ]


@XFORMERS.case("product of tiles", TF32)
def tiled_matmul() -> list[Compared]:
    # What the operator calls, which is registered for CUDA tensors only.
    from xformers.ops._triton.tiled_matmul_kernels import _launch_triton_matmul

    shapes = [(40, 24), (40, 32), (24, 30), (32, 30)]
    a, b, c, d = (normal(*shape, seed=seed) for seed, shape in enumerate(shapes))
    out = torch.empty(40, 30)
    _launch_triton_matmul([[a, b]], [[c], [d]], [[out]], [40], [30], [24, 32])
    return [Compared("product", out, a.double() @ c.double() + b.double() @ d.double())]


@XFORMERS.case("attention over split keys", FP16)
def split_attention() -> list[Compared]:
    from xformers.ops import fmha

    def launch(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        # Not by `memory_efficient_attention`, which asks for xformers' CUDA code.
        return fmha.triton_splitk.FwOp.apply(fmha.common.Inputs(q, k, v), needs_gradient=False)[0]

    def definition(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        found = F.scaled_dot_product_attention(*(each.transpose(1, 2) for each in (q, k, v)))
        return found.transpose(1, 2)

    shapes = [(1, 4, 2, 64), (1, 160, 2, 64), (1, 160, 2, 64)]
    qkv = (normal(*shape, seed=i, dtype=torch.float16) for i, shape in enumerate(shapes))
    return compare(launch, definition, *qkv, gradients=False)
