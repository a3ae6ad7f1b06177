"""Recordings as CUDA graphs would replay them: by address, on executed PTX. No GPU is involved."""

import copy
import gc
import os
import weakref

import pytest
import torch
from alphabet_core import AlphabetError, TrainingStep, value_checks
from alphabet_core.fused import GraphCapture, run_eagerly
from alphabet_ptx import ptx_device
from alphabet_testing.kernels.device import compile_launch
from alphabet_testing.kernels.graphs import FreedMemoryError, NoHost, cuda_graphs, others_poisoned
from alphabet_testing.models import make_batch, make_model
from alphabet_triton import TritonRuntime, TritonTrainer
from alphabet_triton.configurations import list_operators, list_training
from alphabet_triton.fused_adamw import FusedAdamW

pytestmark = pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="compiled kernels, not interpreted")

SIZES = (2, 16, 4, 3)
CLOSE = {"rtol": 2e-5, "atol": 2e-6}


@pytest.fixture
def graphs():
    with ptx_device("sm_89"), cuda_graphs() as graphs:
        yield graphs


def owned(recording):
    """Every tensor that a recording keeps."""
    masks = [mask for mask in (recording.inputs.valid, recording.inputs.gate) if mask is not None]
    targets = [] if recording.targets is None else [recording.targets]
    return [recording.inputs.values, *masks, *targets, recording.result, *recording.owned]


def test_a_replay_of_logits_needs_only_what_its_recording_owns(graphs):
    model, exact = make_model(*SIZES), make_model(*SIZES).double()
    batches = [make_batch(2, length, 2, masks, seed=seed) for seed, (length, masks) in enumerate(
        [(20, "none"), (20, "both"), (33, "none"), (20, "none"), (20, "both"), (33, "none")]
    )]  # fmt: skip
    with torch.no_grad():
        wanted = [exact(values.double(), **masks).tolist() for values, masks in batches]
    runtime = TritonRuntime(model)
    first = [runtime(values, **masks) for values, masks in batches[:3]]
    assert len(graphs) == 3
    gc.collect()
    given = [tensor for values, masks in batches for tensor in (values, *masks.values())]
    kept = [tensor for recording in runtime._recordings for tensor in owned(recording)]
    with others_poisoned(*given, *kept, *first):
        assert model.project.weight.isnan().all()  # the weights that graphs read are the runtime's own
        second = [runtime(values, **masks) for values, masks in batches[3:]]
        found = [logits.tolist() for logits in (*first, *second)]  # outputs of the first calls are still what they were
    assert len(graphs) == 3
    for logits, expected in zip(found, wanted, strict=True):
        torch.testing.assert_close(torch.tensor(logits), torch.tensor(expected), **CLOSE)


def test_a_replay_of_a_step_needs_only_what_its_recording_owns(graphs):
    trainer, exact = TritonTrainer(make_model(*SIZES)), TrainingStep(make_model(*SIZES).double())
    batches = [make_batch(2, length, 2, seed=seed)[0] for seed, length in enumerate([20, 33, 20, 33])]
    targets = torch.tensor([2, 0])
    wanted = [float(exact(values.double(), targets)) for values in batches]
    moved = {name: parameter.tolist() for name, parameter in exact.model.named_parameters()}
    first = [trainer.step(values, targets) for values in batches[:2]]
    assert len(graphs) == 2
    gc.collect()
    kept = [tensor for recording in trainer._recordings for tensor in owned(recording)]
    with others_poisoned(*batches, targets, *kept, *first):
        second = [trainer.step(values, targets) for values in batches[2:]]
        losses = [float(loss) for loss in (*first, *second)]
        found = {name: parameter.tolist() for name, parameter in trainer.model.named_parameters()}
    assert len(graphs) == 2
    assert losses == pytest.approx(wanted, abs=2e-6)
    assert {float(state["step"]) for state in trainer.optimizer.state.values()} == {4.0}
    for name, parameter in found.items():
        torch.testing.assert_close(torch.tensor(parameter), torch.tensor(moved[name]), rtol=1e-4, atol=3e-5, msg=name)


def test_the_double_sees_memory_that_nobody_kept(graphs):
    def record():
        scratch, out = torch.zeros(3), torch.zeros(3)
        return out, GraphCapture()(lambda: out.copy_(scratch + 1.0), [])

    out, replay = record()
    with pytest.raises(FreedMemoryError, match="aten::add"):
        replay()
    del out


