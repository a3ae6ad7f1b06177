"""Fitting with validation, checkpoint and early stopping: the one definition that every study and estimator uses."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from alphabet_core.arguments import describe, require_callable, require_count, require_seed
from alphabet_core.errors import AlphabetError
from alphabet_core.examples import Examples
from alphabet_core.training import TrainingStep, require_step, shuffled_epoch

Predict = Callable[..., Tensor]
PREDICTION_BATCH = 256


class DivergedError(AlphabetError):
    """Training never reached a finite validation loss: no checkpoint can be restored."""


@dataclass(frozen=True)
class Fitted:
    """How a fit went: its losses epoch by epoch, and the epoch whose parameters the model now holds.

    best_epoch counts from 1, so it is also the number of epochs after which that checkpoint was taken.
    """

    best_epoch: int
    train_losses: list[float]
    validation_losses: list[float]

    @property
    def epochs(self) -> int:
        """The number of epochs that were run."""
        return len(self.validation_losses)

    @property
    def validation_loss(self) -> float:
        """The validation loss at the restored checkpoint, the lowest of all."""
        return self.validation_losses[self.best_epoch - 1]


def fit_validated(
    step: TrainingStep,
    train: Examples,
    validation: Examples,
    *,
    epochs: int,
    patience: int,
    seed: int,
    predict: Predict | None = None,
    on_epoch: Callable[[int, float, float], None] | None = None,
) -> Fitted:
    """Train until the validation loss has not improved for `patience` epochs; leave the model at its best checkpoint.

    The validation loss is what the step measures, so that a step with a loss of its own is also stopped by it. The
    checkpoint is the first epoch with the lowest validation loss. Whatever ends the loop, an interrupt included,
    the model holds the best parameters so far. A loss that is not finite ends it too; without any checkpoint by then,
    `DivergedError` is raised. `predict` computes the model's outputs in its place, such as a fused runtime of the same
    model; `on_epoch(epoch, train loss, validation loss)` reports.
    """
    require_step(step)
    require_count("epochs", epochs)
    require_count("patience", patience)
    if on_epoch is not None:
        require_callable("on_epoch", on_epoch)
    for name, examples in (("train", train), ("validation", validation)):
        if not isinstance(examples, Examples) or len(examples) == 0:
            raise AlphabetError(f"{name} must be Examples with at least one sequence; got {_describe(examples)}")
    predict = predict or step.model
    _check_targets(step, predict, validation)
    order = torch.Generator().manual_seed(require_seed(seed))
    losses: list[float] = []
    validated: list[float] = []
    best, checkpoint = 0, None
    try:
        for epoch in range(1, epochs + 1):
            step.model.train()
            losses.append(shuffled_epoch(step, train, order))
            step.model.eval()
            validated.append(float(step.measure(predict_examples(predict, validation), validation.targets)))
            if math.isfinite(validated[-1]) and (best == 0 or validated[-1] < validated[best - 1]):
                best, checkpoint = epoch, copy_state(step.model)
            if on_epoch is not None:
                on_epoch(epoch, losses[-1], validated[-1])
            if epoch - best >= patience or not (math.isfinite(losses[-1]) and math.isfinite(validated[-1])):
                break
    finally:
        step.model.eval()
        if checkpoint is not None:
            restore_state(step.model, checkpoint)
    if checkpoint is None:
        raise DivergedError(
            f"training diverged: the validation loss was never finite in {len(validated)} epoch(s); "
            "lower the learning rate or standardize the values"
        )
    return Fitted(best, losses, validated)


def _describe(examples: object) -> str:
    return "none" if isinstance(examples, Examples) else type(examples).__name__


@torch.no_grad()
def _check_targets(step: TrainingStep, predict: Predict, examples: Examples) -> None:
    """Raise before the first epoch, not after it, if the targets do not fit what the model puts out."""
    step.model.eval()  # so that nothing random is drawn
    first = examples.take(slice(1))
    outputs = predict(first.values, **first.side_inputs())
    step.check_targets(examples.targets, len(examples), outputs.shape[1])


@torch.no_grad()
def predict_examples(predict: Predict, examples: Examples) -> Tensor:
    """The outputs (N, K) of examples, computed in parts so that memory stays bounded."""
    require_callable("predict", predict)
    if not isinstance(examples, Examples):
        raise AlphabetError(f"examples must be Examples; got {describe(examples)}")
    starts = range(0, len(examples), PREDICTION_BATCH)
    parts = [examples.take(slice(start, start + PREDICTION_BATCH)) for start in starts]
    return torch.cat([predict(part.values, **part.side_inputs()) for part in parts])


def copy_state(model: nn.Module) -> dict[str, Tensor]:
    """The parameters and buffers as they are now."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


@torch.no_grad()
def restore_state(model: nn.Module, state: dict[str, Tensor]) -> None:
    """Copy parameters and buffers back into the tensors that hold them, which stay where they are."""
    current = model.state_dict()
    for name, tensor in state.items():
        current[name].copy_(tensor)
