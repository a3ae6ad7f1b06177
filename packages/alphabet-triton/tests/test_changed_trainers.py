"""What is changed about a trainer or a runtime between replays: as with the reference, on executed PTX, in float64."""

import copy
import os
import pickle

import pytest
import torch
from alphabet_core import AlphabetError, TrainingStep, value_checks
from alphabet_core.fused import run_eagerly
from alphabet_ptx import ptx_device
from alphabet_testing.kernels.graphs import cuda_graphs
from alphabet_testing.models import make_batch, make_model
from alphabet_triton import TritonRuntime, TritonTrainer
from alphabet_triton.launching import RecordingDevice
from torch.optim.optimizer import register_optimizer_step_post_hook

pytestmark = pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="compiled kernels, not interpreted")

SIZES = (2, 16, 4, 3)


@pytest.fixture
def graphs():
    with ptx_device("sm_89"), cuda_graphs() as graphs:
        yield graphs


def train_a_part(trainer):
    trainer.optimizer = torch.optim.AdamW(trainer.parameters[:3], lr=1e-3)


def leave_one_out(trainer):
    trainer.optimizer.param_groups[0]["params"].pop()


def wrap_step(trainer):
    step = trainer.optimizer.step

    def step_and_zero():
        step()
        with torch.no_grad():
            trainer.model.head.bias.zero_()

    trainer.optimizer.step = step_and_zero


def replace_measure(trainer):
    measure = trainer.measure
    trainer.measure = lambda outputs, targets: 0.5 * measure(outputs, targets)


def replace_parameters(trainer):
    changed = {name: 0.9 * tensor if "head" in name else tensor for name, tensor in trainer.model.state_dict().items()}
    trainer.model.load_state_dict(changed, assign=True)


CHANGES = {
    "another optimizer, of a part": train_a_part,
    "a parameter taken from the optimizer": leave_one_out,
    "a step of its own": wrap_step,
    "a measure of its own": replace_measure,
    "other parameters": replace_parameters,
}


def train(trainer, change, dtype):
    """Losses and parameters of a step, a change, and two more steps."""
    values, targets = make_batch(2, 20, 2)[0].to(dtype), torch.tensor([2, 0])
    losses = [trainer.step(values, targets)]
    change(trainer)
    losses += [trainer.step(values, targets) for _ in range(2)]
    return [*losses, *trainer.parameters, *trainer.model.parameters()]


def require_same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.detach().double(), other.detach(), rtol=1e-4, atol=3e-5)


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_trainer_does_what_the_reference_does(name, graphs):
    found = train(TritonTrainer(make_model(*SIZES)), CHANGES[name], torch.float32)
    require_same(found, train(TrainingStep(make_model(*SIZES).double()), CHANGES[name], torch.float64))


def test_a_hook_on_all_optimizers_is_called():
    trainer, called = TritonTrainer(make_model(*SIZES), device=RecordingDevice(), capture=run_eagerly), []
    values, targets = make_batch(2, 20, 2)[0], torch.tensor([2, 0])
    trainer.step(values, targets)
    hook = register_optimizer_step_post_hook(lambda *given: called.append(given))
    try:
        trainer.step(values, targets)
    finally:
        hook.remove()
    trainer.step(values, targets)
    assert len(called) == 1


def test_a_scheduler_is_no_reason_for_torchs_own_optimizer():
    trainer = TritonTrainer(make_model(*SIZES), device=RecordingDevice(), capture=run_eagerly)
    torch.optim.lr_scheduler.StepLR(trainer.optimizer, 1)
    trainer.step(make_batch(2, 20, 2)[0], torch.tensor([2, 0]))
    assert len(trainer._recordings) == 1


def test_a_recording_is_of_one_loss():
    trainer = TritonTrainer(make_model(*SIZES), device=RecordingDevice(), capture=run_eagerly)
    values, targets = make_batch(2, 20, 2)[0], torch.tensor([2, 0])
    trainer.step(values, targets)
    trainer.loss = "mse"
    with pytest.raises(AlphabetError, match="targets must be floating point of shape"):
        trainer.step(values, targets)


def test_replaced_parameters_are_named_as_the_reason():
    trainer = TritonTrainer(make_model(*SIZES), device=RecordingDevice(), capture=run_eagerly)
    values = make_batch(2, 20, 2)[0]
    assert trainer.path(values) == "fused"
    trainer.model.load_state_dict(trainer.model.state_dict(), assign=True)
    assert trainer.path(values).startswith("reference: a parameter of the model was replaced by another")
    assert TritonTrainer(trainer.model, device=RecordingDevice()).path(values) == "fused"


COPIES = {"deepcopy": copy.deepcopy, "pickle": lambda given: pickle.loads(pickle.dumps(given))}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_of_a_trainer_goes_on_by_itself(name, graphs):
    values, targets = make_batch(2, 20, 2)[0], torch.tensor([2, 0])
    trainer, exact = TritonTrainer(make_model(*SIZES)), TrainingStep(make_model(*SIZES).double())
    trainer.step(values, targets), exact(values.double(), targets)
    twin = COPIES[name](trainer)
    losses = [double.step(values, targets) for double in (twin, trainer, twin)]
    wanted = [exact(values.double(), targets) for _ in range(2)]
    require_same([*losses, *twin.parameters], [wanted[0], wanted[0], wanted[1], *exact.parameters])
    assert [len(each._recordings) for each in (trainer, twin)] == [1, 1]


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_of_a_runtime_goes_on_by_itself(name, graphs):
    values, runtime = make_batch(2, 20, 2)[0], TritonRuntime(make_model(*SIZES))
    before = runtime(values)
    twin = COPIES[name](runtime)
    with torch.no_grad():
        twin.model.head.bias += 1.0
    torch.testing.assert_close(twin(values), before + 1.0)
    assert runtime(values).equal(before)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of a prototype, at every use
def test_a_masked_tensor_is_no_batch_with_a_recording_either(graphs):
    values, runtime = make_batch(2, 20, 2)[0], TritonRuntime(make_model(*SIZES))
    runtime(values)
    with pytest.raises(TypeError, match="MaskedTensor"):
        runtime(torch.masked.MaskedTensor(values, values > 0.0))
    assert len(runtime._recordings) == 1


def test_steps_inside_and_outside_inference_mode_alternate(graphs):
    trainer, exact = TritonTrainer(make_model(*SIZES)), TrainingStep(make_model(*SIZES).double())
    values, targets = make_batch(2, 20, 2)[0], torch.tensor([2, 0])
    losses = []
    for inside in (True, False, True):
        with torch.inference_mode(inside), value_checks(False):
            losses.append(float(trainer.step(values, targets)))
    assert losses == pytest.approx([float(exact(values.double(), targets)) for _ in range(3)], abs=2e-6)
