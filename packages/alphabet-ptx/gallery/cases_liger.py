"""Liger: norms, activations, losses, rotations and a mixture of experts, forward and backward."""

import math

import torch
import torch.nn.functional as F
from case import FP32, TF32, Compared, Source, compare, integers, normal
from torch import Tensor

LIGER = Source("liger-kernel")


def rms(x: Tensor, eps: float = 1e-6) -> Tensor:
    """The input divided by the root of its mean square along the last axis."""
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt()


@LIGER.case("softmax", FP32)
def softmax() -> list[Compared]:
    from liger_kernel.ops.softmax import LigerSoftmaxFunction

    return compare(LigerSoftmaxFunction.apply, lambda x: x.softmax(-1), normal(6, 40))


@LIGER.case("softmax over several blocks", FP32)
def softmax_blocks() -> list[Compared]:
    from liger_kernel.ops.softmax import LigerSoftmaxFunction

    return compare(LigerSoftmaxFunction.apply, lambda x: x.softmax(-1), normal(2, 3, 1500))


@LIGER.case("RMS norm", FP32)
def rms_norm() -> list[Compared]:
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction

    return compare(
        lambda x, w: LigerRMSNormFunction.apply(x, w, 1e-6, 0.0, "llama", False),
        lambda x, w: rms(x) * w,
        normal(9, 100),
        normal(100, seed=1),
    )


@LIGER.case("RMS norm, offset and gemma's casts", FP32)
def rms_norm_offset() -> list[Compared]:
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction

    return compare(
        lambda x, w: LigerRMSNormFunction.apply(x, w, 1e-6, 1.0, "gemma", True),
        lambda x, w: rms(x) * (1 + w),
        normal(3, 2, 64),
        normal(64, seed=1),
    )


@LIGER.case("sum and RMS norm", FP32)
def fused_add_rms_norm() -> list[Compared]:
    from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction

    return compare(
        lambda x, r, w: LigerFusedAddRMSNormFunction.apply(x, r, w, 1e-6, 0.0, "llama", False),
        lambda x, r, w: (rms(x + r) * w, x + r),
        normal(5, 72),
        normal(5, 72, seed=1),
        normal(72, seed=2),
    )


@LIGER.case("layer norm", FP32)
def layer_norm() -> list[Compared]:
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction

    return compare(
        lambda x, w, b: LigerLayerNormFunction.apply(x, w, b, 1e-6),
        lambda x, w, b: F.layer_norm(x, w.shape, w, b, 1e-6),
        normal(9, 100),
        normal(100, seed=1),
        normal(100, seed=2),
    )


@LIGER.case("group norm", FP32)
def group_norm() -> list[Compared]:
    from liger_kernel.ops.group_norm import LigerGroupNormFunction

    return compare(
        lambda x, w, b: LigerGroupNormFunction.apply(x, w, b, 6, 3, 1e-6),
        lambda x, w, b: F.group_norm(x, 3, w, b, 1e-6),
        normal(2, 6, 50),
        normal(6, seed=1),
        normal(6, seed=2),
    )


@LIGER.case("polynomial norm", FP32)
def poly_norm() -> list[Compared]:
    from liger_kernel.ops.poly_norm import LigerPolyNormFunction

    return compare(
        lambda x, w, b: LigerPolyNormFunction.apply(x, w, b, 1e-6, False),
        lambda x, w, b: w[0] * rms(x**3) + w[1] * rms(x**2) + w[2] * rms(x) + b,
        normal(6, 80),
        normal(3, seed=1),
        normal(seed=2),
    )


@LIGER.case("dynamic tanh", FP32)
def dynamic_tanh() -> list[Compared]:
    from liger_kernel.ops.dyt import LigerDyTFunction

    return compare(
        LigerDyTFunction.apply,
        lambda x, a, g, b: g * torch.tanh(a * x) + b,
        normal(6, 70),
        normal(1, seed=1),
        normal(70, seed=2),
        normal(70, seed=3),
    )


@LIGER.case("SwiGLU", FP32)
def swiglu() -> list[Compared]:
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction

    return compare(LigerSiLUMulFunction.apply, lambda a, b: F.silu(a) * b, normal(5, 90), normal(5, 90, seed=1))


@LIGER.case("GeGLU", FP32)
def geglu() -> list[Compared]:
    from liger_kernel.ops.geglu import LigerGELUMulFunction

    return compare(
        LigerGELUMulFunction.apply, lambda a, b: F.gelu(a, approximate="tanh") * b, normal(5, 90), normal(5, 90, seed=1)
    )


@LIGER.case("squared ReLU", FP32)
def relu_squared() -> list[Compared]:
    from liger_kernel.ops.relu_squared import LigerReLUSquaredFunction

    return compare(LigerReLUSquaredFunction.apply, lambda x: F.relu(x) ** 2, normal(5, 90))


@LIGER.case("sparsemax", FP32)
def sparsemax() -> list[Compared]:
    from liger_kernel.ops.sparsemax import LigerSparsemaxFunction

    def definition(x: Tensor) -> Tensor:
        ordered = x.sort(-1, descending=True).values
        ranks = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype)
        support = (1 + ranks * ordered > ordered.cumsum(-1)).sum(-1, keepdim=True)
        threshold = (ordered.cumsum(-1).gather(-1, support - 1) - 1) / support
        return F.relu(x - threshold)

    return compare(lambda x: LigerSparsemaxFunction.apply(x, -1), definition, normal(4, 50))


