"""A trainer's gradients against the reference's in float64."""

import copy
from collections.abc import Callable
from typing import Any

from alphabet_core import Alphabet, TrainingStep
from torch import Tensor

# Against float64, relative to a tensor's largest entry. A gradient is a float32 sum over tokens and features, of ten
# thousand terms: 100 * 6e-8 if roundings add up like noise, times some cancellation; or thrice the reference's error.
CLOSE, SLACK = 2e-5, 3.0


def collect_gradients(step: TrainingStep, values: Tensor, targets: Tensor, **inputs: Tensor) -> dict[str, Tensor]:
    """The gradients of one batch's loss by name, that of the values among them."""
    step.model.zero_grad()
    values = values.clone().requires_grad_()
    step.accumulate(values, targets, 1.0, **inputs)
    found: dict[str, Any] = {"values": values.grad, **{name: p.grad for name, p in step.model.named_parameters()}}
    return found


def relative_errors(found: dict[str, Tensor], exact: dict[str, Tensor]) -> dict[str, float]:
    """The largest error of each gradient, relative to its largest entry."""
    return {
        name: float((found[name].double() - gradient).abs().max() / gradient.abs().max().clamp(min=1e-9))
        for name, gradient in exact.items()
    }


def assert_gradients_agree(
    make_trainer: Callable[[Alphabet], TrainingStep],
    model: Alphabet,
    values: Tensor,
    targets: Tensor,
    exact: dict[str, Tensor] | None = None,
    **inputs: Tensor,
) -> None:
    """Compare every gradient of a trainer with float64's, which are computed here unless they are given."""
    if exact is None:
        wide = {name: given.double() if name == "time_delta" else given for name, given in inputs.items()}
        reference = TrainingStep(copy.deepcopy(model).double())
        exact = collect_gradients(reference, values.double(), targets, **wide)
    found = relative_errors(collect_gradients(make_trainer(copy.deepcopy(model)), values, targets, **inputs), exact)
    if max(found.values()) < CLOSE:
        return
    step = TrainingStep(copy.deepcopy(model))
    plain = relative_errors(collect_gradients(step, values, targets, **inputs), exact)
    for name, error in found.items():
        assert error < max(CLOSE, SLACK * plain[name]), name
