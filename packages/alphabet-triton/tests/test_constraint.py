"""The frames' constraint by two kernels, executed as PTX, against `Frame.rebase` in float64."""

import copy
import os

import pytest
import torch
from alphabet_core.fused import Frame
from alphabet_testing.kernels.device import PtxDevice
from alphabet_testing.models import make_batch, make_model
from alphabet_triton import TritonTrainer
from alphabet_triton.launching import RecordingDevice, on
from alphabet_triton.ops.constraint.launch import launch_constraint

pytestmark = pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="compiled kernels, not interpreted")


def departure(base):
    return float((base.double().mT @ base.double() - torch.eye(len(base), dtype=torch.float64)).abs().max())


# Adam moves a tangent by 3e-3 a step at recipe B; with 3.0 a frame turns all the way round, in many substeps.
@pytest.mark.parametrize(("width", "modes", "size", "frames"), [
    (16, 4, 3e-3, 2), (16, 4, 3.0, 2), (24, 7, 3e-3, 1),
    pytest.param(72, 16, 3e-3, 2, marks=pytest.mark.slow), pytest.param(40, 20, 0.03, 2, marks=pytest.mark.slow),
])  # fmt: skip
def test_frames_are_rebased_to_the_last_bit_but_one(width, modes, size, frames):
    torch.manual_seed(0)
    found = [Frame(width, modes) for _ in range(frames)]
    for frame in found:
        torch.nn.init.normal_(frame.tangent, std=size)
    exact, device = [copy.deepcopy(frame).double() for frame in found], PtxDevice()
    with on(device):
        launch_constraint([frame.base for frame in found], [frame.tangent.detach() for frame in found])
    for frame, wanted in zip(found, exact, strict=True):
        wanted.rebase()
        # Entries are below one; each substep adds a rounding of 2^-25 or less.
        assert float((frame.base - wanted.base).abs().max()) < 1e-6
        assert departure(frame.base) < 3e-7
        assert not frame.tangent.any()
    assert device.races == []


def test_a_tangent_that_is_not_finite_ends_and_is_seen():
    frame, device = Frame(16, 4), PtxDevice()
    with torch.no_grad():
        frame.tangent[3, 2] = torch.nan
    with on(device):
        launch_constraint([frame.base], [frame.tangent.detach()])
    assert frame.base.isnan().all()


def test_a_frame_that_does_not_lie_by_rows_is_left_to_the_reference():
    recorder = RecordingDevice()
    trainer = TritonTrainer(make_model(2, 16, 4, 3), device=recorder)
    frame = trainer.alphabet.direct.frame
    frame.tangent.data = frame.tangent.data.mT.contiguous().mT
    trainer.step(make_batch(2, 20, 2)[0], torch.tensor([2, 0]))
    names = [launch.name for launch in recorder.launches]
    assert "adamw_kernel" in names
    assert "turn_kernel" not in names
