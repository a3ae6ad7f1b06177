"""The driver: launches as their authors write them, on CPU tensors, and nothing left behind."""

import pytest
import torch
import triton
from alphabet_ptx import PtxError, activate, deactivate, ptx_device
from alphabet_ptx.verdicts import judge
from alphabet_testing.ptx.driver_kernels import (
    add_kernel,
    copy_descriptor_kernel,
    count_kernel,
    double_kernel,
    endless_kernel,
    racy_kernel,
    scale_kernel,
    shift_kernel,
    sum_pair_kernel,
    transpose_kernel,
    tuned,
)
from triton.tools.tensor_descriptor import TensorDescriptor


def add(x, y, block=128):
    out = torch.full_like(y, float("nan"))
    n = y.numel()
    add_kernel[lambda given: (triton.cdiv(n, given["BLOCK"]),)](x, y, out, n, x.stride(0), BLOCK=block)
    return out


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90"])
def test_a_launch_as_its_author_writes_it(arch):
    x, y = torch.randn(1000), torch.randn(1000)
    with ptx_device(arch) as device:
        found = add(x, y)
    assert torch.equal(found, x + y)
    (launch,) = device.report
    assert (launch.kernel, launch.grid, launch.warps) == ("add_kernel", (8, 1, 1), 4)
    assert launch.report.steps > 100
    assert device.report.races == device.report.faults == []
    assert f".target {arch}" in launch.ptx


def test_strided_expanded_and_offset_tensors_are_read_where_they_lie():
    base = torch.randn(2001)
    y = torch.randn(1000)
    with ptx_device():
        assert torch.equal(add(base[1::2], y), base[1::2] + y)
        assert torch.equal(add(torch.tensor(2.0).expand(1000), y), y + 2.0)
        assert torch.equal(add(base[3:1003], y), base[3:1003] + y)


def test_what_lies_beyond_a_view_is_out_of_range():
    storage, y = torch.randn(2000), torch.randn(1000)
    with ptx_device() as device:
        with pytest.raises(PtxError, match=r"out of range: 4 bytes .* from the start of 'x', which has 3996"):
            add(storage[:999], y)
        assert [fault.source.line for fault in device.report.faults] == [11]
        assert torch.equal(add(storage[:1000], y), storage[:1000] + y)  # the process survives


def test_what_lies_beyond_a_view_is_there_on_a_gpu():
    storage, y = torch.randn(2000), torch.randn(1000)
    with ptx_device(bounds="storage"):
        assert torch.equal(add(storage[500:1499], y), storage[500:1500] + y)
        with pytest.raises(PtxError, match=r"out of range: 4 bytes .*'the storage of x, x', which has 8000"):
            add(storage[1500:], y)


def test_specialization_is_tritons_own():
    x = torch.randn(1000)
    with ptx_device() as device:
        for values, count in ((x, 512), (x, 511), (x[1:], 512), (x, 1)):
            double_kernel[(1,)](values, count, BLOCK=512)
    divisible, odd, unaligned, one = (launch.ptx for launch in device.report)
    assert ["ld.global.v4" in ptx for ptx in (divisible, odd, unaligned)] == [True, False, False]
    assert ".param .u32" in odd.partition(")")[0]
    assert ".param .u32" not in one.partition(")")[0]  # a one is a constant


def test_heuristics():
    x, out = torch.randn(100), torch.zeros(100)
    with ptx_device():
        scale_kernel[(2,)](x, out, 100, 3.0, BLOCK=64)
    assert torch.equal(out, x * 3)


@pytest.mark.parametrize(("autotune", "launches"), [("first", 1), ("all", 3)])
def test_an_autotuner_takes_the_first_configuration_that_fits(autotune, launches):
    x = torch.ones(100)
    kernel = tuned([(64, 64), (128, 4), (64, 2)], restore_value=["x"])  # 64 warps are more than a block can have
    with ptx_device(autotune=autotune) as device:
        kernel[lambda given: (triton.cdiv(100, given["BLOCK"]),)](x, 100)
        assert kernel.best_config.kwargs == {"BLOCK": 128}
    assert len(device.report) == launches
    assert (x == 2).all()
    assert kernel.cache == {}  # what was found here says nothing about a GPU


def test_tuples_and_absent_arguments():
    x, out = torch.randn(50), torch.zeros(50)
    with ptx_device():
        sum_pair_kernel[(1,)]((x, 5), out, 50, BLOCK=64)
    assert torch.equal(out, x + 5)


def test_scratch_memory_comes_from_the_users_allocator():
    x, out = torch.randn(16, 32), torch.zeros(32, 16)
    asked = []

    def allocate(size, align, stream):
        asked.append((size, align))
        return torch.empty(size, dtype=torch.int8, device="cuda")

    with ptx_device("sm_89"):
        triton.set_allocator(allocate)
        transpose_kernel[(1,)](x, out, 16, 32)
    assert torch.equal(out, x.T)


def test_descriptors_made_by_the_host():
    x, out = torch.randn(16, 32), torch.zeros(16, 32)
    with ptx_device("sm_89"):
        source, target = (TensorDescriptor.from_tensor(part, [16, 32]) for part in (x, out))
        copy_descriptor_kernel[(1,)](source, target, BLOCK=16)
    assert torch.equal(out, x + 1)


