import pytest
import torch
from alphabet_core import (
    Alphabet,
    AlphabetConfig,
    AlphabetError,
    attribute,
    mean_descriptor,
    neutralize,
    pole_mask,
    rank_poles,
    retain,
)
from alphabet_testing.models import build_model
from hypothesis import given
from hypothesis import strategies as st

seeds = st.integers(0, 2**20)


def explained(seed=0, outputs=3, batch=6, dtype=torch.float64):
    model = build_model(outputs=outputs, dtype=dtype)
    values = torch.randn(batch, 15, 2, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    descriptor = model.describe(values).detach()
    return model, values, descriptor, descriptor.mean(dim=0)


@given(seeds, st.integers(2, 5))
def test_contributions_and_baseline_sum_to_the_margin(seed, outputs):
    model, values, descriptor, center = explained(seed, outputs)
    split = attribute(model, descriptor, center)
    top = model(values).detach().topk(2, dim=1)
    total = split.baseline + split.contributions.sum(dim=(1, 2))
    torch.testing.assert_close(total, top.values[:, 0] - top.values[:, 1], rtol=0, atol=1e-12)
    assert split.winner.equal(top.indices[:, 0])
    assert split.runner_up.equal(top.indices[:, 1])


def test_float32_margins_are_reconstructed_within_the_papers_error():
    torch.manual_seed(0)
    model = Alphabet(AlphabetConfig(channels=2, width=64, modes=16, outputs=5))
    values = torch.randn(64, 128, 2)
    with torch.no_grad():
        top = model(values).topk(2, dim=1).values
    split = attribute(model, model.describe(values).detach(), mean_descriptor(model, values))
    total = split.baseline + split.contributions.sum(dim=(1, 2))
    assert float((total - (top[:, 0] - top[:, 1])).abs().max()) <= 8.6e-6


@given(seeds)
def test_any_pair_of_classes_can_be_asked_for(seed):
    model, values, descriptor, center = explained(seed)
    winner, runner_up = torch.full((6,), 2), torch.zeros(6, dtype=torch.int64)
    split = attribute(model, descriptor, center, winner=winner, runner_up=runner_up)
    logits = model(values).detach()
    torch.testing.assert_close(split.margin, logits[:, 2] - logits[:, 0], rtol=0, atol=1e-12)


@given(seeds)
def test_a_given_runner_up_never_meets_itself(seed):
    model, values, descriptor, center = explained(seed)
    best = model(values).detach().argmax(dim=1)
    split = attribute(model, descriptor, center, runner_up=best)
    assert not bool((split.winner == best).any())
    assert bool((split.margin <= 0).all())


@given(seeds)
def test_with_one_output_the_margin_is_the_output(seed):
    model, values, descriptor, center = explained(seed, outputs=1)
    split = attribute(model, descriptor, center)
    assert split.runner_up is None
    torch.testing.assert_close(split.margin, model(values).detach()[:, 0], rtol=0, atol=1e-12)


@given(seeds)
def test_at_the_center_no_pole_contributes(seed):
    model, _, _, center = explained(seed)
    split = attribute(model, center.unsqueeze(0), center)
    assert split.contributions.count_nonzero() == 0
    torch.testing.assert_close(split.margin, split.baseline)


@given(seeds, st.integers(0, 6))
def test_neutralizing_poles_removes_exactly_their_contributions(seed, count):
    model, _, descriptor, center = explained(seed)
    split = attribute(model, descriptor, center)
    mask = pole_mask(model, rank_poles(split)[:count])
    masked = attribute(
        model, neutralize(descriptor, center, mask), center, winner=split.winner, runner_up=split.runner_up
    )
    expected = split.margin - (split.contributions * mask).sum(dim=(1, 2))
    torch.testing.assert_close(masked.margin, expected, rtol=0, atol=1e-12)


@given(seeds, st.integers(0, 6))
def test_neutralize_and_retain_are_complements(seed, count):
    model, _, descriptor, center = explained(seed)
    mask = pole_mask(model, rank_poles(attribute(model, descriptor, center))[:count])
    kept, removed = retain(descriptor, center, mask), neutralize(descriptor, center, mask)
    torch.testing.assert_close(kept + removed, descriptor + center)
    assert neutralize(descriptor, center, mask & False).equal(descriptor)
    assert retain(descriptor, center, mask | True).equal(descriptor)


def test_ranking_is_by_mean_absolute_contribution():
    model, _, descriptor, center = explained()
    split = attribute(model, descriptor, center)
    ranking = rank_poles(split)
    strength = split.contributions.abs().mean(dim=0)
    ordered = strength[ranking[:, 0], ranking[:, 1]]
    assert ranking.shape == (6, 2)
    assert bool((ordered[:-1] >= ordered[1:]).all())
    assert len({tuple(row) for row in ranking.tolist()}) == 6


def test_mean_descriptor_does_not_depend_on_the_batch_size():
    model, values, _, center = explained()
    for size in (1, 4, 100):
        torch.testing.assert_close(mean_descriptor(model, values, batch_size=size), center)
    weights = torch.ones(values.shape[:2])
    torch.testing.assert_close(mean_descriptor(model, values, batch_size=4, valid=weights), center)


def test_part_of_an_attribution():
    model, _, descriptor, center = explained()
    split = attribute(model, descriptor, center)
    assert split[2:4].margin.equal(split.margin[2:4])
    assert split[-1].contributions.equal(split.contributions[5:6])
    with pytest.raises(IndexError):
        split[6]


def test_mistakes_are_named():
    model, _, descriptor, center = explained()
    energy = build_model("energy-only")
    with pytest.raises(AlphabetError, match="energy_hidden"):
        attribute(energy, descriptor, center)
    with pytest.raises(AlphabetError, match="center"):
        attribute(model, descriptor, center[:1])
    for change in (neutralize, retain):
        with pytest.raises(AlphabetError, match="boolean mask"):
            change(descriptor, center, torch.ones(2, 3))
    rows = torch.zeros(6, dtype=torch.int64)
    with pytest.raises(AlphabetError, match="differ"):
        attribute(model, descriptor, center, winner=rows, runner_up=rows)
    with pytest.raises(AlphabetError, match=r"winner must lie in 0 ... 2.*3 at batch 0"):
        attribute(model, descriptor, center, winner=rows + 3)
    with pytest.raises(AlphabetError, match="runner_up must be int64"):
        attribute(model, descriptor, center, runner_up=rows[:2])
    with pytest.raises(AlphabetError, match="no sequence"):
        mean_descriptor(model, torch.zeros(0, 5, 2, dtype=torch.float64))
    with pytest.raises(AlphabetError, match="banks"):
        pole_mask(model, torch.tensor([[2, 0]]))
    with pytest.raises(AlphabetError, match=r"\(bank, mode\)"):
        pole_mask(model, torch.tensor([1, 0]))
