"""What can be said of the runtime without a GPU and without the interpreter: paths, plans, recordings."""

import subprocess
import sys

import pytest
import torch
from alphabet_core import Alphabet, AlphabetConfig, AlphabetError
from alphabet_core.fused import GraphCapture, run_eagerly
from alphabet_testing.models import make_batch, make_model
from alphabet_triton import TritonRuntime, TritonTrainer
from alphabet_triton.configurations import list_inference, list_training
from alphabet_triton.dispatch import memory_fallback_reason
from alphabet_triton.launching import RecordingDevice
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode


def test_on_a_cpu_the_reference_runs_and_says_so():
    model, (values, _) = make_model(), make_batch(2, 30, 2)
    runtime = TritonRuntime(model)
    assert runtime.path(values) == (
        "reference: the model is on cpu; move it to a CUDA device with model.cuda(), or set TRITON_INTERPRET=1 to "
        "interpret the kernels"
    )
    assert "reference" in repr(runtime)
    with torch.no_grad():
        assert torch.equal(runtime(values), model(values))


REASONS = {
    "clock": (make_model, {"time_delta": torch.ones(2, 30)}, "time_delta is given"),
    "double": (lambda: make_model().double(), {}, "the model is torch.float64"),
    "outputs": (lambda: Alphabet(AlphabetConfig(2, 8, 2, 70_000)), {}, "outputs are 70000"),
    "lags": (lambda: Alphabet(AlphabetConfig(2, 64, 16, 5, lags=(1, 3))), {}, "lags are"),
    "variant": (
        lambda: Alphabet(AlphabetConfig.variant("one-scan", channels=2, width=8, modes=2, outputs=2)), {}, "structural",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REASONS)
def test_what_the_kernels_do_not_cover_takes_the_reference(case):
    make, given, reason = REASONS[case]
    model = make()
    values = make_batch(2, 30, 2)[0].to(model.project.weight.dtype)
    runtime = TritonRuntime(model, device=RecordingDevice())
    assert runtime.path(values, **given).startswith("reference: ")
    assert reason in runtime.path(values, **given)
    with torch.no_grad():
        assert torch.equal(runtime(values, **given), model(values, **given))


def test_a_forward_pass_is_three_launches_in_order():
    recorder = RecordingDevice()
    runtime = TritonRuntime(make_model(), device=recorder, capture=run_eagerly)
    runtime(make_batch(3, 50, 2)[0])
    names = [launch.name for launch in recorder.launches]
    assert names == ["edge_fwd_kernel", "reader_fwd_kernel", "head_fwd_kernel"]
    assert not any(launch.flags["KEEP"] for launch in recorder.launches)  # nothing is stored for a backward pass


def test_a_shape_is_recorded_once_and_replayed():
    recorder, recorded, replayed = RecordingDevice(), [], []

    def capture(run, changed):
        run()
        recorded.append(1)
        return lambda: replayed.append(1)

    runtime = TritonRuntime(make_model(), device=recorder, capture=capture)
    for shape in ((3, 50), (3, 50), (3, 51), (3, 50)):
        runtime(torch.randn(*shape, 2))
    runtime(torch.randn(3, 50, 2), valid=torch.ones(3, 50, dtype=torch.bool))
    assert len(recorded) == 3
    assert len(replayed) == 5
    assert len(recorder.launches) == 9


def recordings(runtime):
    return list(runtime._recordings)


def test_a_replay_reads_what_the_call_copied():
    seen = []

    def capture(run, changed):
        return lambda: seen.append(recordings(runtime)[0].inputs.values.clone())

    model = make_model()
    runtime = TritonRuntime(model, device=RecordingDevice(), capture=capture)
    first, second = torch.randn(2, 20, 2), torch.randn(2, 20, 2)
    runtime(first)
    runtime(second)
    assert torch.equal(torch.stack(seen), torch.stack((first, second)))
    weights = runtime._weights.project
    with torch.no_grad():
        model.project.weight *= 2.0
    runtime(first)
    assert runtime._weights.project is weights  # what recorded launches point to
    assert torch.equal(weights, model.project.weight)


def make_double(what, model):
    return (TritonRuntime if what == "runtime" else TritonTrainer)(model, device=RecordingDevice(), capture=run_eagerly)


def call_double(double, values):
    return double(values) if isinstance(double, TritonRuntime) else double.step(values, torch.arange(len(values)))


@pytest.mark.parametrize("what", ["runtime", "trainer"])
def test_a_model_that_moved_after_it_was_recorded_is_recorded_anew_or_refused(what):
    model, (values, _) = make_model(), make_batch(2, 20, 2)
    double = make_double(what, model)
    double._device.unavailable_reason = lambda home: None if home.type == "cpu" else f"the model is on {home}"
    call_double(double, values)
    (before,) = double._recordings
    model.project.weight.data = model.project.weight.data.clone()  # to other memory
    call_double(double, values)
    (after,) = double._recordings
    assert (after is before) == (what == "runtime")  # whose recordings read weights of the runtime's own
    model.to("meta")
    assert double.path(values) == "reference: the model is on meta"
    with pytest.raises(AlphabetError, match="values is on cpu but the model is on meta"):
        call_double(double, values)


def test_a_model_on_two_devices_is_not_fused():
    mode = FakeTensorMode()
    here, there = (FakeTensor(mode, torch.empty(5, device="meta"), torch.device("cuda", index)) for index in (0, 1))
    assert memory_fallback_reason([here, here]) is None
    assert memory_fallback_reason([here, there]) == (
        "the model is on cuda:0 and on cuda:1; move it to one device with .to(device)"
    )


def test_a_model_made_in_inference_mode_is_not_fused():
    with torch.inference_mode():
        model = make_model()
    runtime, (values, _) = TritonRuntime(model, device=RecordingDevice()), make_batch(2, 20, 2)
    assert "was made inside torch.inference_mode()" in runtime.path(values)
    with torch.inference_mode():
        assert torch.isfinite(runtime(values)).all()


def test_capture_fails_with_what_to_do(monkeypatch):
    def fail():
        raise RuntimeError("CUDA error: out of memory.\nFor debugging consider this.\nAnd that.")

    monkeypatch.setattr(torch.cuda, "Stream", fail)
    with pytest.raises(AlphabetError, match=r"could not be captured: CUDA error: out of memory\. Pass capture=run_eag"):
        GraphCapture()(lambda: None, [])


@pytest.mark.parametrize("width", [16, 24, 64, 128, 200])
def test_grids_cover_every_token_in_chunks_that_all_launches_share(width):
    launches = list_inference(make_model(3, width, 5, 4), 2, 77, masked=False)
    (chunk,) = {launch.blocks.sizes["BT"] for launch in launches}
    for launch in launches:
        assert launch.grid == (2 * -(-77 // chunk),)


@pytest.mark.parametrize("masked", [False, True])
def test_every_argument_of_every_launch_is_a_parameter_of_its_kernel(masked):
    model = make_model(2, 24, 5, 3)
    for launch in (*list_inference(model, 2, 40, masked=masked), *list_training(model, 2, 40, masked=masked)):
        given = [*launch.tensors, *launch.scalars, *launch.constants]
        assert sorted(given) == sorted(launch.kernel.arg_names), launch.name


@pytest.mark.slow
def test_without_triton_the_package_imports_and_says_what_is_missing():
    code = (
        "import sys; sys.modules['triton'] = None; import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'triton' else find(name, *rest)\n"
        "import torch; from alphabet_core import Alphabet, AlphabetConfig\n"
        "from alphabet_triton import TritonRuntime, TritonTrainer\n"
        "runtime = TritonRuntime(Alphabet(AlphabetConfig(2, 8, 2, 2)))\n"
        "print(runtime.path(torch.zeros(1, 5, 2))); runtime(torch.zeros(1, 5, 2))\n"
        "trainer = TritonTrainer(runtime.model); print(trainer.path(torch.zeros(1, 5, 2)))\n"
        "trainer.step(torch.zeros(1, 5, 2), torch.tensor([1]))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout == 2 * "reference: triton is not installed; on Linux, pip install triton\n"
