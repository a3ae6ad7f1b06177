"""The compiled update against torch's clipping, AdamW and the core's constraint."""

import copy

import pytest
import torch
from alphabet_core import RECIPES, AlphabetError, Recipe, TrainingStep
from alphabet_core.fused import AdamWSettings, read_adamw_settings
from alphabet_cpu import CpuRuntime, CpuTrainer, trainer
from alphabet_cpu.descent import adamw_table
from alphabet_cpu.kernels.optimizer import COUNT, GRADIENT, MEAN, SQUARE, STEPS, VALUES
from alphabet_testing.models import make_batch, make_model
from alphabet_testing.sizes import SIZES
from alphabet_testing.trainers import CHANGES, assert_equal, assert_steps_follow, set_gradients
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook


def make_pair(recipe, sizes=SIZES[0]):
    """A fused and a plain trainer of equal models; both have done a step, which is torch's in either."""
    plain = TrainingStep(make_model(*sizes), recipe)
    fused = CpuTrainer(copy.deepcopy(plain.model), recipe)
    for step in (plain, fused):
        set_gradients(step.model, seed=0)
        step.update()
    return fused, plain


@pytest.mark.parametrize("recipe", [*RECIPES.values(), Recipe(1e-3, 1e9, weight_decay=0.3), Recipe(0.5, 1.0)])
@pytest.mark.parametrize("sizes", SIZES[:4])
def test_updates_are_torchs(sizes, recipe):
    fused, plain = make_pair(recipe, sizes)
    for seed in range(1, 6):
        for step in (fused, plain):
            set_gradients(step.model, seed)
            assert adamw_table(step.optimizer) is not None
            step.update()
        assert not fused.model.direct.frame.tangent.any()
    assert_equal(fused, plain, atol=3e-6)


def test_large_rotations_take_as_many_squarings_as_they_need():
    for size in (1e-4, 0.1, 3.0, 30.0):
        model = make_model()
        with torch.no_grad():
            model.direct.frame.tangent.normal_(std=size)
        wanted = copy.deepcopy(model).double()
        wanted.direct.frame.rebase()
        base, tangent = model.direct.frame.base.numpy(), model.direct.frame.tangent.detach().numpy()
        trainer.rebase(base, tangent, trainer.TANGENT_SCALE)
        assert (model.direct.frame.base.double() - wanted.direct.frame.base).abs().max() < 2e-6 * max(1.0, size)


def test_frames_stay_orthonormal():
    fused, _ = make_pair(RECIPES["C"])
    for seed in range(200):
        set_gradients(fused.model, seed)
        fused.update()
    for bank in fused.model.banks():
        base = bank.frame.base.double()
        assert (base.mT @ base - torch.eye(64, dtype=torch.float64)).abs().max() < 1e-6


def test_a_step_by_the_reference_in_between_changes_nothing():
    fused, plain = make_pair(RECIPES["B"])
    values, _ = make_batch(4, 30, 2)
    for clock in (None, torch.ones(4, 30), None):
        for step in (fused, plain):
            step(values, torch.arange(4), time_delta=clock)
    assert_equal(fused, plain, atol=2e-5)


def test_a_changed_learning_rate_holds_from_then_on():
    fused, plain = make_pair(RECIPES["B"])
    for step in (fused, plain):
        step.optimizer.param_groups[0]["lr"] = 0.1
        set_gradients(step.model, seed=1)
        step.update()
    assert_equal(fused, plain, atol=3e-6)


def test_a_runtime_sees_what_a_step_changed():
    fused, _ = make_pair(RECIPES["C"])
    values, _ = make_batch(4, 30, 2)
    runtime = CpuRuntime(fused.alphabet)
    for _ in range(3):
        fused.step(values, torch.arange(4))
        with torch.no_grad():
            assert (runtime(values) - fused.model(values)).abs().max() < 1e-6


@pytest.mark.parametrize("change", CHANGES)
def test_steps_follow_the_reference_through(change):
    assert_steps_follow(*make_pair(Recipe(3e-3, 1.0, weight_decay=0.1)), change)


def test_hooks_of_the_optimizer_are_called_and_schedulers_content():
    values, _ = make_batch(4, 30, 2)
    fused, _ = make_pair(RECIPES["B"])
    scheduler = torch.optim.lr_scheduler.StepLR(fused.optimizer, 1)
    fused.step(values, torch.arange(4))
    scheduler.step()  # warns if it has seen no step of the optimizer, and a warning is an error here
    calls = []
    fused.optimizer.register_step_post_hook(lambda *_: calls.append(1))
    fused.step(values, torch.arange(4))
    assert calls == [1]


