"""TritonTrainer in Triton's interpreter: whole steps against the reference's."""

import copy

import pytest
import torch
from alphabet_core import RECIPES, Recipe, TrainingStep
from alphabet_core.fused import TANGENT_SCALE, warm_up
from alphabet_testing.kernels.interpreter import InterpretedDevice
from alphabet_testing.models import make_batch, make_model
from alphabet_testing.trainers import (
    CHANGES,
    assert_equal,
    assert_steps_follow,
    assert_trajectories_agree,
    set_gradients,
    store_by_columns,
    tensors_of,
)
from alphabet_triton import TritonRuntime, TritonTrainer

SIZES = (2, 12, 2, 3)  # the interpreter takes a quarter of a millisecond per scanned element


def make_trainer(model, *arguments, **options):
    """A trainer whose device interprets a launch only if its outcome is not known from an earlier one."""
    return TritonTrainer(model, *arguments, device=InterpretedDevice(), **options)


def make_pair(recipe=RECIPES["B"]):
    plain = TrainingStep(make_model(*SIZES), recipe)
    return make_trainer(copy.deepcopy(plain.model), recipe), plain


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "microbatch", "masks"),
    [
        ("cross_entropy", None, "none"),
        ("cross_entropy", 2, "both"),
        ("multilabel", None, "valid"),
        ("mse", None, "none"),
    ],
)
def test_three_steps_follow_the_reference(loss, microbatch, masks):
    batches = []
    for seed in range(3):
        values, given = make_batch(3, 12, SIZES[0], masks, seed=seed)
        targets = torch.arange(3) if loss == "cross_entropy" else torch.rand(3, 3).round()
        batches.append((values, targets, given))
    assert_trajectories_agree(make_trainer, make_model(*SIZES), batches, loss=loss, microbatch=microbatch)


@pytest.mark.parametrize("recipe", [*RECIPES.values(), Recipe(1e-3, 1e9, weight_decay=0.3), Recipe(0.5, 1.0)])
def test_updates_are_torchs(recipe):
    fused, plain = make_pair(recipe)
    for seed in range(5):
        for step in (fused, plain):
            set_gradients(step.model, seed)
            step.update()
        assert not fused.model.direct.frame.tangent.any()
    assert_equal(fused, plain, atol=3e-6)


@pytest.mark.slow
@pytest.mark.parametrize("change", [change for change in CHANGES if change is not store_by_columns])
def test_steps_follow_the_reference_through(change):
    assert_steps_follow(*make_pair(Recipe(3e-3, 1.0, weight_decay=0.1)), change, batch=1, length=12)


def align_phases(base, wanted, modes):
    """The base (D, D) with columns m and M + m turned in their plane, for every mode m, to where they are wanted."""
    base, wanted, aligned = base.double(), wanted.double(), base.double().clone()
    for re, im in ((mode, modes + mode) for mode in range(modes)):
        overlap = wanted[:, [re, im]].mT @ base[:, [re, im]]
        angle = torch.atan2(overlap[0, 1] - overlap[1, 0], overlap[0, 0] + overlap[1, 1])
        aligned[:, re] = torch.cos(angle) * base[:, re] + torch.sin(angle) * base[:, im]
        aligned[:, im] = torch.cos(angle) * base[:, im] - torch.sin(angle) * base[:, re]
    return aligned


def test_a_modes_phase_has_no_gradient():
    """Turned by a phase, both columns of a mode give other states, but the same synthesis and the same moments."""
    model, modes = make_model(*SIZES).double(), SIZES[2]
    values, _ = make_batch(2, 12, SIZES[0])
    TrainingStep(model).accumulate(values.double(), torch.arange(2), 1.0)
    for bank in model.banks():
        gradient = bank.frame.tangent.grad
        for mode in range(modes):
            phase = max(abs(gradient[mode, modes + mode]), abs(gradient[modes + mode, mode]))
            assert phase < 1e-14 * gradient.abs().max()  # float64's rounding, and nothing else


