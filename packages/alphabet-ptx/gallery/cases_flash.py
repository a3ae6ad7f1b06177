"""flash-attn: its Triton kernels for norms, cross entropy and rotary embedding; attention itself is CUDA."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from case import FP16, FP32, Compared, Source, compare, integers, normal, without_initialization
from torch import Tensor

FLASH = Source("flash-attn")


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Pairs of the first and second half of the last axis, turned by an angle: (B, T, H, 2 D), (T, D), (T, D)."""
    first, second = x.chunk(2, dim=-1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


def angles(steps: int, count: int) -> tuple[Tensor, Tensor]:
    """Cosine and sine of some angles per step."""
    angle = normal(steps, count, seed=5)
    return angle.cos(), angle.sin()


@FLASH.case("cross entropy with smoothing and z loss", FP32)
def cross_entropy() -> list[Compared]:
    without_initialization("flash_attn")
    from flash_attn.ops.triton.cross_entropy import cross_entropy_loss

    labels = integers(0, 100, 6)

    def definition(logits: Tensor) -> tuple[Tensor, Tensor]:
        z = 0.1 * logits.logsumexp(-1).square()
        return F.cross_entropy(logits, labels, label_smoothing=0.2, reduction="none") + z, z

    def launch(logits: Tensor) -> tuple[Tensor, Tensor]:
        loss, z = cross_entropy_loss(logits, labels, label_smoothing=0.2, lse_square_scale=0.1)
        return loss, z.detach()

    found = compare(launch, definition, normal(6, 100), gradients=False)
    return [*found, *compare(lambda x: launch(x)[0], lambda x: definition(x)[0], normal(6, 100))]


@FLASH.case("layer norm with residual", FP32)
def layer_norm() -> list[Compared]:
    without_initialization("flash_attn")
    from flash_attn.ops.triton.layer_norm import layer_norm_fn

    return compare(
        lambda x, r, w, b: layer_norm_fn(x, w, b, residual=r, eps=1e-5),
        lambda x, r, w, b: F.layer_norm(x + r, (70,), w, b, 1e-5),
        normal(6, 70),
        normal(6, 70, seed=1),
        normal(70, seed=2),
        normal(70, seed=3),
    )


@FLASH.case("RMS norm", FP32)
def rms_norm() -> list[Compared]:
    without_initialization("flash_attn")
    from flash_attn.ops.triton.layer_norm import rms_norm_fn

    return compare(
        lambda x, w: rms_norm_fn(x, w, None, eps=1e-5),
        lambda x, w: F.rms_norm(x, (70,), w, 1e-5),
        normal(6, 70),
        normal(70, seed=1),
    )


@FLASH.case("rotary embedding", FP32)
def rotary() -> list[Compared]:
    without_initialization("flash_attn")
    from flash_attn.ops.triton.rotary import apply_rotary

    cos, sin = angles(20, 16)
    return compare(
        lambda x: apply_rotary(x, cos, sin),
        lambda x: rotated(x, cos.double(), sin.double()),
        normal(2, 20, 3, 32),
        gradients=False,
    )


@FLASH.case("rotary embedding of neighbours, sequences of various lengths", FP32)
def rotary_interleaved() -> list[Compared]:
    without_initialization("flash_attn")
    from flash_attn.ops.triton.rotary import apply_rotary

    cos, sin = angles(20, 16)
    ends = [0, 5, 18, 30]

    def definition(x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], 16, 2))
        turn = torch.complex(cos.double(), sin.double())
        turned = [pairs[a:b] * turn[: b - a, None] for a, b in pairwise(ends)]
        return torch.view_as_real(torch.cat(turned)).flatten(-2)

    return compare(
        lambda x: apply_rotary(
            x, cos, sin, cu_seqlens=torch.tensor(ends, dtype=torch.int32), max_seqlen=20, interleaved=True
        ),
        definition,
        normal(30, 3, 32),
        gradients=False,
    )


@FLASH.case("linear layer with activation", FP16)
def linear() -> list[Compared]:
    without_initialization("flash_attn")
    from flash_attn.ops.triton.linear import triton_linear_act

    x, w = (normal(32, 64, seed=seed, dtype=torch.float16) for seed in (0, 1))
    return compare(triton_linear_act, F.linear, x, w, gradients=False)


@FLASH.case("attention", FP16)
def attention() -> list[Compared]:
    without_initialization("flash_attn")
    from flash_attn.flash_attn_triton import flash_attn_func

    def definition(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        found = F.scaled_dot_product_attention(*(each.transpose(1, 2) for each in (q, k, v)))
        return found.transpose(1, 2)

    qkv = (normal(1, 128, 2, 64, seed=seed, dtype=torch.float16) for seed in range(3))
    return compare(flash_attn_func, definition, *qkv, gradients=False)