@LIGER.case("cross entropy", FP32)
def cross_entropy() -> list[Compared]:
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction

    target = integers(0, 100, 7)
    target[2] = -100
    return compare(
        lambda x: LigerCrossEntropyFunction.apply(x, target, None, -100, 0.0, 0.1, "mean")[0],
        lambda x: F.cross_entropy(x, target, label_smoothing=0.1),
        normal(7, 100),
    )


@LIGER.case("cross entropy, z loss and cap", FP32)
def cross_entropy_capped() -> list[Compared]:
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction

    target = integers(0, 100, 7)

    def definition(x: Tensor) -> Tensor:
        capped = 5.0 * torch.tanh(x / 5.0)
        return (F.cross_entropy(capped, target, reduction="none") + 0.1 * capped.logsumexp(-1) ** 2).sum()

    return compare(
        lambda x: LigerCrossEntropyFunction.apply(x, target, None, -100, 0.1, 0.0, "sum", 5.0)[0],
        definition,
        normal(7, 100),
    )


@LIGER.case("linear layer and cross entropy", FP32)
def fused_linear_cross_entropy() -> list[Compared]:
    from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction

    target = integers(0, 50, 8)
    return compare(
        lambda x, w, b: LigerFusedLinearCrossEntropyFunction.apply(x, w, target, b)[0],
        lambda x, w, b: F.cross_entropy(F.linear(x, w, b), target),
        normal(8, 16),
        normal(50, 16, seed=1),
        normal(50, seed=2),
    )


@LIGER.case("Jensen-Shannon divergence", FP32)
def jsd() -> list[Compared]:
    from liger_kernel.ops.jsd import LigerJSDFunction

    target = normal(6, 70, seed=1).log_softmax(-1)

    def definition(x: Tensor) -> Tensor:
        y = target.double()
        mixture = (0.3 * y.exp() + 0.7 * x.exp()).log()
        return (0.3 * y.exp() * (y - mixture) + 0.7 * x.exp() * (x - mixture)).sum() / len(x)

    return compare(lambda x: LigerJSDFunction.apply(x, target, None, 0.3), definition, normal(6, 70).log_softmax(-1))


@LIGER.case("Kullback-Leibler divergence", FP32)
def kl_div() -> list[Compared]:
    from liger_kernel.ops.kl_div import LigerKLDivLossFunction

    target = normal(6, 70, seed=1).softmax(-1)
    return compare(
        lambda x: LigerKLDivLossFunction.apply(x, target, "batchmean", False, 1e-10),
        lambda x: F.kl_div(x, target.double(), reduction="batchmean"),
        normal(6, 70).log_softmax(-1),
    )


@LIGER.case("total variation", FP32)
def tvd() -> list[Compared]:
    from liger_kernel.ops.tvd import LigerTVDLossFunction

    q = normal(6, 70, seed=1).softmax(-1)
    return compare(
        lambda p: LigerTVDLossFunction.apply(p, q, None, "batchmean"),
        lambda p: 0.5 * (p - q.double()).abs().sum() / len(p),
        normal(6, 70).softmax(-1),
    )


@LIGER.case("rotary embedding", FP32)
def rope() -> list[Compared]:
    from liger_kernel.ops.rope import LigerRopeFunction

    steps, width = 9, 16
    angles = torch.arange(steps)[:, None] * 10.0 ** (-torch.arange(width // 2) / 4)
    angles = torch.cat([angles, angles], -1)[None]

    def rotate(x: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        cos, sin = angles.float().cos().to(x.dtype), angles.float().sin().to(x.dtype)
        return x * cos + torch.cat([-second, first], -1) * sin

    return compare(
        # The launcher turns its arguments in place, so that it gets copies.
        lambda q, k: LigerRopeFunction.apply(q.clone(), k.clone(), angles.float().cos(), angles.float().sin()),
        lambda q, k: (rotate(q), rotate(k)),
        normal(2, 4, steps, width),
        normal(2, 2, steps, width, seed=1),
    )


@LIGER.case("mixture of experts", TF32)
def fused_moe() -> list[Compared]:
    from liger_kernel.ops.fused_moe import LigerFusedMoEFunction

    tokens, width, inner, experts, chosen = 20, 32, 32, 4, 2
    index = torch.stack(
        [torch.randperm(experts, generator=torch.Generator().manual_seed(t))[:chosen] for t in range(tokens)]
    )

    def definition(x: Tensor, up: Tensor, down: Tensor, weights: Tensor) -> Tensor:
        gate, value = torch.einsum("th,tkfh->tkf", x, up[index]).chunk(2, -1)
        return torch.einsum("tk,tkf,tkhf->th", weights, F.silu(gate) * value, down[index])

    return compare(
        lambda x, up, down, weights: LigerFusedMoEFunction.apply(x, up, down, index.int(), weights),
        definition,
        normal(tokens, width),
        normal(experts, 2 * inner, width, seed=1, scale=1 / math.sqrt(width)),
        normal(experts, width, inner, seed=2, scale=1 / math.sqrt(inner)),
        normal(tokens, chosen, seed=3).softmax(-1),
    )