@pytest.mark.slow
def test_how_a_parameter_is_stored_does_not_matter():
    """Of torch's fused AdamW this cannot be said: it goes by memory, in which the averages still are as they were."""

    class ByOperators(TritonTrainer):
        """Steps by operators, as those of a parameter that does not lie by rows: launches of one step differ."""

        def measure(self, outputs, targets):
            return super().measure(outputs, targets)

    plain = TrainingStep(make_model(*SIZES))
    fused, untouched = (ByOperators(make_model(*SIZES), device=InterpretedDevice()) for _ in range(2))
    values, _ = make_batch(2, 12, SIZES[0])
    for step in (fused, plain, untouched):
        step(values, torch.arange(2))
    store_by_columns(fused, values, torch.arange(2))
    for step in (fused, plain, untouched):
        step(values, torch.arange(2))
    assert fused.model.project.weight.stride() != plain.model.project.weight.stride()
    # To the bit what it would have been.
    found, wanted = tensors_of(fused), tensors_of(untouched)
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert found[name].equal(tensor), name
    # A mode's phase has no gradient but rounding, and of rounding Adam makes a turn: some 1e-5 in two steps, by float32
    # in the reference as well. Once the phases are aligned, bases agree like everything else.
    wanted = tensors_of(plain)
    bases = [name for name in wanted if name.endswith("base")]
    assert len(bases) == 2
    for name in bases:
        aligned = align_phases(found[name], wanted[name], SIZES[2])
        assert (aligned - wanted[name]).abs().max() < 1e-6, name
        assert (found[name] - wanted[name]).abs().max() < 4 * RECIPES["B"].learning_rate * TANGENT_SCALE, name
    for name in wanted.keys() - set(bases):
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-5, atol=3e-5, msg=lambda m, n=name: f"{n}: {m}")


def test_a_frame_away_from_its_base_takes_the_reference_until_it_is_there():
    model, (values, _) = make_model(*SIZES, turned=True), make_batch(2, 12, SIZES[0])
    fused, plain = make_trainer(copy.deepcopy(model)), TrainingStep(model)
    assert fused.path(values).startswith("reference: a frame's tangent is not zero")
    for _ in range(2):
        losses = [float(step(values, torch.arange(2))) for step in (fused, plain)]
        assert losses[0] == pytest.approx(losses[1], abs=2e-6)
        assert fused.path(values) == "fused"
    assert_equal(fused, plain, atol=3e-5)


@pytest.mark.slow
def test_a_runtime_sees_what_a_step_changed():
    fused, _ = make_pair(RECIPES["C"])
    values, _ = make_batch(2, 12, SIZES[0])
    runtime = TritonRuntime(fused.alphabet)
    for _ in range(2):
        fused.step(values, torch.arange(2))
        with torch.no_grad():
            assert (runtime(values) - fused.model(values)).abs().max() < 1e-6


def test_gradients_of_the_values_are_the_references():
    fused, plain = make_pair()
    values, given = make_batch(2, 20, SIZES[0], "both")
    found = []
    for step in (fused, plain):
        source = values.clone().requires_grad_()
        step.accumulate(source, torch.arange(2), 0.5, **given)
        found.append(source.grad)
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-7)


def test_gradients_that_are_not_finite_end_as_they_do_in_torch():
    for step in make_pair():
        set_gradients(step.model, seed=1)
        step.model.head.bias.grad[0] = torch.nan
        step.update()
        moved = {name: p for name, p in step.model.named_parameters() if "tangent" not in name}
        assert all(parameter.isnan().all() for parameter in moved.values())


def test_schedulers_see_every_step_and_rates_hold_from_then_on():
    values, _ = make_batch(2, 12, SIZES[0])
    for step in (pair := make_pair()):
        scheduler = torch.optim.lr_scheduler.StepLR(step.optimizer, 1, gamma=10.0)
        for _ in range(2):
            step(values, torch.arange(2))
            scheduler.step()  # warns if it has seen no step of the optimizer, and a warning is an error here
    for found, wanted in zip(*(step.model.parameters() for step in pair), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=3e-5)


@pytest.mark.slow
def test_fixed_poles_train_everything_else():
    values, _ = make_batch(2, 12, SIZES[0])
    model = make_model(*SIZES, variant="fixed-poles")
    assert_trajectories_agree(make_trainer, model, 2 * [(values, torch.arange(2), {})])


FAULTS = {
    "no clipping": lambda settings: settings.__setitem__(5, 1e9),
    "another rate": lambda settings: settings.__setitem__(0, 1.01 * settings[0]),
    "no weight decay": lambda settings: settings.__setitem__(4, 0.0),
    "betas in reverse": lambda settings: settings.__setitem__(slice(1, 3), settings[1:3].flip(0)),
    "another epsilon": lambda settings: settings.__setitem__(3, 1e-2),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_in_the_update_are_seen(fault):
    fused, plain = make_pair(Recipe(3e-3, 1.0, weight_decay=0.1))
    for step in (fused, plain):
        set_gradients(step.model, 0)
        step.update()
    FAULTS[fault](fused._adamw.settings)
    for step in (fused, plain):
        set_gradients(step.model, 1)
        step.update()
    with pytest.raises(AssertionError):
        assert_equal(fused, plain, atol=3e-6)


@pytest.mark.slow
def test_warming_up_for_a_recording_changes_nothing():
    def warm_and_keep(run, changed):
        warm_up(run, changed)
        return run

    fused, plain = make_pair()
    warmed = make_trainer(copy.deepcopy(plain.model), capture=warm_and_keep)
    values, _ = make_batch(1, 12, SIZES[0])
    for step in (fused, warmed):
        step(values, torch.tensor([1]))
    assert_equal(warmed, fused, atol=0.0)
