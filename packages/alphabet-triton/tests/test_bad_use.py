"""What a runtime and a trainer refuse, in words, with a recording at hand that the call must not reach.

A model that moved is in test_runtime.py, a capture inside a capture in test_graphs.py.
"""

import pytest
import torch
from alphabet_core import AlphabetError
from alphabet_core.fused import run_eagerly
from alphabet_testing.models import make_batch, make_model
from alphabet_testing.wrappers import WRAPPERS, wrap
from alphabet_triton import TritonRuntime, TritonTrainer
from alphabet_triton.launching import RecordingDevice

KINDS = {"runtime": TritonRuntime, "trainer": TritonTrainer}


def make_call(what):
    """A call of values, targets and masks, which was done before, and the launches that came of it."""
    recorder = RecordingDevice()
    double = KINDS[what](make_model(), device=recorder, capture=run_eagerly)

    def call(values, targets, **masks):
        return double(values, **masks) if what == "runtime" else double.step(values, targets, **masks)

    return call, recorder.launches


@pytest.mark.parametrize("kind", KINDS.values())
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_wrapped_model_is_refused(kind, wrapper):
    with (
        wrap(wrapper, make_model()) as model,
        pytest.raises(AlphabetError, match=rf"model is a {wrapper}, .*: pass model\.module to TritonRuntime"),
    ):
        kind(model)


@pytest.mark.parametrize("masks", ["none", "both"])
@pytest.mark.parametrize("what", KINDS)
def test_inputs_on_another_device_are_refused(what, masks):
    call, launches = make_call(what)
    values, given = make_batch(2, 20, 2, masks)
    given = {"values": values, "targets": torch.tensor([1, 0]), **given}
    call(**given)
    launched = len(launches)
    for moved in given.keys() - ({"targets"} if what == "runtime" else set()):
        home = "values is on cpu" if moved in ("observed", "valid") else "the model is on cpu"
        for _ in range(2):
            with pytest.raises(AlphabetError, match=rf"^{moved} is on meta but {home}: move one with \.to\(device\)"):
                call(**{**given, moved: given[moved].to("meta")})
    assert len(launches) == launched


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("what", KINDS)
def test_what_cannot_have_a_recording_is_refused_in_words(what):
    call, launches = make_call(what)
    values, targets = make_batch(2, 20, 2)[0], torch.tensor([1, 0])
    call(values, targets)
    launched = len(launches)
    for odd, message in (
        (torch.nested.nested_tensor([values[0], values[1, :3]]), "values must be one dense tensor; got a nested one"),
        (values.to_sparse(), "values must be a dense tensor"),
        (values[..., :1], "values must have 2 channels"),
        (values.numpy(), "values must be a torch.Tensor"),
    ):
        with pytest.raises(AlphabetError, match=message):
            call(odd, targets)
    assert len(launches) == launched


def test_a_model_that_moved_away_from_its_optimizers_state_is_refused_with_what_to_do():
    trainer = TritonTrainer(make_model(), device=RecordingDevice(), capture=run_eagerly)
    values, targets = make_batch(2, 20, 2)[0], torch.tensor([1, 0])
    trainer.step(values, targets)
    trainer._device.unavailable_reason = lambda home: f"the model is on {home}"
    trainer.model.project.weight.data = trainer.model.project.weight.data.clone()  # moved, as far as a CPU can
    for state in trainer.optimizer.state.values():
        state.update({name: tensor.to("meta") for name, tensor in state.items()})
    before = [parameter.detach().clone() for parameter in trainer.parameters]
    with pytest.raises(AlphabetError, match=r"^the model is on cpu but the optimizer's state on meta, where .*: take"):
        trainer.step(values, targets)
    assert all(map(torch.equal, trainer.parameters, before))


def test_targets_that_ask_for_gradients_are_copied_without_them():
    trainer = TritonTrainer(make_model(), loss="mse", device=RecordingDevice(), capture=run_eagerly)
    values, targets = make_batch(2, 20, 2)[0], torch.zeros(2, 5, requires_grad=True)
    for _ in range(2):
        trainer.step(values, targets)
    (recording,) = trainer._recordings
    assert not recording.targets.requires_grad