def test_what_a_recording_owns_lives_as_long_as_it_does_and_no_longer():
    # A capture that keeps nothing of the work, as a graph does, and a device that keeps no launch.
    seen = []

    class Forgetful:
        def run(self, launch):
            seen.extend((launch.name, name, weakref.ref(tensor)) for name, tensor in launch.tensors.items())

        def unavailable_reason(self, home):
            return None

    recorded = []

    def capture(run, changed):
        recorded.append(1)
        with torch.no_grad():
            run()
        return lambda: None

    runtime = TritonRuntime(make_model(*SIZES), device=Forgetful(), capture=capture)
    values, masks = make_batch(2, 20, 2, "both")
    runtime(values, **masks)
    gc.collect()
    # What was allocated while recording lies in the pool; weights, inputs and logits were there before.
    outside = {"values", "valid", "gate", "project", "taps", "bias", "matrix", "transition", "weight", "logits",
               "synthesis", "through"}  # fmt: skip
    dead = {name for _, name, tensor in seen if tensor() is None}
    assert not dead & outside
    (recording,) = runtime._recordings
    watched = weakref.ref(recording.inputs.values)
    del recording
    runtime._recordings.most = 1
    runtime(values[:, :10].nan_to_num())
    gc.collect()
    assert watched() is None


def test_graphs_share_a_pool_and_do_not_mind_other_threads(graphs):
    runtime = TritonRuntime(make_model(*SIZES))
    for length in (20, 33):
        runtime(make_batch(2, length, 2)[0])
    first, second = graphs
    assert first.pool() is second.pool()
    assert {graph.mode for graph in graphs} == {"thread_local"}
    runtime._recordings.clear()
    graphs.clear()
    del first, second
    gc.collect()
    runtime(make_batch(2, 20, 2)[0])  # a pool ends with its last graph, and another begins
    assert len(graphs) == 1


def test_the_number_of_recordings_is_bounded(graphs):
    runtime = TritonRuntime(make_model(*SIZES))
    runtime._recordings.most = 2
    (short, _), (middle, _), (long, _) = (make_batch(1, length, 2) for length in (5, 6, 7))
    for values in (short, middle, short, long, short):
        runtime(values)
    assert len(runtime._recordings) == 2
    assert len(graphs) == 3  # the middle one was dropped, not the short one, which had been used since
    runtime(middle)
    assert len(graphs) == 4


def test_a_warm_up_that_fails_leaves_parameters_and_optimizer_as_they_were(graphs, monkeypatch):
    trainer = TritonTrainer(make_model(*SIZES))
    values, targets = make_batch(2, 20, 2)[0], torch.tensor([2, 0])
    before = copy.deepcopy(trainer.model.state_dict())
    launch, calls = FusedAdamW.launch, []

    def fail_the_second_time(self):
        launch(self)
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("out of memory")

    monkeypatch.setattr(FusedAdamW, "launch", fail_the_second_time)
    with pytest.raises(AlphabetError, match=r"could not be captured: out of memory\. Pass capture=run_eagerly"):
        trainer.step(values, targets)
    for name, tensor in trainer.model.state_dict().items():
        assert tensor.equal(before[name]), name
    for parameter in trainer.parameters:
        assert not any(tensor.any() for tensor in trainer.optimizer.state[parameter].values())
    assert len(trainer._recordings) == 0
    exact = TrainingStep(make_model(*SIZES).double())
    assert float(trainer.step(values, targets)) == pytest.approx(float(exact(values.double(), targets)), abs=2e-6)


@pytest.mark.parametrize("inside_first", [True, False])
def test_calls_inside_and_outside_inference_mode_alternate(graphs, inside_first):
    model = make_model(*SIZES)
    runtime, (values, _) = TritonRuntime(model), make_batch(2, 20, 2)
    found = []
    for inside in (inside_first, not inside_first, inside_first):
        with torch.inference_mode(inside):
            found.append(runtime(values.clone()).tolist())
        with torch.no_grad():
            model.head.bias += 1.0  # the factors are copied into the same tensors
    assert len(graphs) == 1
    for later, earlier in zip(found[1:], found, strict=False):
        torch.testing.assert_close(torch.tensor(later), torch.tensor(earlier) + 1.0, **CLOSE)


