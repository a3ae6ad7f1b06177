"""A training step as launches and recordings: order, buffers, cache keys. Nothing here runs a kernel."""

import contextlib
import sys

import pytest
import torch
from alphabet_core import AlphabetError
from alphabet_core.fused import run_eagerly, warm_up
from alphabet_testing.kernels.graphs import NoHost
from alphabet_testing.models import make_batch, make_model
from alphabet_triton import TritonRuntime, TritonTrainer
from alphabet_triton.blocks import head_bwd_blocks
from alphabet_triton.buffers import row_stride
from alphabet_triton.configurations import list_configurations, list_inference
from alphabet_triton.forward import forward
from alphabet_triton.fused_adamw import FusedAdamW
from alphabet_triton.inference import infer
from alphabet_triton.launching import RecordingDevice, device_of, record
from alphabet_triton.ops.constraint.launch import launch_constraint
from alphabet_triton.ops.edge.launch import launch_edge_backward
from alphabet_triton.ops.head.launch import launch_head_backward
from alphabet_triton.ops.reader.launch import launch_reader_backward
from alphabet_triton.ops.scan.launch import launch_scan_backward
from alphabet_triton.weights import BankWeights, Weights
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

FORWARD = ["edge_fwd_kernel", "reader_fwd_kernel", "head_fwd_kernel"]
STEP = [
    *2 * ["fold_fwd_kernel"], *FORWARD, "head_bwd_kernel",
    "scan_bwd_kernel", "outer_bwd_kernel", "norm_bwd_kernel", "reader_bwd_kernel", "outer_bwd_kernel",
    "scan_bwd_kernel", "outer_bwd_kernel", "norm_bwd_kernel", "edge_bwd_kernel", *2 * ["fold_bwd_kernel"],
    "adamw_kernel", "turn_kernel", "orthonormalize_kernel",
]  # fmt: skip
B, T, C, D, M, K = 2, 77, 2, 24, 5, 3


def fake(mode, *sizes, device, dtype=torch.float32):
    """A tensor that is only a shape, on a device that need not exist."""
    return FakeTensor(mode, torch.empty(sizes, dtype=dtype, device="meta"), torch.device(device))


def make_weights(mode):
    def bank():
        shapes = ((D, 5), (D,), (2 * M, D), (2 * M,))
        return BankWeights(*(fake(mode, *shape, device="cuda") for shape in shapes))

    project, synthesis, through = (fake(mode, *s, device="cuda") for s in ((D, C), (D, 2 * M), (D,)))
    head, bias = fake(mode, K, 14 * M, device="cuda"), fake(mode, K, device="cuda")
    return Weights(project, bank(), synthesis, through, bank(), head, bias)


@pytest.mark.parametrize("masked", [False, True])
def test_inference_on_fake_cuda_tensors(masked):
    mode = FakeTensorMode()
    weights, values = make_weights(mode), fake(mode, B, T, C, device="cuda")
    mask = fake(mode, B, T, device="cuda", dtype=torch.uint8) if masked else None
    with mode:
        launches, found = record(lambda: infer(values, mask, mask, weights))
    assert [launch.name for launch in launches] == FORWARD
    assert (found.logits.shape, found.descriptor.shape) == ((B, K), (B, 2, M, 7))
    for launch in launches:
        assert launch.flags.get("MASKED", masked) == masked
        for name, tensor in launch.tensors.items():
            assert tensor.device.type == "cuda", name
            assert tensor.is_contiguous(), name
    edge, reader, head = (launch.tensors for launch in launches)
    assert edge["lifted"].shape == (B, D, row_stride(T)) == (B, D, 80)
    for name in ("lifted", "scale", "local", "ends"):
        assert reader[name] is edge[name]
    assert (head["parts"], head["local"], head["ends"]) == (reader["sums"], reader["local_2"], reader["ends_2"])
    assert head["tickets"] is edge["tickets"]
    assert not any(launch.flags["KEEP"] for launch in launches)
    assert (edge["pre"], reader["states"], head["states"]) == (edge["lifted"], reader["local"], head["local"])  # unused


