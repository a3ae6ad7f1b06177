"""The suite can fail: what differs is found and written down, and memory that shares stays shared."""

import csv

import pytest
import torch
from alphabet_triton.launching import TritonDevice
from gpu_suite import Ledger, expected, launch_with_inputs, list_launches, run_natively


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ([1.0, 2.0], "same"),
        ([1.0, 2.00001], "same"),
        ([1.0, 2.0001], "DIFFERS"),
        ([float("nan"), 2.0], "DIFFERS"),
        ([float("inf"), 2.0], "DIFFERS"),
    ],
)
def test_a_difference_is_found_and_written_down(found, verdict, tmp_path):
    ledger = Ledger(tmp_path)
    agree = ledger.compare("launch", "states", torch.tensor(found), torch.tensor([1.0, 2.0]))
    assert agree == (verdict == "same")
    with (tmp_path / "differences.csv").open(newline="") as file:
        assert [row["verdict"] for row in csv.DictReader(file)] == [verdict]


def test_what_is_nan_in_both_agrees_and_zeros_have_no_room():
    ledger, nan = Ledger(None), float("nan")
    assert ledger.compare("", "", torch.tensor([nan, 1.0]), torch.tensor([nan, 1.0]))
    assert not ledger.compare("", "", torch.tensor([1.0, 1.0]), torch.tensor([nan, 1.0]))
    assert ledger.compare("", "", torch.zeros(2), torch.zeros(2))
    assert not ledger.compare("", "", torch.tensor([0.0, 1e-30]), torch.zeros(2))


@pytest.fixture
def smallest():
    """The launch with the least memory, recorded before the device is there, which would know what nobody wrote."""
    return min(list_launches(small=True), key=lambda launch: sum(t.numel() for t in launch.tensors.values()))


@pytest.mark.slow
def test_a_launch_that_leaves_one_entry_wrong_is_found(monkeypatch, smallest, gpu, tmp_path):
    launch, run = smallest, TritonDevice.run

    def run_badly(self, launch):
        run(self, launch)
        written = next(t for t in launch.tensors.values() if t.is_floating_point())
        written.view(-1)[-1] += 1.0

    ledger, wanted = Ledger(tmp_path), expected(launch, tmp_path)
    right = run_natively(launch, gpu.home)
    assert all(ledger.compare("right", name, right[name], wanted[name]) for name in wanted)
    monkeypatch.setattr(TritonDevice, "run", run_badly)
    wrong = run_natively(launch, gpu.home)
    assert not all(ledger.compare("wrong", name, wrong[name], wanted[name]) for name in wanted)
    (kept,) = (tmp_path / "expected").iterdir()
    assert torch.load(kept).keys() == wanted.keys()


def test_every_input_is_written_and_tensors_that_share_memory_still_do():
    for launch in list_launches(small=True):
        own = launch_with_inputs(launch, torch.device("cpu"))
        for name, tensor in own.tensors.items():
            assert not tensor.is_floating_point() or not tensor.isnan().any(), (launch.name, name)
            assert tensor.data_ptr() != launch.tensors[name].data_ptr() or not tensor.numel()
        places = {name: tensor.untyped_storage().data_ptr() for name, tensor in launch.tensors.items()}
        moved = {name: tensor.untyped_storage().data_ptr() for name, tensor in own.tensors.items()}
        for one in places:
            for other in places:
                assert (places[one] == places[other]) == (moved[one] == moved[other])