def test_hooks_are_called_around_a_launch():
    seen = []
    enter, leave = (lambda _: seen.append("enter")), (lambda _: seen.append("leave"))
    triton.knobs.runtime.launch_enter_hook.add(enter)
    triton.knobs.runtime.launch_exit_hook.add(leave)
    try:
        with ptx_device():
            add(torch.ones(8), torch.ones(8))
    finally:
        triton.knobs.runtime.launch_enter_hook.remove(enter)
        triton.knobs.runtime.launch_exit_hook.remove(leave)
    assert seen == ["enter", "leave"]


def test_an_empty_grid_does_nothing():
    out = torch.zeros(3)
    with ptx_device() as device:
        racy_kernel[(0,)](out, out, 3, BLOCK=4)
    assert len(device.report) == 0
    assert (out == 0).all()


def test_torch_answers_as_on_cuda_inside_the_block_and_only_there():
    before = (torch.cuda.is_available, torch.cuda.current_device, torch.ones(1).device)
    with ptx_device("sm_90"):
        x = torch.ones(3, device="cuda")
        assert x.is_cuda
        assert x.device == torch.device("cuda", 0)
        assert torch.empty(2, device=x.device).to("cuda:0").is_cuda
        assert triton.runtime.driver.active.get_active_torch_device() == x.device
        assert torch.cuda.is_available()
        assert torch.cuda.get_device_capability(x.device) == (9, 0)
        assert torch.cuda.get_device_properties(0).multi_processor_count > 0
        with torch.cuda.device(x.device):
            torch.cuda.synchronize()
        copy = x.cpu()
        x += 1
        assert copy.tolist() == [1.0] * 3
        with pytest.raises(PtxError, match="there is no GPU here"):
            torch.cuda.Event().elapsed_time(torch.cuda.Event())
    assert (torch.cuda.is_available, torch.cuda.current_device, torch.ones(1).device) == before
    assert not x.is_cuda


def test_nothing_is_left_behind_by_an_error():
    before, driver = torch.cuda.is_available, triton.runtime.driver._active
    with pytest.raises(ZeroDivisionError), ptx_device():
        _ = 1 / 0
    assert torch.cuda.is_available is before
    assert triton.runtime.driver._active is driver


def test_blocks_of_two_architectures_do_not_share_kernels():
    x = torch.ones(8)
    with ptx_device("sm_80") as first:
        double_kernel[(1,)](x, 8, BLOCK=8)
        with ptx_device("sm_90") as second:
            double_kernel[(1,)](x, 8, BLOCK=8)
        double_kernel[(1,)](x, 8, BLOCK=8)
    assert [".target sm_80" in launch.ptx for launch in first.report] == [True, True]
    assert [".target sm_90" in launch.ptx for launch in second.report] == [True]
    assert (x == 8).all()


def test_activate_until_deactivate():
    device = activate("sm_80")
    try:
        assert torch.equal(add(torch.ones(4), torch.ones(4)), torch.full((4,), 2.0))
    finally:
        deactivate()
    assert len(device.report) == 1
    assert not torch.ones(1).is_cuda


def test_a_missing_barrier_is_a_race():
    x, scratch, out = torch.arange(200.0), torch.zeros(200), torch.zeros(200)
    with ptx_device() as device:
        shift_kernel[(1,)](x, scratch, out, 200, BARRIER=True, BLOCK=256)
        assert device.report.races == []
        shift_kernel[(1,)](x, scratch, out, 200, BARRIER=False, BLOCK=256)
        assert "driver_kernels.py" in str(device.report.races[0])
    with ptx_device(strict=True), pytest.raises(PtxError, match="race: global read after write"):
        shift_kernel[(1,)](x, scratch, torch.zeros(200), 200, BARRIER=False, BLOCK=256)


def test_whether_a_race_matters():
    x = torch.arange(128, dtype=torch.int32) % 8
    with ptx_device() as device:
        out = torch.zeros(1)
        racy_kernel[(3,)](x, out, 1, BLOCK=4)
        assert out.item() == 2  # the results stay those of the usual order
        counts = torch.zeros(8, dtype=torch.int32)
        count_kernel[(1,)](x, counts, BLOCK=128)
        assert counts.tolist() == [16] * 8
        count_kernel[(1,)](x, torch.empty(8, dtype=torch.int32), BLOCK=128)
    last, zeroed, fresh = device.report
    assert last.changed == ["out"]
    assert zeroed.changed == ["counts"]
    assert fresh.changed is None
    assert "nothing known was written" in fresh.changed_fault.reason
    assert fresh.fault is None
    assert [launch.races_matter for launch in device.report] == [True] * 3
    verdict = judge(device.report)
    assert not verdict.warnings
    assert any("in another order the launch ends in a fault, atom" in error for error in verdict.errors)


def test_an_endless_kernel_ends_with_its_line():
    with ptx_device(limit=2000), pytest.raises(PtxError, match=r"not ended after 2000 steps.*driver_kernels.py"):
        endless_kernel[(1,)](torch.zeros(1), BLOCK=4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arch": "sm_70"}, "arch must be one of sm_80, .*; got 'sm_70'"),
        ({"arch": "gfx942"}, "arch must be one of sm_80, .*; got 'gfx942'"),
        ({"bounds": "none"}, "bounds must be one of view, storage; got 'none'"),
        ({"autotune": "best"}, "autotune must be one of first, all; got 'best'"),
    ],
)
def test_options_that_are_refused(options, message):
    with pytest.raises(PtxError, match=message), ptx_device(**options):
        pass


def test_a_tensor_elsewhere_is_refused():
    with ptx_device(), pytest.raises(PtxError, match="argument x lies on meta; this device runs on tensors of the CPU"):
        add(torch.ones(4, device="meta"), torch.ones(4))
