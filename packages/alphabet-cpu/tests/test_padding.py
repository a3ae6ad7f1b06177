"""Padding behind a sequence: it changes nothing, and nothing is computed for it."""

import copy

import pytest
import torch
from alphabet_cpu import CpuRuntime, CpuTrainer
from alphabet_testing.models import make_batch, make_model
from alphabet_testing.timing import interleaved_ratio


@pytest.mark.parametrize("length", [1, 40, 128, 130, 263])
def test_padding_never_changes_a_bit_of_the_logits(length):
    model, (values, _) = make_model(), make_batch(2, 300, 2)
    valid = torch.arange(300) < torch.tensor([[300], [length]])
    padded = CpuRuntime(model)(values, valid=valid)
    alone = CpuRuntime(model)(values[1:, :length], valid=torch.ones(1, length))
    assert torch.equal(padded[1:], alone)


@pytest.mark.parametrize("length", [1, 130])
def test_padding_has_no_gradient_and_changes_none(length):
    model, (values, _) = make_model(), make_batch(1, 300, 2)
    found = []
    for tokens, masks in ((values, {"valid": torch.arange(300).unsqueeze(0) < length}), (values[:, :length], {})):
        step, tokens = CpuTrainer(copy.deepcopy(model)), tokens.clone().requires_grad_()
        step.accumulate(tokens, torch.tensor([1]), 1.0, **masks)
        found.append([tokens.grad[:, :length], *(parameter.grad for parameter in step.model.parameters())])
        assert not tokens.grad[:, length:].any()
    for padded, alone in zip(*found, strict=True):
        # The same sums over tiles, put together in another order.
        torch.testing.assert_close(padded, alone, rtol=1e-5, atol=1e-6 * float(alone.abs().max()))


def test_a_sequence_of_nothing_but_padding_has_finite_gradients():
    model, (values, _) = make_model(), make_batch(2, 200, 2)
    step = CpuTrainer(model)
    step.accumulate(values, torch.arange(2), 1.0, valid=torch.zeros(2, 200))
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


@pytest.mark.usefixtures("one_thread")
def test_a_batch_of_uneven_lengths_costs_what_its_tokens_cost():
    model, values, targets = make_model(), torch.randn(32, 1024, 2), torch.arange(32) % 5
    whole, uneven = torch.ones(32, 1024, dtype=torch.bool), torch.arange(1024) < 32 * torch.arange(1, 33).unsqueeze(1)
    runtime, step = CpuRuntime(model), CpuTrainer(copy.deepcopy(model))
    step(values, targets)
    # Half of the tokens count; copying the values and checking them is the same for both.
    assert (
        interleaved_ratio(lambda: runtime(values, valid=whole), lambda: runtime(values, valid=uneven), rounds=15) > 1.4
    )
    steps = [lambda valid=valid: step(values, targets, valid=valid) for valid in (whole, uneven)]
    assert interleaved_ratio(*steps, rounds=15) > 1.5