def test_the_backward_on_fake_cuda_tensors():
    mode, stride = FakeTensorMode(), row_stride(T)

    def make(*sizes, dtype=torch.float32):
        return fake(mode, *sizes, device="cuda", dtype=dtype)

    features, tokens, states = make(B, D, stride), make(B, stride), make(B, 2 * M, stride)
    values, taps, matrix, transition = make(B, T, C), make(D, 5), make(2 * M, D), make(2 * M)
    sums, counts = make(B, 7, M, dtype=torch.float64), make(B, 4, dtype=torch.int32)

    def back():
        head = launch_head_backward(sums, sums, counts, make(K, 14 * M), make(B, 2, M, 7), make(B, K))
        reader = launch_reader_backward(
            lifted=features,
            scale=tokens,
            states=states,
            valid=None,
            synthesis=make(D, 2 * M),
            through=make(D),
            taps=taps,
            matrix=matrix,
            transition=transition,
            length=T,
            pre=features,
            scale_2=tokens,
            states_2=states,
            d_sums=head[1],
        )
        scan = launch_scan_backward(states, transition, None, None, T, head[0], reader[2])
        edge = launch_edge_backward(
            values=values,
            valid=None,
            project=make(D, C),
            taps=taps,
            matrix=matrix,
            pre=features,
            scale=tokens,
            d_lifted=reader[0],
            d_scale=reader[1],
            d_drive=scan[0],
        )
        return [[tuple(tensor.shape) for tensor in found] for found in (head, reader, scan, edge)]

    with mode, torch.no_grad():
        launches, shapes = record(back)
    assert [launch.name for launch in launches] == STEP[5:-5]
    assert shapes == [
        [(B, 7, M), (B, 7, M), (K, 14 * M), (K,)],
        [(B, D, 80), (B, 80), (B, 2 * M, 80), (D, 2 * M), (D,), (D, 5), (D,), (2 * M, D), (2 * M,)],
        [(B, 2 * M, 80), (2 * M,)],
        [(B, T, C), (D, C), (D, 5), (D,), (2 * M, D)],
    ]
    assert {tensor.device.type for launch in launches for tensor in launch.tensors.values()} == {"cuda"}
    assert [launch.flags["ALONE"] for launch in launches if "ALONE" in launch.flags] == [True, True, False, False]


def record_step(sizes, batch, length):
    """The launches of a training step on fake tensors, and the model.

    Autograd cannot walk over fake CUDA tensors with a torch that was built without CUDA, so these are of the CPU.
    """
    mode, model = FakeTensorMode(), make_model(*sizes)
    for module in model.modules():
        for store in (module._parameters, module._buffers):
            for name, tensor in store.items():
                if tensor is not None:
                    pretended = fake(mode, *tensor.shape, device="cpu")
                    store[name] = torch.nn.Parameter(pretended) if store is module._parameters else pretended
    values = fake(mode, batch, length, sizes[0], device="cpu")
    mask = fake(mode, batch, length, device="cpu", dtype=torch.uint8)

    def step():
        forward(model, values, mask, mask).sum().backward()
        FusedAdamW(list(model.parameters())).run()
        frames = [bank.frame for bank in model.banks()]
        launch_constraint([frame.base for frame in frames], [frame.tangent.detach() for frame in frames])

    with mode:
        return record(step)[0], model


def test_a_whole_step_on_fake_tensors():
    launches, model = record_step((C, D, M, K), B, T)
    assert [launch.name for launch in launches] == STEP
    for name, parameter in model.named_parameters():
        assert parameter.grad.shape == parameter.shape, name
    (adamw,) = (launch for launch in launches if launch.name == "adamw_kernel")
    assert adamw.scalars["N"] == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.slow
def test_every_configuration_of_the_head_is_listed():
    listed = [launch.blocks for launch in list_configurations() if launch.name == "head_bwd_kernel"]
    for modes in range(1, 200):
        for outputs in (*range(1, 130), 1000):
            assert head_bwd_blocks(modes, outputs) in listed, (modes, outputs)


def test_the_current_device_becomes_the_tensors():
    there = device_of(fake(FakeTensorMode(), 3, device="cuda:1"))
    assert isinstance(there, torch.cuda.device)
    assert there.idx == 1
    assert isinstance(device_of(torch.zeros(3)), contextlib.nullcontext)


@pytest.mark.parametrize("what", ["runtime", "trainer"])
def test_everything_is_launched_on_the_models_device(what, monkeypatch):
    current, model = [], make_model(C, D, M, K)

    @contextlib.contextmanager
    def pretend(tensor):
        current.append(tensor.device)
        yield
        current.pop()

    class WatchingDevice(RecordingDevice):
        def run(self, launch):
            assert current
            super().run(launch)

    monkeypatch.setattr(f"alphabet_triton.{what}.device_of", pretend)
    options = {"device": WatchingDevice(), "capture": run_eagerly}
    if what == "runtime":
        TritonRuntime(model, **options)(torch.randn(B, T, C))
    else:
        TritonTrainer(model, **options).step(torch.randn(B, T, C), torch.arange(B))
    assert len(options["device"].launches) == len(FORWARD if what == "runtime" else STEP)
    assert current == []


@pytest.mark.parametrize(("batch", "length"), [(100_000, 64), (1, 2**24)])
@pytest.mark.parametrize("width", [64, 256])
def test_grids_stay_within_what_a_gpu_takes(batch, length, width):
    for launch in record_step((1, width, 4, 2), batch, length)[0]:
        first, *others = launch.grid
        assert first < 2**31, launch.name
        assert all(size < 2**16 for size in others), launch.name


def make_trainer(capture=run_eagerly, **options):
    recorder = RecordingDevice()
    return recorder, TritonTrainer(make_model(C, D, M, K), device=recorder, capture=capture, **options)


def test_a_step_is_twenty_launches_in_order():
    recorder, trainer = make_trainer()
    trainer.step(make_batch(B, T, C)[0], torch.arange(B))
    assert [launch.name for launch in recorder.launches] == STEP
    assert STEP[2:5] == [launch.name for launch in list_inference(trainer.alphabet, B, T, masked=False)]


