"""mamba-ssm: one step of the state, norms, activations, and the chunked scan (SSD) of Mamba-2, forward and backward."""

import math

import torch
import torch.nn.functional as F
from case import FP32, TF32, Compared, Source, compare, normal, without_initialization
from torch import Tensor

MAMBA = Source("mamba-ssm")
# The gradient of a head's decay sums the gradients of all steps, most of which cancel: what tf32 cuts off the terms is
# ten times as large a part of the sum. With exact products the same case has an error of some millionths.
SUMS_OF_TF32 = 2e-2


@MAMBA.case("state update", FP32, quick=True)
def selective_state_update() -> list[Compared]:
    without_initialization("mamba_ssm")
    from mamba_ssm.ops.triton.selective_state_update import selective_state_update

    def launch(state: Tensor, *others: Tensor) -> tuple[Tensor, Tensor]:
        x, dt, a, b, c, d, z, bias = others
        out = selective_state_update(state, x, dt, -a.exp(), b, c, d, z, bias, dt_softplus=True)
        return out, state

    def definition(state: Tensor, *others: Tensor) -> tuple[Tensor, Tensor]:
        x, dt, a, b, c, d, z, bias = others
        step = F.softplus(dt + bias)[..., None]
        state = state * (-a.exp() * step).exp() + step * b[:, None] * x[..., None]
        return ((state * c[:, None]).sum(-1) + d * x) * F.silu(z), state

    batch, width, size = 3, 40, 16
    return compare(
        launch,
        definition,
        normal(batch, width, size),
        normal(batch, width, seed=1),
        normal(batch, width, seed=2),
        normal(width, size, seed=3),
        normal(batch, size, seed=4),
        normal(batch, size, seed=5),
        normal(width, seed=6),
        normal(batch, width, seed=7),
        normal(width, seed=8),
        gradients=False,
    )


@MAMBA.case("layer norm with residual", FP32, quick=True)
def layer_norm() -> list[Compared]:
    without_initialization("mamba_ssm")
    from mamba_ssm.ops.triton.layer_norm import layer_norm_fn

    return compare(
        lambda x, w, b, r: layer_norm_fn(x, w, b, residual=r, prenorm=True),
        lambda x, w, b, r: (F.layer_norm(x + r, w.shape, w, b, 1e-6), x + r),
        normal(6, 96),
        normal(96, seed=1),
        normal(96, seed=2),
        normal(6, 96, seed=3),
    )


@MAMBA.case("RMS norm", FP32, quick=True)
def rms_norm() -> list[Compared]:
    without_initialization("mamba_ssm")
    from mamba_ssm.ops.triton.layer_norm import rms_norm_fn

    return compare(
        lambda x, w: rms_norm_fn(x, w, None),
        lambda x, w: F.rms_norm(x, w.shape, w, 1e-6),
        normal(6, 96),
        normal(96, seed=1),
    )


@MAMBA.case("gated RMS norm in groups", FP32, quick=True)
def gated_norm() -> list[Compared]:
    without_initialization("mamba_ssm")
    from mamba_ssm.ops.triton.layernorm_gated import rmsnorm_fn

    return compare(
        lambda x, w, z: rmsnorm_fn(x, w, None, z=z, group_size=32, norm_before_gate=False),
        lambda x, w, z: F.rms_norm((x * F.silu(z)).unflatten(-1, (-1, 32)), (32,), None, 1e-6).flatten(-2) * w,
        normal(6, 96),
        normal(96, seed=1),
        normal(6, 96, seed=2),
    )


@MAMBA.case("SwiGLU", FP32, quick=True)
def swiglu() -> list[Compared]:
    without_initialization("mamba_ssm")
    from mamba_ssm.ops.triton.k_activations import swiglu

    return compare(swiglu, lambda xy: F.silu(xy.chunk(2, -1)[0]) * xy.chunk(2, -1)[1], normal(5, 96))


