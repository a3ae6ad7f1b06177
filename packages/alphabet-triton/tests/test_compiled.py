"""The compiled kernels' PTX, executed on the CPU: real tf32x3 rounding, barriers, shuffles and addresses."""

import re
from dataclasses import replace

import pytest
import torch
from alphabet_ptx import PtxError, resources
from alphabet_triton import TritonRuntime, graphs, path
from alphabet_triton.shapes import Masks, Shape, no_masks
from alphabet_triton.static import CPU, list_launches
from examples import make_batch, make_model
from kernel_chain import errors, run_kernels, run_reference
from ptx_device import PtxDevice, compile_launch

# Measured 6e-7 of a tensor's largest entry; float32's own error at these lengths is about as large.
CLOSE = 5e-6
SIZES, LENGTH = (1, 16, 4, 3), 140  # two blocks of every kernel that has more than one


def run_case(masks, device):
    """The worst error of sums and gradients of the whole chain."""
    model, (values, given) = make_model(*SIZES), make_batch(1, LENGTH, SIZES[0], masks)
    d_sums = torch.randn(1, 2, 7, SIZES[2], generator=torch.Generator().manual_seed(3)) / LENGTH
    saved, gradients = run_kernels(model, values, given, d_sums, device)
    sums, exact = run_reference(model, values, given, d_sums)
    found = {"sums": saved.sums, **gradients}
    return max(errors(found, {"sums": sums, **exact}).values())


@pytest.mark.parametrize("masks", ["none", "both"])
def test_sums_and_gradients_are_the_references(masks):
    device = PtxDevice()
    assert run_case(masks, device) < CLOSE
    assert device.races == []
    assert device.instructions["mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"] > 0


def test_logits_are_the_references(monkeypatch):
    monkeypatch.setattr(path, "_machine_reason", lambda model: None)
    model, (values, given) = make_model(2, 24, 7, 3), make_batch(2, 40, 2, "both")
    device = PtxDevice()
    runtime = TritonRuntime(model, device=device, capture=graphs.run_eagerly)
    with torch.no_grad():
        assert float((runtime(values, **given) - model(values, **given)).abs().max()) < 1e-6
    assert device.races == []


def test_the_anchors_kernels_neither_spill_nor_use_the_stack():
    bytes_ = torch.empty(1, 64, dtype=torch.uint8)
    for masks in (no_masks(CPU), Masks(bytes_, bytes_)):
        for launch in list_launches(Shape(1, 64, 2, 64, 16), 5, masks):
            used = resources(compile_launch(launch))
            assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0), (launch.name, launch.constants)
            assert used.registers <= 255


def scalar(**changes):
    return lambda launch: replace(launch, scalars={**launch.scalars, **changes})


def tensor(name, change):
    return lambda launch: replace(launch, tensors={**launch.tensors, name: change(launch.tensors[name].clone())})


def flag(**changes):
    return lambda launch: replace(launch, flags={**launch.flags, **changes})


def drop_block(launch):
    return replace(launch, grid=(launch.grid[0] - 1, *launch.grid[1:]))


def reverse(taps):
    return taps.flip(1).contiguous()


