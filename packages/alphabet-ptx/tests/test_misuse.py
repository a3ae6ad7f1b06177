"""A driver that is misused: one sentence each, the process survives, and nothing is left behind."""

import mmap
import threading

import numpy as np
import pytest
import torch
import triton
from alphabet_ptx import PtxError, activate, deactivate, ptx_device
from alphabet_ptx.launcher import active_device
from alphabet_testing.ptx.misuse_kernels import (
    choose_kernel,
    copy_kernel,
    general_kernel,
    halves_kernel,
    spin_kernel,
    strange_kernel,
    tuned_copy,
)


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    before = vars(torch.cuda).copy(), torch.Generator, threading.Thread.run, triton.runtime.driver._active
    yield
    assert (vars(torch.cuda), torch.Generator, threading.Thread.run, triton.runtime.driver._active) == before
    assert not torch.zeros(1).is_cuda
    with ptx_device() as device:  # the process survives
        assert launch().tolist() == [0.0, 1.0, 2.0, 3.0]
        assert len(device.report) == 1


def launch(x=None, out=None, grid=(1,)):
    x = torch.arange(4.0) if x is None else x
    out = torch.zeros(4) if out is None else out
    copy_kernel[grid](x, out, 4, BLOCK=4)
    return out


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ((-1,), "the grid of copy_kernel is -1 x 1 x 1; along x a GPU takes from 0 to 2147483647 programs"),
        ((2**31,), "the grid of copy_kernel is 2147483648 x 1 x 1; along x a GPU takes"),
        ((1, 70_000), "along y a GPU takes from 0 to 65535 programs"),
        ((2**30,), "1073741824 x 1 x 1, more programs than the 10000000 steps that a launch may take"),
    ],
)
def test_a_grid_that_cannot_be_is_refused_at_once(grid, message):
    with ptx_device() as device:
        with pytest.raises(PtxError, match=message):
            launch(grid=grid)
        assert len(device.report.faults) == 1  # a test that catches the error fails all the same


def test_tensors_without_elements():
    with ptx_device() as device:
        copy_kernel[(1,)](torch.empty(0), torch.empty(0), 0, BLOCK=4)
        assert device.report.faults == []
        with pytest.raises(PtxError, match="from the start of 'x', which has 0"):
            launch(torch.empty(0))


def test_a_file_that_is_mapped_for_reading_may_be_read_and_not_written(tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(np.arange(4, dtype=np.float32).tobytes())
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        with pytest.warns(UserWarning, match="not writable"):
            weights = torch.frombuffer(mapped, dtype=torch.float32)
        with ptx_device():
            assert launch(weights).tolist() == [0.0, 1.0, 2.0, 3.0]
            with pytest.raises(PtxError, match="'out', which is read-only"):
                launch(out=weights)
        assert weights.tolist() == [0.0, 1.0, 2.0, 3.0]
        del weights


def test_absent_arguments_strings_and_numbers_that_are_not_specialized():
    x, out = torch.arange(4.0), torch.zeros(4)
    with ptx_device() as device:
        choose_kernel[(1,)](x, None, out, 4, MODE="negative", BLOCK=4)
        assert out.tolist() == [0.0, -1.0, -2.0, -3.0]
        choose_kernel[(1,)](x, x, out, 4, MODE="other", BLOCK=4)
        assert out.tolist() == [0.0, 2.0, 4.0, 6.0]
        for factor in (1, 16, True, 0.5, 2**40):
            general_kernel[(1,)](x, out, 4, factor, BLOCK=4)
            assert out.tolist() == [i * float(factor) for i in range(4)]
    assert len({launch.ptx for launch in list(device.report)[2:4]}) == 1  # one and sixteen are numbers like others


def test_numbers_in_half_precision():
    with ptx_device():
        out = torch.zeros(2)
        halves_kernel[(1,)](out, 1.0 + 2.0**-10, -3.0)
    assert out.tolist() == [1.0 + 2.0**-10, -3.0]


def test_a_loop_without_end_ends_with_its_line():
    with ptx_device(limit=3000), pytest.raises(PtxError, match=r"not ended after 3000 steps.*misuse_kernels.py:3[3-6]"):
        spin_kernel[(1,)](torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32))


def test_an_unknown_instruction_is_named_with_its_line():
    found = r"unknown instruction dp4a.s32.s32 \(PTX line \d+, instruction `dp4a.*source misuse_kernels.py:4[2-4]"
    with ptx_device(), pytest.raises(PtxError, match=found):
        strange_kernel[(1,)](torch.zeros(1, dtype=torch.int32))


