"""flash-linear-attention: linear attention with gates and rules, in chunks and step by step; sums; a convolution."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from case import BF16, FP32, TF32, Compared, Source, compare, normal
from torch import Tensor

FLA = Source("flash-linear-attention")
BATCH, STEPS, HEADS, KEYS, VALUES = 1, 70, 2, 16, 16


def attention(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None = None, beta: Tensor | None = None, scale: float = KEYS**-0.5
) -> Tensor:
    """The state S = exp(decay) S + k v', read by q, where v' is v or, with `beta`, beta (v - S k): (B, T, H, V)."""
    state, outputs = q.new_zeros(*q.shape[::2], q.shape[3], v.shape[3]), []  # (B, H, K, V)
    for t in range(q.shape[1]):
        if decay is not None:
            now = decay[:, t]
            state = state * (now.exp()[..., None] if now.dim() == 3 else now.exp()[..., None, None])
        value = v[:, t]
        if beta is not None:
            value = beta[:, t, :, None] * (value - torch.einsum("bhkv,bhk->bhv", state, k[:, t]))
        state = state + k[:, t, :, :, None] * value[:, :, None]
        outputs.append(torch.einsum("bhkv,bhk->bhv", state, q[:, t]) * scale)
    return torch.stack(outputs, 1)


def qkv(steps: int = STEPS) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys of length one and values: (B, T, H, K), (B, T, H, K), (B, T, H, V)."""
    k = F.normalize(normal(BATCH, steps, HEADS, KEYS, seed=1), dim=-1)
    return normal(BATCH, steps, HEADS, KEYS), k, normal(BATCH, steps, HEADS, VALUES, seed=2)


def first(call: Callable[..., tuple[Tensor, object]]) -> Callable[..., Tensor]:
    """The outputs of a launcher that returns a state behind them."""
    return lambda *inputs: call(*inputs)[0]


@FLA.case("linear attention in chunks", TF32)
def linear_attention() -> list[Compared]:
    from fla.ops.linear_attn import chunk_linear_attn

    return compare(first(lambda q, k, v: chunk_linear_attn(q, k, v, normalize=False)), attention, *qkv())


@FLA.case("linear attention step by step", FP32)
def recurrent_linear_attention() -> list[Compared]:
    from fla.ops.linear_attn import fused_recurrent_linear_attn

    return compare(first(lambda q, k, v: fused_recurrent_linear_attn(q, k, v, normalize=False)), attention, *qkv(20))


@FLA.case("gated linear attention in chunks", TF32)
def gla() -> list[Compared]:
    from fla.ops.gla import chunk_gla

    return compare(first(chunk_gla), attention, *qkv(), F.logsigmoid(normal(BATCH, STEPS, HEADS, KEYS, seed=3)))


@FLA.case("gated linear attention step by step", FP32)
def recurrent_gla() -> list[Compared]:
    from fla.ops.gla import fused_recurrent_gla

    return compare(
        first(fused_recurrent_gla), attention, *qkv(20), F.logsigmoid(normal(BATCH, 20, HEADS, KEYS, seed=3))
    )


@FLA.case("one gate per head in chunks", TF32)
def simple_gla() -> list[Compared]:
    from fla.ops.simple_gla import chunk_simple_gla

    return compare(first(chunk_simple_gla), attention, *qkv(), F.logsigmoid(normal(BATCH, STEPS, HEADS, seed=3)))


@FLA.case("retention in chunks", TF32)
def retention() -> list[Compared]:
    from fla.ops.retention import chunk_retention

    decay = (1 - 2.0 ** (-5 - torch.arange(HEADS, dtype=torch.float64))).log().expand(BATCH, STEPS, HEADS)
    return compare(first(chunk_retention), lambda q, k, v: attention(q, k, v, decay), *qkv())


@FLA.case("delta rule in chunks", BF16)
def delta_rule() -> list[Compared]:
    from fla.ops.delta_rule import chunk_delta_rule

    return compare(
        first(chunk_delta_rule),
        lambda q, k, v, beta: attention(q, k, v, None, beta),
        *(each.bfloat16() for each in (*qkv(), normal(BATCH, STEPS, HEADS, seed=4).sigmoid())),
    )


@FLA.case("gated delta rule in chunks", TF32)
def gated_delta_rule() -> list[Compared]:
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    return compare(
        first(chunk_gated_delta_rule),
        attention,
        *qkv(),
        F.logsigmoid(normal(BATCH, STEPS, HEADS, seed=3)),
        normal(BATCH, STEPS, HEADS, seed=4).sigmoid(),
    )


@FLA.case("gated delta rule step by step", FP32)
def recurrent_gated_delta_rule() -> list[Compared]:
    from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule

    return compare(
        first(lambda q, k, v, g, beta: fused_recurrent_gated_delta_rule(q, k, v, g=g, beta=beta)),
        attention,
        *qkv(20),
        F.logsigmoid(normal(BATCH, 20, HEADS, seed=3)),
        normal(BATCH, 20, HEADS, seed=4).sigmoid(),
        gradients=False,
    )


def hgrn_definition(x: Tensor, g: Tensor) -> Tensor:
    """h[t] = exp(g[t]) h[t-1] + x[t]."""
    state, states = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        state = g[:, t].exp() * state + x[:, t]
        states.append(state)
    return torch.stack(states, 1)


@FLA.case("HGRN step by step", FP32)
def recurrent_hgrn() -> list[Compared]:
    from fla.ops.hgrn import fused_recurrent_hgrn

    return compare(
        first(fused_recurrent_hgrn), hgrn_definition, normal(2, 30, 40), F.logsigmoid(normal(2, 30, 40, seed=1))
    )


@FLA.case("HGRN in chunks", FP32)
def chunk_hgrn() -> list[Compared]:
    from fla.ops.hgrn import chunk_hgrn

    return compare(first(chunk_hgrn), hgrn_definition, normal(1, 150, 40), F.logsigmoid(normal(1, 150, 40, seed=1)))


@FLA.case("sums within chunks", FP32)
def local_cumsum() -> list[Compared]:
    from fla.ops.utils import chunk_local_cumsum

    return compare(
        lambda g: chunk_local_cumsum(g, 16),
        lambda g: torch.cat([part.cumsum(1) for part in g.split(16, 1)], 1),
        normal(2, 50, 3),
        gradients=False,
    )


@FLA.case("sums over the sequence", FP32)
def global_cumsum() -> list[Compared]:
    from fla.ops.utils import chunk_global_cumsum

    return compare(chunk_global_cumsum, lambda g: g.cumsum(1), normal(2, 150, 3, 8), gradients=False)


@FLA.case("short convolution", FP32)
def causal_conv1d() -> list[Compared]:
    from fla.modules.causal_conv1d import causal_conv1d

    return compare(
        first(lambda x, w, b: causal_conv1d(x, w, b, activation="silu")),
        lambda x, w, b: F.silu(F.conv1d(F.pad(x.mT, (3, 0)), w[:, None], b, groups=len(w))).mT,
        normal(2, 30, 24),
        normal(24, 4, seed=1),
        normal(24, seed=2),
    )


@FLA.case("norm with a gate", FP32)
def gated_norm() -> list[Compared]:
    from fla.modules.norm.fused_norm_gate import rms_norm_gated

    return compare(
        lambda x, g, w: rms_norm_gated(x, g, w, None, activation="swish", eps=1e-6),
        lambda x, g, w: F.rms_norm(x, w.shape, w, 1e-6) * F.silu(g),
        normal(6, 48),
        normal(6, 48, seed=1),
        normal(48, seed=2),
    )