def conjugate(transition):
    transition[len(transition) // 2 :] *= -1.0
    return transition


# What is broken in which kernel; every one must be caught by the gate above.
FAULTS = {
    "conjugate poles": ("scan_fwd_kernel", tensor("transition", conjugate)),
    "conjugate poles on the way back": ("scan_bwd_kernel", tensor("transition", conjugate)),
    "a token too few": ("scan_fwd_kernel", scalar(T=LENGTH - 1)),
    "a token too few on the way back": ("scan_bwd_kernel", scalar(T=LENGTH - 1)),
    "both banks' sums in one place": ("scan_fwd_kernel", scalar(bank=0)),
    "the other bank's gradient": ("scan_bwd_kernel", scalar(bank=0)),
    "a missing mode": ("scan_fwd_kernel", scalar(M=SIZES[2] - 1)),
    "a wrong stride": ("reader_fwd_kernel", scalar(TS=128)),
    "a missing feature": ("edge_fwd_kernel", scalar(D=SIZES[1] - 1)),
    "a missing block": ("edge_fwd_kernel", drop_block),
    "a missing block on the way back": ("edge_bwd_kernel", drop_block),
    "taps in reverse": ("edge_fwd_kernel", tensor("taps", reverse)),
    "taps in reverse on the way back": ("reader_bwd_kernel", tensor("taps", reverse)),
    "no feedthrough": ("reader_fwd_kernel", tensor("through", torch.zeros_like)),
    "masks ignored": ("reader_fwd_kernel", flag(MASKED=False)),
    "everything available": ("edge_fwd_kernel", tensor("gate", torch.ones_like)),
    "everything valid": ("scan_fwd_kernel", tensor("valid", torch.ones_like)),
    "states' gradient left out": ("scan_bwd_kernel", flag(ALONE=True)),
    "features' gradient left out": ("norm_bwd_kernel", flag(ALONE=True)),
    "lags' gradients in another order": ("scan_bwd_kernel", tensor("d_sums", lambda d: d.roll(2, dims=2).contiguous())),
    "no synthesis": ("reader_fwd_kernel", tensor("synthesis", torch.zeros_like)),
    "no synthesis on the way back": ("reader_bwd_kernel", tensor("synthesis", torch.zeros_like)),
    "no feedthrough on the way back": ("reader_bwd_kernel", tensor("through", torch.zeros_like)),
    "a negative drive": ("edge_fwd_kernel", tensor("matrix", torch.neg)),
    "a negative drive on the way back": ("norm_bwd_kernel", tensor("matrix", torch.neg)),
    "features not normed": ("reader_fwd_kernel", tensor("scale", torch.ones_like)),
    "features not normed in the matrix's gradient": ("outer_bwd_kernel", flag(NORMED=False)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_caught(fault):
    name, change = FAULTS[fault]

    class Faulty(PtxDevice):
        def run(self, launch):
            super().run(change(launch) if launch.name == name else launch)

    device = Faulty()
    try:
        error = run_case("both", device)
    except PtxError:
        return  # out of range, or something never written was read
    assert not error < CLOSE or device.races


def drop_barriers(ptx):
    return "".join(line for line in ptx.splitlines(keepends=True) if "bar.sync" not in line)


def shuffle_too_far(ptx):
    """The first shuffles of a scan take their values from a lane further away."""
    return re.sub(r"(shfl\.sync\.up\.b32[^;]*, )1, 0", r"\g<1>2, 0", ptx)


def flip_a_sign(ptx):
    return ptx.replace("neg.f32", "mov.b32", 1)


def store_unmasked(ptx):
    """Stores that only some threads may do, done by all."""
    return re.sub(r"@!?%p\d+ (st\.global)", r"\1", ptx)


# (kernel, what is changed in its compiled code)
BROKEN = [
    *((name, drop_barriers) for name in (
        "edge_fwd_kernel", "reader_fwd_kernel", "norm_bwd_kernel", "outer_bwd_kernel", "reader_bwd_kernel",
    )),
    ("scan_fwd_kernel", shuffle_too_far), ("scan_fwd_kernel", flip_a_sign), ("scan_fwd_kernel", store_unmasked),
    ("edge_bwd_kernel", store_unmasked),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "damage"), BROKEN)
def test_damage_to_the_compiled_code_is_caught(kernel, damage):
    def change(launch, compiled):
        if launch.name != kernel:
            return compiled
        broken = replace(compiled, ptx=damage(compiled.ptx))
        assert broken.ptx != compiled.ptx
        return broken

    device = PtxDevice(change=change)
    try:
        error = run_case("none", device)
    except PtxError:
        return
    assert not error < CLOSE or device.races
