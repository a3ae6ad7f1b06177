"""Fitting with validation: the checkpoint is the best epoch, and it is what the model holds however the loop ends."""

import math

import pytest
import torch
from alphabet_core import (
    RECIPES,
    Alphabet,
    AlphabetConfig,
    AlphabetError,
    DivergedError,
    Examples,
    Recipe,
    TrainingStep,
    fit,
    fit_validated,
    predict_examples,
)
from torch import nn


def make_step(recipe=RECIPES["B"]):
    torch.manual_seed(3)
    return TrainingStep(Alphabet(AlphabetConfig(channels=2, width=8, modes=3, outputs=2)), recipe)


def make_examples(count, seed):
    draw = torch.Generator().manual_seed(seed)
    values = torch.randn(count, 12, 2, generator=draw)
    return Examples(values, (values.mean(dim=(1, 2)) > 0).long(), valid=torch.rand(count, 12, generator=draw) < 0.9)


def state_of(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same_state(left, right):
    return all(torch.equal(left[name], right[name]) for name in left)


def plain_loop(step, train, validation, epochs, patience, seed):
    """The definition: the validation loss after every epoch in `fit`'s own order, the state at its first minimum."""
    order = torch.Generator().manual_seed(seed)
    losses, states = [], []
    for _ in range(epochs):
        for rows in torch.randperm(len(train), generator=order).split(step.recipe.batch_size):
            batch = train.take(rows)
            step(batch.values, batch.targets, **batch.side_inputs())
        with torch.no_grad():
            outputs = step.model(validation.values, **validation.side_inputs())
            losses.append(float(nn.functional.cross_entropy(outputs, validation.targets)))
        states.append(state_of(step.model))
        best = losses.index(min(losses))
        if len(losses) - 1 - best >= patience:
            break
    return losses, states[best], best + 1


@pytest.mark.parametrize("patience", [1, 3, 50])
def test_the_checkpoint_is_what_the_definition_says(patience):
    train, validation = make_examples(40, 1), make_examples(20, 2)
    losses, state, best = plain_loop(make_step(Recipe(3e-2, 1.0, batch_size=8)), train, validation, 15, patience, 5)
    step = make_step(Recipe(3e-2, 1.0, batch_size=8))
    fitted = fit_validated(step, train, validation, epochs=15, patience=patience, seed=5)
    assert fitted.validation_losses == pytest.approx(losses, rel=1e-5)
    assert (fitted.best_epoch, fitted.epochs) == (best, len(losses))
    assert fitted.validation_loss == min(fitted.validation_losses)
    assert same_state(state, state_of(step.model))


def test_the_restored_model_has_the_checkpoints_loss():
    validation, step = make_examples(20, 2), make_step(Recipe(3e-2, 1.0, batch_size=8))
    fitted = fit_validated(step, make_examples(40, 1), validation, epochs=15, patience=2, seed=5)
    outputs = predict_examples(step.model, validation)
    assert float(nn.functional.cross_entropy(outputs, validation.targets)) == fitted.validation_loss


class FirstSeriesAlone(TrainingStep):
    """A step with a loss of its own: that of the first series of a batch."""

    def measure(self, outputs, targets):
        return super().measure(outputs[:1], targets[:1])


def test_a_step_with_a_loss_of_its_own_is_stopped_by_that_loss():
    validation = make_examples(20, 2)
    torch.manual_seed(3)
    model = Alphabet(AlphabetConfig(channels=2, width=8, modes=3, outputs=2))
    step = FirstSeriesAlone(model, Recipe(3e-2, 1.0, batch_size=8))
    fitted = fit_validated(step, make_examples(40, 1), validation, epochs=15, patience=2, seed=5)
    outputs = predict_examples(model, validation)
    assert float(nn.functional.cross_entropy(outputs[:1], validation.targets[:1])) == fitted.validation_loss
    assert float(nn.functional.cross_entropy(outputs, validation.targets)) != fitted.validation_loss


def test_without_stopping_training_is_that_of_fit():
    train, validation = make_examples(40, 1), make_examples(20, 2)
    plain, step = make_step(), make_step()
    losses = fit(plain, train.values, train.targets, epochs=4, seed=9, **train.side_inputs())
    fitted = fit_validated(step, train, validation, epochs=4, patience=4, seed=9)
    assert fitted.train_losses == losses


def test_an_interrupt_leaves_the_best_model_so_far():
    train, validation, step = make_examples(40, 1), make_examples(20, 2), make_step(Recipe(3e-2, 1.0, batch_size=8))
    states, losses = [], []

    def interrupt(epoch, _, loss):
        states.append(state_of(step.model))
        losses.append(loss)
        if epoch == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_validated(step, train, validation, epochs=15, patience=15, seed=5, on_epoch=interrupt)
    best = min(range(6), key=losses.__getitem__)
    assert same_state(state_of(step.model), states[best])
    assert not step.model.training


def test_a_fit_that_turns_infinite_keeps_its_checkpoint():
    train, validation, step = make_examples(40, 1), make_examples(20, 2), make_step()

    def break_it(epoch, *_):
        if epoch == 3:
            with torch.no_grad():
                step.model.head.bias.fill_(math.nan)

    fitted = fit_validated(step, train, validation, epochs=15, patience=15, seed=5, on_epoch=break_it)
    assert fitted.best_epoch <= 3
    assert fitted.epochs == 4
    assert torch.isfinite(predict_examples(step.model, validation)).all()


def test_a_fit_that_is_never_finite_says_so():
    step = make_step()
    with torch.no_grad():
        step.model.head.bias.fill_(math.nan)
    with pytest.raises(DivergedError, match="never finite"):
        fit_validated(step, make_examples(10, 1), make_examples(10, 2), epochs=3, patience=1, seed=0)


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"patience": 0}, {"epochs": 1.5}, {"patience": True}])
def test_counts_must_be_positive_integers(wrong):
    with pytest.raises(AlphabetError, match=next(iter(wrong))):
        fit_validated(
            make_step(), make_examples(4, 1), make_examples(4, 2), **{"epochs": 1, "patience": 1, "seed": 0, **wrong}
        )


def test_predictions_in_parts_are_those_of_the_whole():
    examples, model = make_examples(600, 1), make_step().model
    with torch.no_grad():
        whole = model(examples.values, valid=examples.valid)
    assert torch.allclose(predict_examples(model, examples), whole, atol=1e-6)


def test_examples_refuse_rows_that_do_not_pair():
    with pytest.raises(AlphabetError, match="targets"):
        Examples(torch.zeros(3, 4, 1), torch.zeros(2, dtype=torch.int64))


def test_wrong_examples_are_refused_before_anything_is_trained():
    step, train, validation = make_step(), make_examples(8, 1), make_examples(4, 2)
    before = state_of(step.model)
    wrong_label = Examples(validation.values, torch.full((4,), 7), valid=validation.valid)
    wrong_kind = Examples(validation.values, torch.zeros(4, 2), valid=validation.valid)
    for bad in (
        (train, validation.take(slice(0))),
        (train, wrong_label),
        (train, wrong_kind),
        (train.values, validation),
    ):
        with pytest.raises(AlphabetError):
            fit_validated(step, *bad, epochs=1, patience=1, seed=0)
    assert same_state(before, state_of(step.model))