def test_replays_ask_the_device_for_nothing(graphs):
    runtime, trainer = TritonRuntime(make_model(*SIZES)), TritonTrainer(make_model(*SIZES))
    values, masks = make_batch(2, 20, 2, "both")
    targets = torch.tensor([2, 0])
    runtime(values, **masks), trainer.step(values, targets, **masks)
    with NoHost():
        runtime(values, **masks), trainer.step(values, targets, **masks)
    broken = torch.full_like(values, torch.nan)
    assert runtime(broken, **masks).isnan().all()
    with value_checks(True), pytest.raises(AlphabetError, match="values must be finite"):
        runtime(broken, **masks)
    with value_checks(True), pytest.raises(AlphabetError, match="targets must lie in 0"):
        trainer.step(values, torch.tensor([3, 0]), **masks)


# Graph nodes of a step: 205 while autograd, torch's sums and the frames' constraint by torch were part of it.
MOST_NODES = 20


@pytest.mark.parametrize("masks", ["none", "both"])
def test_a_step_has_few_nodes_and_none_of_them_is_torchs(graphs, masks):
    trainer, (values, given) = TritonTrainer(make_model(*SIZES)), make_batch(2, 20, 2, masks)
    trainer.step(values, torch.tensor([2, 0]), **given)
    (graph,) = graphs
    names = [node.name for node in graph.nodes]
    assert len(names) <= MOST_NODES
    assert [name for name in names if name.startswith("aten::")] == []


def test_a_step_by_operators_fills_no_zeros_that_nobody_reads(graphs):
    trainer = TritonTrainer(make_model(*SIZES), microbatch=1)
    trainer.step(make_batch(2, 20, 2)[0], torch.tensor([2, 0]))
    (graph,) = graphs
    filled = [(node.name, place.layout[1]) for node in graph.nodes for place in node.results if "zero" in node.name]
    assert filled
    assert [shape for _, shape in filled if len(shape) > 2] == [], filled


def only_code(ptx):
    """PTX without what names source files: Triton's cache keeps the paths of the checkout that compiled first."""
    code, _, _ = ptx.partition(".section\t.debug")
    return "\n".join(line for line in code.splitlines() if not line.lstrip().startswith((".file", ".loc")))


@pytest.mark.parametrize("microbatch", [1, 2])
def test_parts_of_a_batch_begin_anywhere_and_run_the_kernels_that_are_compiled_ahead(microbatch):
    sizes = (3, 16, 4, 3)
    trainer = TritonTrainer(make_model(*sizes), microbatch=microbatch)
    exact = TrainingStep(make_model(*sizes).double(), microbatch=microbatch)
    values, masks = make_batch(3, 7, 3, "both")
    targets = torch.tensor([2, 0, 1])
    with ptx_device("sm_89") as device, cuda_graphs():
        for _ in range(2):
            loss, wanted = trainer.step(values, targets, **masks), exact(values.double(), targets, **masks)
            assert float(loss) == pytest.approx(float(wanted), abs=2e-6)
    (recording,) = trainer._recordings
    assert recording.inputs.values[microbatch:].data_ptr() % 16 != 0  # 84 bytes a sequence, of masks 7
    assert recording.inputs.valid[microbatch:].data_ptr() % 16 != 0
    launches = list_operators(make_model(*sizes), 1, 64, masked=True)
    launches += list_training(make_model(*sizes), 1, 64, masked=True)
    listed = {only_code(compile_launch(launch).ptx) for launch in launches}
    for launch in device.report:
        assert only_code(launch.ptx) in listed, f"{launch.kernel} ran in a variant that nothing compiled ahead"


def test_a_call_inside_another_capture_is_refused(graphs):
    runtime, (values, _) = TritonRuntime(make_model(*SIZES)), make_batch(2, 20, 2)
    trainer = TritonTrainer(make_model(*SIZES))
    runtime(values)
    for call in (lambda: runtime(values), lambda: trainer.step(values, torch.tensor([2, 0]))):
        with (
            torch.cuda.graph(torch.cuda.CUDAGraph()),
            pytest.raises(AlphabetError, match=r"Triton.* was called while a CUDA graph is .*run_eagerly"),
        ):
            call()

    # Without a graph of its own, a runtime is part of the other one.
    eager = TritonRuntime(runtime.model, capture=run_eagerly)
    wanted, graph, out = eager(values), torch.cuda.CUDAGraph(), torch.zeros(2, 3)
    with torch.cuda.graph(graph):
        out.copy_(eager(values))
    graph.replay()
    assert out.equal(wanted)
