"""Comparisons of three results, the runtime's, plain torch's in float32 and the reference's in float64: readings."""

import copy
import math
from collections.abc import Mapping
from typing import Any

import torch
from alphabet_core import RECIPES, TrainingStep
from alphabet_core.fused import FUSED
from torch import Tensor

from alphabet_audit.declare.tolerances import Tolerances
from alphabet_audit.gates.examples import Example
from alphabet_audit.gates.runtimes import Runtime
from alphabet_audit.protocol.readings import Reading

Masks = dict[str, Tensor]
# A tensor whose largest entry is below this is all rounding, so that entry is no scale.
LEAST_SCALE = 1e-9


class NotFusedError(Exception):
    """A runtime would fall back to the reference where its kernels are to be tried; the message is its reason."""


def largest(difference: Tensor) -> float:
    """The largest absolute entry of a tensor; infinite if any entry is not finite, which `max` might pass over."""
    if not torch.isfinite(difference).all():
        return math.inf
    return float(difference.abs().max())


def compare(quantity: str, found: Tensor, plain: Tensor, exact: Tensor, rules: Tolerances, rule: str) -> Reading:
    """The reading of a quantity by its largest absolute error."""
    if found.shape != exact.shape:
        return Reading(quantity, rule, math.inf, 0.0, rules[rule].limit(0.0))
    error, usual = (largest(result.detach().cpu().double() - exact.detach()) for result in (found, plain))
    return Reading(quantity, rule, error, usual, rules[rule].limit(usual))


def compare_scaled(quantity: str, found: Tensor, plain: Tensor, exact: Tensor, rules: Tolerances, rule: str) -> Reading:
    """The reading of a quantity by its largest error, relative to the exact tensor's largest entry."""
    scale = max(largest(exact.detach()), LEAST_SCALE)
    return compare(quantity, found.detach().cpu().double() / scale, plain.double() / scale, exact / scale, rules, rule)


def count_wrong(quantity: str, count: int) -> Reading:
    """The reading of a count of wrong entries, of which there may be none."""
    return Reading(quantity, "exact", float(count), 0.0, 0.0)


def infer(runtime: Runtime, example: Example, values: Tensor, masks: Mapping[str, Tensor]) -> Tensor:
    """The runtime's logits (B, K), by its own kernels and not by the reference."""
    model = copy.deepcopy(example.model).to(runtime.device)
    given = {name: mask.to(runtime.device) for name, mask in masks.items()}
    inference = runtime.infer(model)
    require_fused(inference.path(values.to(runtime.device), **given))
    return inference(values.to(runtime.device), **given).cpu()


def require_fused(path: str) -> None:
    """Raise unless a path is the fused one: comparing the reference with itself would prove nothing."""
    if path != FUSED:
        raise NotFusedError(path.removeprefix("reference: "))


def differentiate(
    step: Any, model: torch.nn.Module, values: Tensor, targets: Tensor, masks: Mapping[str, Tensor]
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss, and the gradients of the values and of every parameter by name; NaN where there is no gradient."""
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
    """Loss and gradients by the runtime ("found"), by plain torch ("plain") and by the float64 reference ("exact")."""
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