def test_hooks_of_all_optimizers_and_a_step_of_ones_own_are_called():
    values, calls = make_batch(4, 30, 2)[0], []
    fused, _ = make_pair(RECIPES["B"])
    for register in (register_optimizer_step_pre_hook, register_optimizer_step_post_hook):
        handle = register(lambda *_: calls.append("hook"))
        fused.step(values, torch.arange(4))
        handle.remove()
    fused.step(values, torch.arange(4))
    assert calls == ["hook", "hook"]
    step = fused.optimizer.step
    fused.optimizer.step = lambda: (calls.append("step"), step())
    fused.step(values, torch.arange(4))
    assert calls == ["hook", "hook", "step"]


def test_gradients_of_parameters_that_do_not_move_are_clipped_too():
    pair = make_pair(Recipe(1e-2, 1e-3))
    for step in pair:
        step.optimizer = torch.optim.AdamW(step.model.head.parameters(), lr=1e-2)
        for seed in range(3):
            set_gradients(step.model, seed)
            step.update()
    assert_equal(*pair, atol=3e-6)
    fused, plain = (step.model.head.weight.grad for step in pair)
    torch.testing.assert_close(fused, plain, rtol=1e-5, atol=0.0)


def test_only_torch_takes_other_settings():
    fused, _ = make_pair(RECIPES["B"])
    for name in ("amsgrad", "maximize"):
        fused.optimizer.param_groups[0][name] = True
        assert read_adamw_settings(fused.optimizer, fused.parameters) is None
        fused.optimizer.param_groups[0][name] = False
    assert read_adamw_settings(fused.optimizer, fused.parameters) == (3e-3, 0.9, 0.999, 1e-8, 1e-4)
    assert adamw_table(fused.optimizer) is not None
    fused.model.head.bias.grad = None
    assert adamw_table(fused.optimizer) is None
    assert adamw_table(CpuTrainer(make_model()).optimizer) is None  # the first step, before there is any state


def test_gradients_that_are_not_finite_end_as_they_do_in_torch():
    fused, plain = make_pair(RECIPES["B"])
    for step in (fused, plain):
        set_gradients(step.model, seed=1)
        step.model.head.bias.grad[0] = torch.nan
        step.update()
        assert all(
            parameter.isnan().all() for name, parameter in step.model.named_parameters() if "tangent" not in name
        )


@pytest.mark.parametrize("fault", ["clip", "rate", "decay", "moments", "frame"])
def test_planted_faults_in_the_update_are_seen(fault, monkeypatch):
    fused, plain = make_pair(RECIPES["B"])
    move, rebase = trainer.clip_and_move, trainer.rebase

    def broken_move(table, clip_norm, settings):
        settings = AdamWSettings(*settings)
        if fault == "clip":
            clip_norm *= 2
        elif fault == "rate":
            settings = settings._replace(learning_rate=settings.learning_rate * 1.01)
        elif fault == "decay":
            settings = settings._replace(weight_decay=settings.weight_decay * 100)
        elif fault == "moments":
            table = table[:, [VALUES, GRADIENT, SQUARE, MEAN, STEPS, COUNT]]
        move(table, clip_norm, tuple(settings))

    monkeypatch.setattr(trainer, "clip_and_move", broken_move)
    if fault == "frame":
        monkeypatch.setattr(trainer, "rebase", lambda base, tangent, scale: rebase(base, tangent, -scale))
    for step in (fused, plain):
        set_gradients(step.model, seed=1, size=1.0)
        step.update()
    with pytest.raises(AssertionError):
        assert_equal(fused, plain, atol=3e-6)


def test_a_frozen_model_cannot_train():
    model = make_model()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(AlphabetError, match="no trainable parameter"):
        CpuTrainer(model)


def test_gradients_are_clipped_over_all_parameters_even_if_the_optimizer_moves_a_part():
    fused, plain = make_pair(Recipe(3e-3, 0.05))
    for step in (fused, plain):
        step.optimizer = torch.optim.AdamW(step.parameters[-1:], lr=1.0, eps=1.0, fused=True)  # not free of scale
        for seed in (1, 2):
            set_gradients(step.model, seed)
            step.update()
    assert_equal(fused, plain, atol=3e-6)
