"""Folds: stratified, the same for everybody, and standardized by the optimization fold alone."""

import dataclasses

import hypothesis.strategies as st
import pytest
import torch
from alphabet_core import Examples
from alphabet_study.data import TrainData
from alphabet_study.errors import StudyError
from alphabet_study.protocol.folds import choose_validation, fit_scaler, make_folds, take_all_of_train
from alphabet_study.protocol.settings import PAPER
from alphabet_study.registry import TASKS
from hypothesis import given

TASK = dataclasses.replace(TASKS["GunPoint"], outputs=None)
FORECAST = dataclasses.replace(TASKS["ETTh1"], outputs=None)


def make_train(counts, seed=0, masks=False):
    draw = torch.Generator().manual_seed(seed)
    targets = torch.tensor([k for k, count in enumerate(counts) for _ in range(count)])
    shape = len(targets), 9, 3
    values = 5 + 3 * torch.randn(shape, generator=draw)
    given = {}
    if masks:
        given = {
            "valid": torch.rand(shape[:2], generator=draw) < 0.8,
            "observed": torch.rand(shape, generator=draw) < 0.7,
        }
        values[~(given["observed"] & given["valid"].unsqueeze(-1))] = 1e6  # what nobody may read
    return TrainData(Examples(values, targets, **given), tuple(map(str, range(len(counts)))))


@given(st.lists(st.integers(1, 60), min_size=2, max_size=6).filter(lambda counts: max(counts) > 1))
def test_each_class_gives_its_share(counts):
    targets = make_train(counts).examples.targets
    held_out = choose_validation(targets, PAPER)
    for k, count in enumerate(counts):
        found = int(held_out[targets == k].sum())
        assert found == (max(1, int(0.2 * count + 0.5)) if count > 1 else 0)


def test_classes_of_one_example_stay_where_they_can_be_learned():
    train = make_train([1, 10])
    assert not choose_validation(train.examples.targets, PAPER)[0]
    with pytest.raises(StudyError, match="at least two"):
        choose_validation(torch.tensor([0, 1, 2]), PAPER)


def test_the_split_depends_on_nothing_but_the_task_and_its_settings():
    targets = make_train([20, 30]).examples.targets
    first, again = choose_validation(targets, PAPER), choose_validation(targets, PAPER)
    assert torch.equal(first, again)
    assert not torch.equal(first, choose_validation(targets, dataclasses.replace(PAPER, split_seed=1)))


@pytest.mark.parametrize("masks", [False, True])
def test_the_optimization_fold_has_mean_0_and_spread_1_and_nothing_else_was_read(masks):
    train = make_train([40, 40], masks=masks)
    folds = make_folds(TASK, train, PAPER)
    part = folds.optimization
    present = torch.ones_like(part.values, dtype=torch.bool)
    if masks:
        present = part.observed & part.valid.unsqueeze(-1)
        assert (part.values[~present] == 0).all()
    for channel in range(3):
        column = part.values[..., channel][present[..., channel]]
        assert float(column.mean()) == pytest.approx(0, abs=1e-5)
        assert float(column.std(correction=0)) == pytest.approx(1, abs=1e-5)
    # Other validation values do not move the optimization fold by a bit.
    held_out = choose_validation(train.examples.targets, PAPER)
    values = train.examples.values.clone()
    values[held_out] += 100
    moved = make_folds(
        TASK, dataclasses.replace(train, examples=dataclasses.replace(train.examples, values=values)), PAPER
    )
    assert torch.equal(moved.optimization.values, part.values)
    assert not torch.equal(moved.validation.values, folds.validation.values)


def test_the_folds_are_disjoint_and_together_all_of_train():
    train = make_train([13, 8])
    folds = make_folds(TASK, train, PAPER)
    raw = [part.values * folds.scaler.spread + folds.scaler.mean for part in (folds.optimization, folds.validation)]
    rows = sorted(tuple(row.tolist()) for row in torch.cat(raw)[:, 0].round(decimals=3))
    assert rows == sorted(tuple(row.tolist()) for row in train.examples.values[:, 0].round(decimals=3))
    assert len(take_all_of_train(TASK, train).optimization) == 21


def test_a_constant_channel_keeps_its_scale():
    values = torch.full((6, 5, 2), 1e7 / 3)
    values[..., 1] = torch.randn(6, 5)
    scaler = fit_scaler(TASK, Examples(values, torch.zeros(6, dtype=torch.int64)))
    assert float(scaler.spread[0]) == 1.0
    assert float(scaler.spread[1]) != 1.0


def test_forecasts_are_standardized_as_their_channels():
    windows = torch.randn(30, 12, 2) * torch.tensor([2.0, 9.0]) + torch.tensor([1.0, -4.0])
    examples = Examples(windows[:, :8], windows[:, 8:].flatten(1))
    folds = make_folds(FORECAST, TrainData(examples.take(slice(20)), validation=examples.take(slice(20, 30))), PAPER)
    expected = (windows[:20, 8:] - folds.scaler.mean) / folds.scaler.spread
    assert torch.allclose(folds.optimization.targets, expected.flatten(1))
    assert len(folds.validation) == 10
    assert folds.outputs == 8


def test_a_declared_number_of_outputs_must_be_found():
    with pytest.raises(StudyError, match="declared with 2 outputs, but its TRAIN has 3"):
        make_folds(TASKS["GunPoint"], make_train([4, 4, 4]), PAPER)
