"""The memo of executed launches hides nothing: any other bit is executed, and so is every broken launch."""

from dataclasses import replace

import pytest
import torch
from alphabet_testing.kernels.chain import nan_before_it_is_written
from alphabet_testing.kernels.device import PtxDevice
from alphabet_testing.kernels.faults import FAULTS
from alphabet_testing.kernels.memo import LaunchMemo, copy_bytes, digest_launch
from alphabet_triton.buffers import POWERS
from alphabet_triton.launching import record
from alphabet_triton.ops.edge.launch import launch_edge
from alphabet_triton.ops.fold.launch import Foldable, launch_fold

D, M = 16, 4
ARGUMENTS = ["base", "raw_decay", "raw_frequency", "gain", "matrix", "transition"]


def make_launch(work, *shapes):
    """The one launch of some work on random tensors, the same at every call, with NaN in what it will write."""
    generator = torch.Generator().manual_seed(1)
    tensors = [torch.randn(shape, generator=generator, dtype=dtype) for shape, dtype in shapes]
    with nan_before_it_is_written():
        (launch,), _ = record(lambda: work(*tensors))
    return launch


def make_fold():
    shapes = [*2 * [(D, D), (M,), (M,), (D,)], (D,), (D,)]
    return make_launch(lambda *given: launch_fold(Foldable(*given)), *((shape, torch.float32) for shape in shapes))


def make_edge():
    names = ("project", "taps", "bias", "matrix", "transition")
    shapes = ((1, 9, 1), (D, 1), (D, 5), (D,), (2 * M, D), (2 * M, POWERS))
    return make_launch(
        lambda values, *weights: launch_edge(
            values, None, None, **dict(zip(names, weights, strict=True)), keep=False
        ),
        *((shape, torch.float32) for shape in shapes),
    )  # fmt: skip


def run(device, launch):
    """The bytes of all tensors of a launch after a device ran it."""
    device.run(launch)
    return copy_bytes(launch.tensors)


def test_a_known_outcome_is_an_executions_to_the_bit():
    memo = LaunchMemo()
    first, again, alone = PtxDevice(memo=memo), PtxDevice(memo=memo), PtxDevice(memo=LaunchMemo())
    executed, copied, executed_anew = (run(device, make_fold()) for device in (first, again, alone))
    assert [device.executed for device in (first, again, alone)] == [["fold_fwd_kernel"], [], ["fold_fwd_kernel"]]
    assert copied == executed == executed_anew
    assert again.instructions == first.instructions == alone.instructions
    assert copied["matrix"] != copy_bytes(make_fold().tensors)["matrix"]


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_changed_bit_is_executed(name):
    memo = LaunchMemo()
    run(PtxDevice(memo=memo), make_fold())
    device, changed, expected = PtxDevice(memo=memo), make_fold(), make_fold()
    for launch in (changed, expected):
        launch.tensors[name].view(torch.uint8).view(-1)[-4] ^= 1
    assert run(device, changed) == run(PtxDevice(memo=LaunchMemo()), expected)
    assert device.executed == ["fold_fwd_kernel"]


def share_storage(launch):
    """The same bytes with two arguments in one storage, as where one tensor is passed twice."""
    both = torch.cat([launch.tensors["raw_decay"], launch.tensors["raw_frequency"]])
    return replace(launch, tensors={**launch.tensors, "raw_decay": both[:M], "raw_frequency": both[M:]})


CHANGES = {
    "a scalar": lambda launch: replace(launch, scalars={**launch.scalars, "M": M - 1}),
    "the grid": lambda launch: replace(launch, grid=(1,)),
    "a shape": lambda launch: replace(launch, tensors={**launch.tensors, "base": launch.tensors["base"].view(-1)}),
    "a storage": share_storage,
    "the order in a storage": lambda launch: replace(
        launch,
        tensors={
            **launch.tensors,
            "raw_decay": share_storage(launch).tensors["raw_frequency"],
            "raw_frequency": share_storage(launch).tensors["raw_decay"],
        },
    ),
    "warps": lambda launch: replace(launch, blocks=replace(launch.blocks, warps=2 * launch.blocks.warps)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_else_decides_a_result_is_part_of_the_digest(change):
    launch = make_fold()
    changed = CHANGES[change](launch)
    digests = {digest_launch(each.blocks.warps, each) for each in (launch, changed)}
    assert len(digests) == 2
    assert digest_launch("code", launch) != digest_launch("other code", launch)
    assert digest_launch("code", launch) == digest_launch("code", make_fold())


def test_other_code_is_executed():
    memo = LaunchMemo()
    run(PtxDevice(memo=memo), make_fold())
    device = PtxDevice(memo=memo)
    run(device, CHANGES["warps"](make_fold()))
    assert device.executed == ["fold_fwd_kernel"]


def test_broken_launches_are_always_executed_and_never_kept():
    memo, fault = LaunchMemo(), FAULTS["no gain of the norm"]
    whole = run(PtxDevice(memo=memo), make_fold())
    for _ in range(2):
        broken = PtxDevice(fault=fault, memo=memo)
        assert run(broken, make_fold()) != whole
        assert broken.executed == ["fold_fwd_kernel"]
    repaired = PtxDevice(memo=memo)
    assert run(repaired, make_fold()) == whole
    assert repaired.executed == []


def test_what_follows_a_broken_launch_is_not_kept():
    memo = LaunchMemo()
    broken = PtxDevice(fault=FAULTS["no gain of the norm"], memo=memo)
    found = [run(broken, launch) for launch in (make_fold(), make_edge())][-1]
    unbroken = PtxDevice(memo=memo)
    assert run(unbroken, make_edge()) == found
    assert unbroken.executed == ["edge_fwd_kernel"]


def test_a_launch_that_races_is_not_kept():
    memo = LaunchMemo()
    device = PtxDevice(memo=memo)
    device.races.append(("another kernel", "a race that may have spoilt what this launch reads"))
    run(device, make_fold())
    again = PtxDevice(memo=memo)
    run(again, make_fold())
    assert again.executed == ["fold_fwd_kernel"]
