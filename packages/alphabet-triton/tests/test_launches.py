"""A forward pass and a training step as launches: order, shapes, devices and grids. Nothing here runs a kernel."""

import contextlib

import pytest
import torch
from alphabet_core.fused import run_eagerly
from alphabet_testing.models import make_batch, make_model
from alphabet_triton import TritonRuntime, TritonTrainer
from alphabet_triton.blocks import head_bwd_blocks, loss_blocks
from alphabet_triton.buffers import POWERS, row_stride
from alphabet_triton.configurations import list_configurations, list_inference
from alphabet_triton.fused_adamw import FusedAdamW
from alphabet_triton.inference import infer
from alphabet_triton.inputs import Inputs
from alphabet_triton.launching import RecordingDevice, device_of, record
from alphabet_triton.ops.edge.launch import launch_edge_backward
from alphabet_triton.ops.head.launch import launch_head_backward
from alphabet_triton.ops.reader.launch import launch_reader_backward
from alphabet_triton.ops.scan.launch import launch_scan_backward
from alphabet_triton.step import covers_step, run_step
from alphabet_triton.weights import BankWeights, Weights
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

FORWARD = ["edge_fwd_kernel", "reader_fwd_kernel", "head_fwd_kernel"]
UPDATE = ["adamw_kernel", "turn_kernel", "orthonormalize_kernel"]
STEP = [
    "fold_fwd_kernel", *FORWARD, "loss_kernel", "scan_bwd_kernel", "norm_bwd_kernel", "reader_bwd_kernel",
    "scan_bwd_kernel", "norm_bwd_kernel", "edge_bwd_kernel", "products_bwd_kernel", "totals_kernel", "fold_bwd_kernel",
    *UPDATE,
]  # fmt: skip
# By operators and autograd, as for parts of a batch.
BACKWARD = [
    "head_bwd_kernel", "scan_bwd_kernel", "outer_bwd_kernel", "norm_bwd_kernel", "reader_bwd_kernel",
    "outer_bwd_kernel", "scan_bwd_kernel", "outer_bwd_kernel", "norm_bwd_kernel", "edge_bwd_kernel",
]  # fmt: skip
OPERATORS = ["fold_fwd_kernel", *FORWARD, *BACKWARD, "fold_bwd_kernel"]
B, T, C, D, M, K = 2, 77, 2, 24, 5, 3
TARGETS = torch.arange(B)


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
    values, taps, matrix, transition = make(B, T, C), make(D, 5), make(2 * M, D), make(2 * M, POWERS)
    sums, counts = make(B, 7, M), make(B, 4, dtype=torch.int32)

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
    assert [launch.name for launch in launches] == BACKWARD
    assert shapes == [
        [(B, 7, M), (B, 7, M), (K, 14 * M), (K,)],
        [(B, D, 80), (B, 80), (B, 2 * M, 80), (D, 2 * M), (D,), (D, 5), (D,), (2 * M, D), (2 * M,)],
        [(B, 2 * M, 80), (2 * M,)],
        [(B, T, C), (D, C), (D, 5), (D,), (2 * M, D)],
    ]
    assert {tensor.device.type for launch in launches for tensor in launch.tensors.values()} == {"cuda"}
    assert [launch.flags["ALONE"] for launch in launches if "ALONE" in launch.flags] == [True, True, False, False]


def record_step(sizes, batch, length, loss="cross_entropy"):
    """The launches of a training step on fake tensors, and the model."""
    mode, model = FakeTensorMode(), make_model(*sizes)
    for module in model.modules():
        for store in (module._parameters, module._buffers):
            for name, tensor in store.items():
                if tensor is not None:
                    pretended = fake(mode, *tensor.shape, device="cuda")
                    store[name] = torch.nn.Parameter(pretended) if store is module._parameters else pretended
    mask = fake(mode, batch, length, device="cuda", dtype=torch.uint8)
    inputs = Inputs(fake(mode, batch, length, sizes[0], device="cuda"), mask, mask)
    targets = fake(mode, batch, device="cuda", dtype=torch.int64)
    if loss != "cross_entropy":
        targets = fake(mode, batch, sizes[3], device="cuda")
    with mode, torch.no_grad():
        adamw, measured = FusedAdamW(list(model.parameters())), fake(mode, device="cuda")
        assert covers_step(model, loss, targets, adamw)
        return record(lambda: run_step(model, inputs, targets, loss=loss, adamw=adamw, measured=measured))[0], model


