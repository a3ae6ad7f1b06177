"""What every trainer promises: the reference's trajectory, and its optimizer's state, whatever happens in between."""

import copy

import pytest
import torch
from alphabet_core import TrainingStep

from alphabet_testing.models import make_batch

SLACK = 3.0


def assert_trajectories_agree(make_trainer, model, batches, **options):
    """Losses equal, and parameters no further from float64's trajectory than the reference's are, times SLACK."""
    runs = {
        "exact": TrainingStep(copy.deepcopy(model).double(), **options),
        "plain": TrainingStep(copy.deepcopy(model), **options),
        "fused": make_trainer(copy.deepcopy(model), **options),
    }
    for values, targets, masks in batches:
        losses = {}
        for name, step in runs.items():
            dtype = torch.float64 if name == "exact" else torch.float32
            given = targets.to(dtype) if targets.is_floating_point() else targets
            losses[name] = float(step(values.to(dtype), given, **masks))
        assert losses["fused"] == pytest.approx(losses["exact"], abs=2e-6)
    for parameters in zip(*(step.model.parameters() for step in runs.values()), strict=True):
        exact, plain, fused = (parameter.detach().double() for parameter in parameters)
        # Adam divides by the gradient's own size, so an entry whose gradient is rounding moves by rounding's sign.
        allowed = max(3e-5, SLACK * float((plain - exact).abs().max()))
        assert float((fused - exact).abs().max()) < allowed
        assert float((fused - exact).abs().median()) < 1e-6


def set_gradients(model, seed, size=0.1):
    """Give every parameter a random gradient, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = size * torch.randn(parameter.shape, generator=generator)


def tensors_of(step):
    """The tensors that an update changes, by name: parameters, buffers, gradients and the optimizer's state."""
    states = [step.optimizer.state[parameter] for parameter in step.parameters]
    return {
        **dict(step.model.named_parameters()),
        **dict(step.model.named_buffers()),
        **{f"{name}.grad": parameter.grad for name, parameter in step.model.named_parameters()},
        **{f"{i}.{name}": state[name] for i, state in enumerate(states) for name in state},
    }


def assert_equal(fused, plain, atol):
    """Compare everything that an update changes in two trainers."""
    found, wanted = tensors_of(fused), tensors_of(plain)
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-5, atol=atol, msg=lambda m, n=name: f"{n}: {m}")


def freeze_for_a_while(step, values, targets):
    weight = step.model.project.weight
    weight.requires_grad_(False)
    for _ in range(3):
        step(values, targets)
    weight.requires_grad_(True)


def store_by_columns(step, values, targets):
    weight = step.model.project.weight
    weight.data = weight.data.T.contiguous().T


def drop_decoupling(step, values, targets):
    step.optimizer.param_groups[0]["decoupled_weight_decay"] = False


def choose_adam(step, values, targets):
    step.optimizer = torch.optim.Adam(step.parameters, lr=1e-3, weight_decay=0.1)


def choose_sgd(step, values, targets):
    step.optimizer = torch.optim.SGD(step.parameters, lr=1e-2)


def give_the_rate_as_a_tensor(step, values, targets):
    step.optimizer.param_groups[0]["lr"] = torch.tensor(0.01)


def load_a_state(step, values, targets):
    step.optimizer.load_state_dict(copy.deepcopy(step.optimizer.state_dict()))


CHANGES = [
    freeze_for_a_while, store_by_columns, drop_decoupling, choose_adam, choose_sgd, give_the_rate_as_a_tensor,
    load_a_state,
]  # fmt: skip


def assert_steps_follow(fused, plain, change, *, batch=4, length=30):
    """Compare two trainers that do a step, are changed alike, and do three more."""
    values, _ = make_batch(batch, length, plain.model.config.channels)
    targets = torch.arange(batch) % plain.model.config.outputs
    for step in (fused, plain):
        step(values, targets)
        change(step, values, targets)
        for _ in range(3):
            step(values, targets)
    for (name, found), wanted in zip(fused.model.named_parameters(), plain.model.parameters(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=3e-5, msg=lambda m, n=name: f"{n}: {m}")