def test_a_step_in_parts_updates_once():
    recorder, trainer = make_trainer(microbatch=2)
    trainer.step(make_batch(5, T, C)[0], torch.arange(5) % K)
    names = [launch.name for launch in recorder.launches]
    assert names == 3 * STEP[:-3] + STEP[-3:]


def test_a_shape_is_recorded_once_and_replayed_with_its_batch():
    recorded, replayed = [], []

    def capture(run, changed):
        recorded.append(len(changed))
        return lambda: replayed.append([*trainer._recordings][-1].targets.tolist())

    _, trainer = make_trainer(capture)
    for seed, (batch, length) in enumerate([(2, 9), (2, 9), (2, 10), (3, 10)]):
        trainer.step(make_batch(batch, length, C, seed=seed)[0], (torch.arange(batch) + seed) % K)
    assert len(recorded) == 3
    assert replayed == [[0, 1], [1, 2], [2, 0], [0, 1, 2]]
    state = sum(1 for _ in (*trainer.model.parameters(), *trainer.model.buffers()))
    assert recorded[0] == state + 4  # and averages, squares, step counts, the loss


@pytest.mark.parametrize("masks", ["none", "both"])
def test_a_step_asks_the_device_for_nothing_while_it_is_recorded(masks):
    def capture(run, changed):
        warm_up(run, changed)
        with NoHost():
            run()
        return run

    _, trainer = make_trainer(capture)
    values, given = make_batch(B, T, C, masks)
    trainer.step(values, torch.arange(B), **given)
    assert len(trainer._recordings) == 1
    with NoHost(), pytest.raises(AssertionError, match="asks the device"):
        bool(values.isnan().any())


def count_host_work(call):
    """How many functions a call enters, Python's and C's, and how many operators of torch's it runs."""
    functions, operators = [], []

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            operators.append(function)
            return function(*args, **(kwargs or {}))

    call()
    sys.setprofile(lambda frame, event, argument: functions.append(event) if event.endswith("call") else None)
    try:
        call()
    finally:
        sys.setprofile(None)
    with Operators():
        call()
    return len(functions), len(operators)


def test_the_host_does_little_per_replay():
    """Budgets of calls, not of time. Before views and reasons were kept: 221 and 710 functions, 10 and 71 operators."""

    def forget(run, changed):
        return lambda: None

    runtime = TritonRuntime(make_model(C, D, M, K), device=RecordingDevice(), capture=forget)
    _, trainer = make_trainer(forget)
    values, targets = make_batch(B, T, C)[0], torch.arange(B)
    functions, operators = count_host_work(lambda: runtime(values))
    assert functions <= 200
    assert operators <= 3
    functions, operators = count_host_work(lambda: trainer.step(values, targets))
    assert functions <= 450
    assert operators <= 4


def test_masks_are_part_of_a_recordings_key():
    _, trainer = make_trainer()
    values, given = make_batch(B, T, C, "both")
    trainer.step(values, torch.arange(B), **given)
    trainer.step(values.nan_to_num(), torch.arange(B))
    trainer.step(values, torch.arange(B), **given)
    keys = trainer._recordings.keys()
    assert [masked for *_, masked, _, _, _ in keys] == [False, True]  # by their last use


def test_what_a_graph_holds_by_address_is_recorded_anew_when_it_moves():
    _, trainer = make_trainer()
    values, _ = make_batch(B, T, C)
    trainer.step(values, torch.arange(B))
    first = trainer._adamw
    trainer.step(values, torch.arange(B))
    assert trainer._adamw is first
    trainer.model.project.weight.data = trainer.model.project.weight.data.clone()
    trainer.step(values, torch.arange(B))
    assert trainer._adamw is not first
    assert len(trainer._recordings) == 1


def test_mistakes_are_found_before_anything_is_recorded():
    recorder, trainer = make_trainer()
    values, _ = make_batch(B, T, C)
    with pytest.raises(AlphabetError, match="targets must be int64 class indices"):
        trainer.step(values, torch.zeros(B))
    with pytest.raises(AlphabetError, match="targets"):
        trainer.step(values, torch.tensor([0, K]))
    with pytest.raises(AlphabetError, match="values"):
        trainer.step(torch.full_like(values, torch.nan), torch.arange(B))
    assert recorder.launches == []
    assert len(trainer._recordings) == 0


def test_the_optimizers_state_is_torchs_in_name_and_shape():
    _, trainer = make_trainer()
    trainer.step(make_batch(B, T, C)[0], torch.arange(B))
    for parameter in trainer.parameters:
        state = trainer.optimizer.state[parameter]
        assert {name: tensor.shape for name, tensor in state.items()} == {
            "step": (), "exp_avg": parameter.shape, "exp_avg_sq": parameter.shape,
        }  # fmt: skip
        assert float(state["step"]) == 1.0


def test_on_a_cpu_the_reference_trains_and_says_so():
    trainer = TritonTrainer(make_model(C, D, M, K))
    values, _ = make_batch(B, T, C)
    assert trainer.path(values).startswith("reference: the model is on cpu")
    assert "reference" in repr(trainer)
    assert torch.isfinite(trainer.step(values, torch.arange(B)))