@pytest.mark.parametrize("loss", ["cross_entropy", "multilabel", "mse"])
def test_a_whole_step_on_fake_cuda_tensors(loss):
    launches, model = record_step((C, D, M, K), B, T, loss)
    assert [launch.name for launch in launches] == STEP
    for launch in launches:
        for name, tensor in launch.tensors.items():
            assert tensor.device.type == "cuda", name
            assert tensor.is_contiguous(), name
    (adamw,) = (launch for launch in launches if launch.name == "adamw_kernel")
    assert adamw.scalars["N"] == sum(parameter.numel() for parameter in model.parameters())
    for number, parameter in enumerate(model.parameters()):
        assert adamw.tensors[f"p_{number}"].shape == parameter.shape  # updated where it lies
    assert [launch.flags["ALONE"] for launch in launches if "ALONE" in launch.flags] == [True, True, False, False]


def test_what_one_program_of_launches_does_not_cover():
    def covered(model, loss="cross_entropy", targets=TARGETS, change=lambda model: None):
        change(model)
        return covers_step(model, loss, targets, FusedAdamW([p for p in model.parameters() if p.requires_grad]))

    def by_columns(model):
        model.project.weight.data = model.project.weight.data.T.contiguous().T

    def base_by_columns(model):
        model.direct.frame.base = model.direct.frame.base.T.contiguous().T

    model = make_model(C, D, M, K)
    assert covered(model)
    assert covered(model, "mse", torch.zeros(B, K))
    assert not covered(model, "mse", torch.zeros(B, K, dtype=torch.float64))
    assert not covered(model, "a loss of the future")
    assert not covered(make_model(C, D, M, K, variant="fixed-poles"))
    assert not covered(make_model(C, D, M, K), change=by_columns)
    assert not covered(make_model(C, D, M, K), change=base_by_columns)
    assert not covered(make_model(C, D, M, K), change=lambda model: model.head.bias.requires_grad_(False))


@pytest.mark.slow
def test_every_configuration_of_the_head_and_the_loss_is_listed():
    launches = list(list_configurations())
    for kernel, choose in (("head_bwd_kernel", head_bwd_blocks), ("loss_kernel", loss_blocks)):
        listed = [launch.blocks for launch in launches if launch.name == kernel]
        for modes in range(1, 200):
            for outputs in (*range(1, 130), 1000):
                assert choose(modes, outputs) in listed, (modes, outputs)


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


def test_a_step_is_seventeen_launches_in_order():
    recorder, trainer = make_trainer()
    trainer.step(make_batch(B, T, C)[0], torch.arange(B))
    assert [launch.name for launch in recorder.launches] == STEP
    assert len(STEP) == 17
    assert STEP[1:4] == [launch.name for launch in list_inference(trainer.alphabet, B, T, masked=False)]


def test_a_step_in_parts_updates_once():
    recorder, trainer = make_trainer(microbatch=2)
    trainer.step(make_batch(5, T, C)[0], torch.arange(5) % K)
    names = [launch.name for launch in recorder.launches]
    assert names == 3 * OPERATORS + UPDATE


def test_a_method_of_a_subclass_is_called():
    class Doubled(TritonTrainer):
        def measure(self, outputs, targets):
            return 2.0 * super().measure(outputs, targets)

    recorder = RecordingDevice()
    trainer = Doubled(make_model(C, D, M, K), device=recorder, capture=run_eagerly)
    trainer.step(make_batch(B, T, C)[0], torch.arange(B))
    assert [launch.name for launch in recorder.launches] == OPERATORS + UPDATE
