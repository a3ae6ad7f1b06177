"""A runtime's result, plain torch's and float64's: how wrong each is, and whether it may be."""

import copy
import math
from collections.abc import Mapping
from typing import Any

import torch
from alphabet_core import RECIPES, TrainingStep
from torch import Tensor

from alphabet_audit.gates.examples import Example
from alphabet_audit.runtimes import FUSED, Runtime
from alphabet_audit.tolerances import Reading, Tolerances

Masks = dict[str, Tensor]
# Below this a tensor's largest entry is no scale any more: all of it is rounding.
LEAST_SCALE = 1e-9


class NotFusedError(Exception):
    """A runtime took the reference's way where its own was to be tried; the message is its reason."""


def largest(difference: Tensor) -> float:
    """The largest entry; infinite if any entry is no finite number, which `max` might pass over."""
    if not torch.isfinite(difference).all():
        return math.inf
    return float(difference.abs().max())


def compare(quantity: str, found: Tensor, plain: Tensor, exact: Tensor, rules: Tolerances, rule: str) -> Reading:
    """Largest errors, absolute."""
    if found.shape != exact.shape:
        return Reading(quantity, rule, math.inf, 0.0, rules[rule].limit(0.0))
    error, usual = (largest(result.detach().cpu().double() - exact.detach()) for result in (found, plain))
    return Reading(quantity, rule, error, usual, rules[rule].limit(usual))


def compare_scaled(quantity: str, found: Tensor, plain: Tensor, exact: Tensor, rules: Tolerances, rule: str) -> Reading:
    """Largest errors by the exact tensor's largest entry."""
    scale = max(largest(exact.detach()), LEAST_SCALE)
    return compare(quantity, found.detach().cpu().double() / scale, plain.double() / scale, exact / scale, rules, rule)


def count_wrong(quantity: str, count: int) -> Reading:
    """How many of something are wrong, of which none may be."""
    return Reading(quantity, "exact", float(count), 0.0, 0.0)


def infer(runtime: Runtime, example: Example, values: Tensor, masks: Mapping[str, Tensor]) -> Tensor:
    """The runtime's logits, by its own implementation and no other."""
    model = copy.deepcopy(example.model).to(runtime.device)
    given = {name: mask.to(runtime.device) for name, mask in masks.items()}
    inference = runtime.infer(model)
    require_fused(inference.path(values.to(runtime.device), **given))
    return inference(values.to(runtime.device), **given).cpu()


def require_fused(path: str) -> None:
    """Comparing the reference with itself would prove nothing."""
    if path != FUSED:
        raise NotFusedError(path)


def differentiate(
    step: Any, model: torch.nn.Module, values: Tensor, targets: Tensor, masks: Mapping[str, Tensor]
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss, and the gradients of values and of every parameter by name."""
    model.zero_grad()
    values = values.clone().requires_grad_()
    loss = step.accumulate(values, targets, 1.0, **masks)
    leaves = {"values": values, **dict(model.named_parameters())}
    return loss.cpu(), {
        name: (torch.full_like(leaf, math.nan) if leaf.grad is None else leaf.grad).cpu()
        for name, leaf in leaves.items()
    }


def differentiate_all(
    runtime: Runtime, example: Example, values: Tensor, masks: Masks
) -> dict[str, tuple[Tensor, dict[str, Tensor]]]:
    """Loss and gradients by the runtime ("found"), by plain torch and exactly."""
    device, model = runtime.device, example.twin().to(runtime.device)
    trainer = runtime.train(model, RECIPES["B"])
    given = {name: mask.to(device) for name, mask in masks.items()}
    require_fused(trainer.path(values.to(device), **given))
    oracle, plain = example.oracle(), example.twin()
    return {
        "found": differentiate(trainer, model, values.to(device), example.targets.to(device), given),
        "plain": differentiate(TrainingStep(plain), plain, values, example.targets, masks),
        "exact": differentiate(TrainingStep(oracle), oracle, values.double(), example.targets, masks),
    }