def test_a_kernel_for_another_backend_is_refused():
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = {"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    source = ASTSource(copy_kernel, signature, constexprs={"BLOCK": 4})
    with ptx_device():
        compiled = triton.compile(source, target=GPUTarget("hip", "gfx942", 64))
        with pytest.raises(PtxError, match="kernel copy_kernel was compiled for hip; this device runs PTX"):
            compiled[(1, 1, 1)](torch.zeros(4), torch.zeros(4), 4)


def test_an_interpreter_is_no_device(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(PtxError, match="TRITON_INTERPRET is set, so kernels would be interpreted"), ptx_device():
        pass
    monkeypatch.delenv("TRITON_INTERPRET")


def test_compiling_ahead_launches_nothing():
    with ptx_device() as device:
        compiled = copy_kernel.warmup(torch.float32, torch.float32, 4, BLOCK=4, grid=(1,))
        copy_kernel.run(torch.zeros(4), torch.zeros(4), 4, BLOCK=4, grid=(1,), warmup=True)
        assert ".target sm_89" in compiled.asm["ptx"]
        assert len(device.report) == 0


def test_a_launch_outside_the_block_is_refused():
    with ptx_device():
        compiled = copy_kernel[(1,)](torch.zeros(4), torch.zeros(4), 4, BLOCK=4)
    with pytest.raises(PtxError, match="launched outside of it; launch it inside"):
        active_device()
    with pytest.raises(RuntimeError, match="0 active drivers"):  # Triton's own words, where there is no GPU
        compiled[(1, 1, 1)](torch.zeros(4), torch.zeros(4), 4)


def fail(*_):
    raise ZeroDivisionError("of the user")


def test_an_autotuner_whose_hook_raises():
    kernel = tuned_copy([(4, 1, fail)])
    with ptx_device() as device:
        with pytest.raises(ZeroDivisionError, match="of the user"):
            kernel[(1,)](torch.zeros(4), torch.zeros(4), 4)
        assert not device.dry
        assert kernel.cache == {}


class OwnTuner(triton.runtime.Autotuner):
    """A tuner as packages write them: its own `run`, which takes times by `_bench` and keeps what it found."""

    def run(self, *arguments, **options):
        self.nargs = dict(zip(self.arg_names, arguments, strict=False))
        self.times = [self._bench(*arguments, config=config, **options)[0] for config in self.configs]
        best = self.configs[self.times.index(min(self.times))]
        return self.fn.run(*arguments, **options, **best.all_kwargs())


def test_a_tuner_of_a_package():
    tuned = tuned_copy([(4, 64, None), (8, 1, None), (4, 1, None)], do_bench=fail)
    own = OwnTuner(tuned.fn, tuned.arg_names, tuned.configs, ["n"], None, None, do_bench=fail)
    for _ in range(2):
        with ptx_device() as device:
            out = torch.zeros(4)
            own[(1,)](torch.arange(4.0), out, 4)
            own[(1,)](torch.arange(4.0), out, 4)
            assert own.times == [float("inf"), 1.0, float("inf")]  # 64 warps are more than a block can have
            assert out.tolist() == [0.0, 1.0, 2.0, 3.0]
            assert len(device.report) == 2
    assert own._do_bench is fail


def test_an_autotuner_of_which_nothing_fits():
    kernel = tuned_copy([(4, 64, None), (4, 128, None)])
    with ptx_device(), pytest.raises(triton.runtime.errors.OutOfResources, match="Hardware limit: 1024"):
        kernel[(1,)](torch.zeros(4), torch.zeros(4), 4)


def test_a_fault_in_a_configuration_that_is_tried():
    kernel = tuned_copy([(4, 1, None), (8, 1, None)])
    with ptx_device(autotune="all") as device:
        with pytest.raises(PtxError, match="'x', which has 8"):
            kernel[(1,)](torch.zeros(2), torch.zeros(4), 4)
        assert not device.dry
        assert len(device.report.faults) == 1
        kernel[(1,)](torch.zeros(4), torch.zeros(4), 4)  # and it can be tuned afterwards
        assert kernel.best_config.kwargs == {"BLOCK": 4}


@pytest.mark.parametrize(("hook", "launches"), [("launch_enter_hook", 0), ("launch_exit_hook", 1)])
def test_a_hook_that_raises(hook, launches):
    hooks = getattr(triton.knobs.runtime, hook)
    hooks.add(fail)
    try:
        with ptx_device() as device:
            with pytest.raises(ZeroDivisionError, match="of the user"):
                launch()
            assert len(device.report) == launches
    finally:
        hooks.remove(fail)


def test_threads_of_a_block_have_its_device():
    found = []

    def work():
        out = launch(out=torch.zeros(4, device="cuda"))
        found.append((out.is_cuda, out.tolist()))

    with ptx_device() as device:
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [(True, [0.0, 1.0, 2.0, 3.0])] * 3
    assert len(device.report) == 3


def test_a_thread_that_outlives_the_block_sees_no_device():
    ended, found = threading.Event(), []

    def work():
        ended.wait(60)
        found.append(torch.zeros(1).is_cuda)

    thread = threading.Thread(target=work)
    with ptx_device():
        thread.start()
    ended.set()
    thread.join()
    assert found == [False]


def test_a_second_thread_cannot_open_a_block():
    found = []

    def work():
        try:
            with ptx_device("sm_90"):
                found.append("opened")
        except PtxError as error:
            found.append(str(error))

    with ptx_device("sm_80") as device:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        launch()
    assert found == ["a ptx_device block is open in another thread, and Triton has one device at a time; let it end"]
    assert ".target sm_80" in device.report[0].ptx


def test_activate_and_blocks_end_in_their_order():
    with ptx_device(), pytest.raises(PtxError, match="activate was called inside a ptx_device block"):
        activate()
    outer = activate("sm_80")
    try:
        with ptx_device("sm_90") as inner:
            with pytest.raises(PtxError, match="deactivate was called inside a ptx_device block; leave the block"):
                deactivate()
            launch()
        launch()
        assert [len(outer.report), len(inner.report)] == [1, 1]
        outer = activate("sm_89")  # in its place
        launch()
        assert ".target sm_89" in outer.report[0].ptx
    finally:
        deactivate()
    deactivate()


def test_what_is_asked_of_torch_by_name_or_number():
    with ptx_device():
        torch.cuda.synchronize(device="cuda:0")
        torch.cuda.set_device(device=0)
        torch.cuda.reset_peak_memory_stats()
        assert torch.cuda.mem_get_info()[1] == torch.cuda.get_device_properties(0).total_memory
        assert torch.zeros(1, device=0).is_cuda
        assert torch.zeros(1, pin_memory=True).pin_memory().is_cuda
        generator = torch.Generator(device="cuda").manual_seed(3)
        assert torch.rand(2, device="cuda", generator=generator).is_cuda
        torch.cuda.manual_seed(5)
        state, first = torch.cuda.get_rng_state(), torch.rand(1)
        torch.cuda.set_rng_state(state)
        assert torch.equal(torch.rand(1), first)
        with torch.cuda.device(0), torch.cuda.stream(stream=torch.cuda.Stream()), torch.device("cuda"):
            assert torch.zeros(1).is_cuda
        event = torch.cuda.current_stream().record_event()
        assert event.query()
        with pytest.raises(PtxError, match="cuda:1 was asked for; inside a ptx_device block there is one device"):
            torch.zeros(1, device="cuda:1")


class Doubled(torch.autograd.Function):
    """Twice its argument; asks for a device in both directions."""

    @staticmethod
    def forward(_, x):
        assert x.is_cuda
        return launch(x * 2, torch.empty_like(x))

    @staticmethod
    def backward(_, gradient):
        assert gradient.is_cuda
        return launch(gradient * 2, torch.empty(4, device="cuda"))


@pytest.mark.parametrize("way", ["method", "backward", "grad"])
def test_a_backward_pass_sees_the_device(way):
    with ptx_device() as device:
        x = torch.ones(4, requires_grad=True)
        out = Doubled.apply(x)
        if way == "method":
            out.sum().backward()
        elif way == "backward":
            torch.autograd.backward([out], [torch.ones(4)])
        found = torch.autograd.grad(out, x, torch.ones(4))[0] if way == "grad" else x.grad
        assert found.tolist() == [2.0] * 4
        assert len(device.report) == 2


def test_a_default_device_that_was_set_inside_is_the_cpu_outside():
    with ptx_device():
        torch.set_default_device("cuda")
        assert launch().is_cuda
    assert torch.zeros(1).device == torch.device("cpu")
    torch.set_default_device(None)
