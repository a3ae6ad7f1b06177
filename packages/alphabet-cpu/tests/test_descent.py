"""Compiled losses and the affine head's gradients against torch's, and which targets are left to torch."""

import copy
import math
import pickle

import pytest
import torch
from alphabet_core import AlphabetError, TrainingStep, training, value_checks
from alphabet_cpu import CpuRuntime, CpuTrainer, descent, trainer
from alphabet_testing.exact_gradients import assert_gradients_agree
from alphabet_testing.models import make_batch, make_model
from torch.nn import functional as F

LOSSES = ["cross_entropy", "multilabel", "mse"]


def draw_targets(loss, batch=4, classes=5):
    return torch.arange(batch) % classes if loss == "cross_entropy" else torch.rand(batch, classes)


@pytest.mark.parametrize("size", [0.0, 1e-3, 1.0, 30.0, 1000.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_losses_and_gradients_are_torchs(loss, size):
    torch.manual_seed(0)
    outputs = (size * torch.randn(4, 5, dtype=torch.float64)).requires_grad_()
    targets = draw_targets(loss)
    function, measure, _, _ = descent.COMPILED[loss]
    wanted = 0.25 * function(outputs, targets if loss == "cross_entropy" else targets.double())
    wanted.backward()
    found = torch.empty(4, 5, dtype=torch.float64)
    covered, value = measure(outputs.detach().numpy(), targets.numpy(), 0.25, found.numpy())
    assert covered
    assert value == pytest.approx(float(wanted.detach()), rel=1e-12, abs=1e-15)
    torch.testing.assert_close(found, outputs.grad, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("size", [1e10, -1e10, 1e30, -1e30])
def test_what_all_outputs_have_in_common_does_not_count(size):
    outputs, found = torch.full((4, 5), size, dtype=torch.float64), torch.empty(4, 5, dtype=torch.float64)
    covered, value = descent.COMPILED["cross_entropy"][1](outputs.numpy(), torch.arange(4).numpy(), 1.0, found.numpy())
    assert covered
    assert value == pytest.approx(math.log(5), rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_what_is_not_a_number_stays_so(loss):
    _, measure, _, _ = descent.COMPILED[loss]
    outputs, found = torch.zeros(4, 5, dtype=torch.float64), torch.empty(4, 5, dtype=torch.float64)
    outputs[2, 1] = torch.nan
    covered, value = measure(outputs.numpy(), draw_targets(loss).numpy(), 1.0, found.numpy())
    assert covered
    assert math.isnan(value)
    assert found[2, 1].isnan()
    assert found[[0, 1, 3]].isfinite().all()


@pytest.mark.parametrize("loss", LOSSES)
def test_steps_with_a_usual_loss_build_no_graph(loss, monkeypatch):
    def refuse(*given):
        raise AssertionError("torch was asked")

    monkeypatch.setattr(trainer, "descend_by_graph", refuse)
    step = CpuTrainer(make_model(), loss=loss)
    assert step(make_batch(4, 20, 2)[0], draw_targets(loss)).isfinite()


class Smoothed(TrainingStep):
    def measure(self, outputs, targets):
        return F.cross_entropy(outputs, targets, label_smoothing=0.1)


class SmoothedCpuTrainer(Smoothed, CpuTrainer):
    pass


def test_a_loss_of_ones_own_is_used():
    values, _ = make_batch(4, 20, 2)
    plain, fused = Smoothed(make_model()), SmoothedCpuTrainer(make_model())
    assert float(fused(values, torch.arange(4))) == pytest.approx(float(plain(values, torch.arange(4))), rel=1e-5)
    third = CpuTrainer(make_model())
    third.measure = lambda outputs, targets: outputs.sum() * 0.0 + 7.0
    assert third.accumulate(values, torch.arange(4), 1.0) == 7.0


def test_a_loss_that_is_added_to_the_cores_is_used(monkeypatch):
    monkeypatch.setitem(training.LOSSES, "huber", F.huber_loss)
    values, targets = make_batch(4, 20, 2)[0], draw_targets("mse")
    losses = [step(make_model(), loss="huber")(values, targets) for step in (CpuTrainer, TrainingStep)]
    torch.testing.assert_close(*losses)


def test_targets_that_torch_ignores_are_ignored():
    values, targets = make_batch(4, 20, 2)[0], torch.tensor([0, -100, 2, 3])
    with value_checks(False):
        losses = [step(values, targets) for step in (CpuTrainer(make_model()), TrainingStep(make_model()))]
    torch.testing.assert_close(*losses)


@pytest.mark.parametrize(
    ("loss", "targets", "message"),
    [
        ("cross_entropy", torch.tensor([0, 1, 2, 5]), "targets must lie in 0"),
        ("cross_entropy", torch.tensor([0, 1, -1, 3]), "targets must lie in 0"),
        ("cross_entropy", torch.tensor([0, 1, 2]), "targets must have one row per sequence"),
        ("cross_entropy", torch.zeros(4), "targets must be int64 class indices"),
        ("multilabel", torch.full((4, 5), 1.5), "targets must lie in 0"),
        ("multilabel", torch.full((4, 5), torch.nan), "targets must lie in 0"),
        ("mse", torch.full((4, 5), torch.inf), "targets must be finite"),
        ("mse", torch.zeros(4, 4), "targets must be floating point of shape"),
    ],
)
def test_wrong_targets_get_the_cores_words_and_change_nothing(loss, targets, message):
    step = CpuTrainer(make_model(), loss=loss)
    before = copy.deepcopy(step.model.state_dict())
    with pytest.raises(AlphabetError, match=message):
        step(make_batch(4, 20, 2)[0], targets)
    assert all(torch.equal(before[name], tensor) for name, tensor in step.model.state_dict().items())
    assert all(parameter.grad is None for parameter in step.model.parameters())


@pytest.mark.parametrize("loss", LOSSES)
def test_targets_in_double_precision_or_by_columns_are_what_they_are(loss):
    values, targets = make_batch(4, 20, 2)[0], draw_targets(loss)
    wanted = CpuTrainer(make_model(), loss=loss).accumulate(values, targets, 1.0)
    strided = torch.stack((targets, targets), dim=-1)[..., 0]
    assert not strided.is_contiguous()
    given = [strided] if loss == "cross_entropy" else [strided, targets.mT.contiguous().mT, targets.double()]
    for each in given:
        assert float(CpuTrainer(make_model(), loss=loss).accumulate(values, each, 1.0)) == pytest.approx(
            float(wanted), rel=1e-6
        )


@pytest.mark.parametrize("share", [math.nan, math.inf, -0.5, None, "half", True])
def test_a_share_that_is_none_is_refused(share):
    values, step = make_batch(2, 9, 2)[0], CpuTrainer(make_model())
    with pytest.raises(AlphabetError, match="share must be a finite number that is not negative"):
        step.accumulate(values, torch.arange(2), share)
    assert all(parameter.grad is None for parameter in step.model.parameters())


def test_gradients_of_earlier_steps_are_not_written_over():
    values, step = make_batch(4, 20, 2)[0], CpuTrainer(make_model())
    step(values, torch.arange(4))
    kept = [parameter.grad for parameter in step.parameters]
    copies = [gradient.clone() for gradient in kept]
    step(values, torch.arange(4))
    assert all(map(torch.equal, kept, copies))


def test_where_parameters_lie_is_looked_at_again_when_one_moves():
    model, (values, _) = make_model(), make_batch(4, 20, 2)
    step = CpuTrainer(model)
    step(values, torch.arange(4)), step(values, torch.arange(4))
    for parameter in (model.head.weight, model.direct.lift.kernel, model.cascaded.poles.raw_decay):
        parameter.data = 1.5 * parameter.data
        with torch.no_grad():
            model.project.weight.mul_(1.1)
            model.direct.frame.base.mul_(-1.0)
        assert_gradients_agree(lambda _: step, model, values, torch.arange(4))
    with torch.no_grad():
        model.direct.frame.tangent.add_(0.1)
    assert_gradients_agree(lambda _: step, model, values, torch.arange(4))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_copies_of_runtimes_and_trainers_have_models_of_their_own(duplicate):
    model, (values, _) = make_model(), make_batch(4, 20, 2)
    runtime, step = CpuRuntime(model), CpuTrainer(model)
    step(values, torch.arange(4)), step(values, torch.arange(4)), runtime(values)
    other, other_step = duplicate((runtime, step))
    assert other.alphabet is other_step.alphabet is not model
    assert torch.equal(other(values), runtime(values))
    with torch.no_grad():
        other.alphabet.head.bias.add_(1.0)
        torch.testing.assert_close(other(values), runtime(values) + 1.0)
    before = runtime(values)
    other_step(values, torch.arange(4))
    assert torch.equal(runtime(values), before)
    assert not torch.allclose(other(values), before + 1.0, atol=1e-5)