@MAMBA.case("sums within chunks", FP32, quick=True)
def chunk_cumsum() -> list[Compared]:
    without_initialization("mamba_ssm")
    from mamba_ssm.ops.triton.ssd_chunk_state import _chunk_cumsum_fwd

    def definition(dt: Tensor, a: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        steps = F.pad(F.softplus(dt + bias).mT, (0, 14)).unflatten(-1, (-1, 32))  # (B, H, chunks, 32)
        return (steps * a[:, None, None]).cumsum(-1), steps

    return compare(
        lambda dt, a, bias: _chunk_cumsum_fwd(dt, a, 32, dt_bias=bias, dt_softplus=True),
        definition,
        normal(2, 50, 3),
        -normal(3, seed=1).exp(),
        normal(3, seed=2),
        gradients=False,
    )


@MAMBA.case("states from chunk to chunk", FP32, quick=True)
def state_passing() -> list[Compared]:
    without_initialization("mamba_ssm")
    from mamba_ssm.ops.triton.ssd_state_passing import state_passing

    def definition(states: Tensor, decay: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
        before = [first]
        for chunk in range(states.shape[1]):
            before.append(before[-1] * decay[:, :, chunk, None].exp() + states[:, chunk])
        return torch.stack(before[:-1], 1), before[-1]

    return compare(
        state_passing, definition, normal(2, 4, 3, 40), -normal(2, 3, 4, seed=1).exp(), normal(2, 3, 40, seed=2)
    )


@MAMBA.case("sums between steps of a chunk", FP32, quick=True)
def segment_sums() -> list[Compared]:
    without_initialization("mamba_ssm")
    from mamba_ssm.ops.triton.mamba3.mamba3_mimo_utils import compute_dacs_segsum_triton

    def definition(decay: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        sums = decay.unflatten(-1, (-1, 16)).cumsum(-1)
        return sums.flatten(-2), (sums[..., -1:] - sums).flatten(-2), (sums[..., None] - sums[..., None, :]).tril()

    return compare(
        lambda decay: compute_dacs_segsum_triton(decay, 16), definition, -normal(2, 3, 48).exp(), gradients=False
    )


@MAMBA.case("rotation by one step", FP32, quick=True)
def rotary_step() -> list[Compared]:
    without_initialization("mamba_ssm")
    from mamba_ssm.ops.triton.mamba3.mamba3_mimo_rotary_step import apply_rotary_qk_inference_fwd

    def definition(q: Tensor, k: Tensor, state: Tensor, rate: Tensor, dt: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        angle = state + rate.tanh() * dt[..., None] * math.pi  # (B, H, N)
        turn = torch.polar(torch.ones_like(angle), angle)[:, None]
        turned = [
            torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * turn).flatten(-2) for x in (q, k)
        ]
        return turned[0], turned[1], angle

    return compare(
        apply_rotary_qk_inference_fwd,
        definition,
        normal(2, 4, 3, 16),
        normal(2, 4, 3, 16, seed=1),
        normal(2, 3, 8, seed=2),
        normal(2, 3, 8, seed=3),
        normal(2, 3, seed=4).exp(),
        gradients=False,
    )


def scan(x: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor, bias: Tensor) -> Tensor:
    """The recurrence of Mamba-2, one step after another: (B, T, H, P) and gates to (B, T, H, P)."""
    step = F.softplus(dt + bias)  # (B, T, H)
    heads = x.shape[2] // b.shape[2]
    b, c = b.repeat_interleave(heads, 2), c.repeat_interleave(heads, 2)  # (B, T, H, N)
    state, outputs = x.new_zeros(x.shape[0], *x.shape[2:], b.shape[3]), []
    for t in range(x.shape[1]):
        decay = (step[:, t] * a).exp()[..., None, None]
        state = state * decay + (step[:, t, :, None] * x[:, t])[..., None] * b[:, t, :, None]
        outputs.append((state * c[:, t, :, None]).sum(-1) + d[:, None] * x[:, t])
    return torch.stack(outputs, 1)


def ssd(steps: int, chunk: int, *, gradients: bool) -> list[Compared]:
    """The chunked scan beside the recurrence."""
    without_initialization("mamba_ssm")
    from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined

    batch, heads, width, groups, size = 1, 2, 16, 1, 16
    return compare(
        lambda x, dt, a, b, c, d, bias: mamba_chunk_scan_combined(
            x, dt, a, b, c, chunk, D=d, dt_bias=bias, dt_softplus=True
        ),
        scan,
        normal(batch, steps, heads, width),
        normal(batch, steps, heads, seed=1) - 3,
        -normal(heads, seed=2).exp(),
        normal(batch, steps, groups, size, seed=3),
        normal(batch, steps, groups, size, seed=4),
        normal(heads, seed=5),
        normal(heads, seed=6),
        gradients=gradients,
    )


@MAMBA.case("SSD forward", TF32)
def ssd_forward() -> list[Compared]:
    return ssd(64, 32, gradients=False)


@MAMBA.case("SSD forward and backward", SUMS_OF_TF32)
def ssd_backward() -> list[Compared]:
    return ssd(64, 32, gradients=True)


@MAMBA.case("SSD forward and backward, the last chunk not full", SUMS_OF_TF32)
def ssd_backward_part() -> list[Compared]:
    return ssd(50, 32, gradients=True)
