"""What makes the interpreter fast enough for these tests changes no bit: scans by columns, outcomes from a memo."""

import numpy as np
import pytest
import torch
from alphabet_testing.kernels.interpreter import InterpretedDevice, scan_by_columns
from alphabet_testing.kernels.memo import LaunchMemo
from alphabet_testing.models import make_batch, make_model
from alphabet_triton.configurations import list_inference
from alphabet_triton.forward import forward
from alphabet_triton.launching import TritonDevice, on
from alphabet_triton.ops.edge.launch import launch_edge
from alphabet_triton.ops.scan.launch import launch_scan_backward
from alphabet_triton.weights import list_powers


@pytest.mark.slow
@pytest.mark.parametrize("modes", [2, 3])
def test_scans_by_columns_are_tritons_to_the_bit(modes, monkeypatch):
    def run():
        """All tensors of a scan over two blocks, forward and in reverse."""
        generator = torch.Generator().manual_seed(1)
        states, values = (torch.randn(shape, generator=generator) for shape in ((1, 2 * modes, 144), (1, 140, 1)))
        weights = {"project": (16, 1), "taps": (16, 5), "bias": (16,), "matrix": (2 * modes, 16)}
        weights = {name: torch.randn(shape, generator=generator) for name, shape in weights.items()}
        transition = list_powers(0.7 * torch.randn(2 * modes, generator=generator))
        d_sums = torch.randn(1, 7, modes, generator=generator, dtype=torch.float64)
        with on(TritonDevice()):
            found = launch_edge(values, None, None, **weights, transition=transition, keep=True)
            found += launch_scan_backward(states, transition, None, None, 140, d_sums, states)
        return [tensor[..., :140].numpy().tobytes() for tensor in found]

    by_columns = run()
    monkeypatch.undo()
    from triton.runtime.interpreter import ScanOps

    assert ScanOps.generic_scan is not scan_by_columns
    with np.errstate(all="ignore"):
        assert run() == by_columns


def test_a_known_outcome_is_the_interpreters_to_the_bit():
    model, (values, _) = make_model(1, 16, 2, 2), make_batch(1, 20, 1)
    memo, found = LaunchMemo(), []
    devices = [InterpretedDevice(memo), InterpretedDevice(memo), TritonDevice()]
    for device in devices:
        with on(device), torch.no_grad():
            found.append(forward(model, values, None, None))
    assert len(devices[0].interpreted) == 4
    assert devices[1].interpreted == []
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_a_changed_bit_is_interpreted():
    launch = list_inference(make_model(1, 16, 2, 2), 1, 20, masked=False)[-1]
    device = InterpretedDevice(LaunchMemo())
    for tensor in launch.tensors.values():
        tensor.zero_()
    before = {name: tensor.clone() for name, tensor in launch.tensors.items()}
    device.run(launch)
    names = {tensor.data_ptr(): name for name, tensor in launch.tensors.items()}.values()  # some are one tensor
    for name in names:
        for other, tensor in launch.tensors.items():
            tensor.copy_(before[other])
        device.run(launch)
        launch.tensors[name].view(torch.uint8).view(-1)[0] ^= 1
        device.run(launch)
    assert len(device.interpreted) == 1 + len(names)
