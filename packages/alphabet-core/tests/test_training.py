import copy
import dataclasses

import pytest
import torch
from alphabet_core import RECIPES, AlphabetError, Recipe, TrainingStep, fit, freeze, state_bound
from alphabet_testing.models import build_model
from alphabet_testing.wrappers import WRAPPERS, wrap
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

SEEDS = st.integers(0, 2**20)


def draw(loss, seed=0, batch=8):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(batch, 12, 2, generator=generator, dtype=torch.float64)
    if loss == "cross_entropy":
        return values, torch.randint(0, 3, (batch,), generator=generator)
    targets = torch.randn(batch, 3, generator=generator, dtype=torch.float64)
    return values, targets if loss == "mse" else (targets > 0).double()


@pytest.mark.parametrize("loss", ["cross_entropy", "multilabel", "mse"])
def test_a_step_is_loss_backward_clip_adamw_constrain(loss):
    model = build_model()
    model.constrain()
    by_hand = copy.deepcopy(model)
    recipe = Recipe(learning_rate=1e-2, clip_norm=0.05, weight_decay=0.1)
    values, targets = draw(loss)
    step = TrainingStep(model, recipe, loss=loss)
    optimizer = torch.optim.AdamW(by_hand.parameters(), lr=1e-2, weight_decay=0.1)
    criterion = {"cross_entropy": F.cross_entropy, "multilabel": F.binary_cross_entropy_with_logits, "mse": F.mse_loss}
    for _ in range(3):
        expected = criterion[loss](by_hand(values), targets)
        optimizer.zero_grad()
        expected.backward()
        nn.utils.clip_grad_norm_(by_hand.parameters(), 0.05)
        optimizer.step()
        by_hand.constrain()
        torch.testing.assert_close(step(values, targets), expected.detach())
    for one, other in zip(model.state_dict().values(), by_hand.state_dict().values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("microbatch", [1, 3, 8, 100])
def test_microbatches_give_the_whole_batch_step(microbatch):
    whole, parts = build_model(), build_model()
    values, targets = draw("cross_entropy")
    valid = torch.rand(8, 12) > 0.2
    losses = [
        TrainingStep(model, microbatch=size)(values, targets, valid=valid)
        for model, size in ((whole, None), (parts, microbatch))
    ]
    torch.testing.assert_close(*losses)
    for one, other in zip(whole.parameters(), parts.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)


@pytest.mark.slow
@given(SEEDS, st.floats(1e-4, 0.3))
def test_training_keeps_poles_stable_and_frames_orthonormal(seed, rate):
    model = build_model()
    step = TrainingStep(model, Recipe(learning_rate=rate, clip_norm=1.0))
    values, targets = draw("cross_entropy", seed)
    for _ in range(3):
        step(values, targets)
    for bank in model.banks():
        frame = bank.frame().detach()
        torch.testing.assert_close(frame.mT @ frame, torch.eye(6, dtype=torch.float64), rtol=0, atol=1e-9)
        assert bool(torch.isfinite(state_bound(bank.poles.decay.detach(), 1.0)).all())
        assert bank.frame.tangent.detach().count_nonzero() == 0


def test_any_model_trains_with_or_without_constraints():
    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(2, 3)

        def forward(self, values, *, time_delta=None, observed=None, valid=None):
            return self.out(values.mean(dim=1))

    values, targets = draw("cross_entropy")
    model = Mean().double()
    losses = fit(TrainingStep(model, RECIPES["C"]), values, targets, epochs=30, seed=0)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_wrapped_model_is_constrained_like_the_model_itself(wrapper):
    plain, inside = build_model(), build_model()
    values, targets = torch.randn(4, 20, 2, dtype=torch.float64), torch.arange(4) % 3
    TrainingStep(plain)(values, targets)
    with wrap(wrapper, inside) as model:
        TrainingStep(model)(values, targets)
    for wanted, found in zip(plain.state_dict().values(), inside.state_dict().values(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    assert not any(bank.frame.tangent.any() for bank in inside.banks())


def test_fit_is_reproducible_and_reports_every_epoch():
    values, targets = draw("cross_entropy", batch=20)
    recipe = dataclasses.replace(RECIPES["B"], batch_size=8)
    reports, results = [], []
    for _ in range(2):
        model = build_model()
        reports.append([])
        fit(TrainingStep(model, recipe), values, targets, epochs=3, seed=1, on_epoch=lambda *r: reports[-1].append(r))
        results.append(model(values).detach())
        assert not model.training
    assert results[0].equal(results[1])
    assert reports[0] == reports[1]
    assert [epoch for epoch, _ in reports[0]] == [0, 1, 2]


def test_recipes_are_the_papers():
    assert [(r.learning_rate, r.clip_norm) for r in RECIPES.values()] == [(1e-3, 0.5), (3e-3, 1.0), (1e-2, 2.0)]
    assert {(r.weight_decay, r.batch_size) for r in RECIPES.values()} == {(1e-4, 64)}


@pytest.mark.parametrize(
    ("loss", "bad"),
    [("mse", "nan"), ("mse", "inf"), ("multilabel", "nan"), ("multilabel", "1.5"), ("multilabel", "-0.1")],
)
def test_targets_that_would_ruin_the_parameters_are_refused(loss, bad):
    model = build_model()
    values, targets = draw(loss)
    before = [parameter.clone() for parameter in model.parameters()]
    targets[3, 1] = float(bad)
    with pytest.raises(AlphabetError, match=f"targets must .* found {bad} at batch 3, output 1"):
        TrainingStep(model, loss=loss)(values, targets)
    assert all(torch.equal(now, then) for now, then in zip(model.parameters(), before, strict=True))


def test_mistakes_are_named():
    model = build_model()
    values, targets = draw("cross_entropy")
    with pytest.raises(AlphabetError, match="hinge"):
        TrainingStep(model, loss="hinge")
    with pytest.raises(AlphabetError, match="microbatch"):
        TrainingStep(model, microbatch=0)
    with pytest.raises(AlphabetError, match="int64 class indices"):
        TrainingStep(model)(values, targets.double())
    with pytest.raises(AlphabetError, match=r"\(8, 3\)"):
        TrainingStep(model, loss="mse")(values, targets)
    with pytest.raises(AlphabetError, match="batch is empty"):
        TrainingStep(model)(values[:0], targets[:0])
    with pytest.raises(AlphabetError, match=r"targets must have one row per sequence, 8.*\(7,\)"):
        fit(TrainingStep(model), values, targets[:7], epochs=1, seed=0)
    with pytest.raises(AlphabetError, match="targets must have one row"):
        TrainingStep(model)(values[:4], targets)
    with pytest.raises(AlphabetError, match="valid must have one row"):
        TrainingStep(model, microbatch=4)(values, targets, valid=torch.ones(12, 12))
    with pytest.raises(AlphabetError, match=r"torch\.as_tensor"):
        TrainingStep(model)(values.numpy(), targets)
    with pytest.raises(AlphabetError, match=r"targets must lie in 0 ... 2.*found \d at batch"):
        TrainingStep(model)(values, targets + 3)
    with pytest.raises(AlphabetError, match="outputs=1"):
        TrainingStep(build_model(outputs=1))(values, torch.zeros(8, dtype=torch.int64))
    with pytest.raises(AlphabetError, match="RECIPES"):
        TrainingStep(model, "B")
    with pytest.raises(AlphabetError, match="frozen"):
        TrainingStep(freeze(model))
    with pytest.raises(AlphabetError, match="learning_rate"):
        Recipe(learning_rate=0.0, clip_norm=1.0)
    with pytest.raises(AlphabetError, match="weight_decay"):
        Recipe(learning_rate=1.0, clip_norm=1.0, weight_decay=-1.0)
