"""The complete training step: loss, backward, global-norm clipping, AdamW, model constraints. Defined once, here."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alphabet_core.arguments import (
    describe,
    require_callable,
    require_count,
    require_number,
    require_seed,
    require_tensor,
)
from alphabet_core.errors import AlphabetError
from alphabet_core.examples import Examples
from alphabet_core.sequence import check_indices, check_lengths, check_target_values, values_checked


@dataclass(frozen=True)
class Recipe:
    """How a model is optimized: AdamW's settings, the gradient norm to clip at, and the batch size."""

    learning_rate: float
    clip_norm: float
    weight_decay: float = 1e-4
    batch_size: int = 64

    def __post_init__(self) -> None:
        require_number("learning_rate", self.learning_rate)
        require_number("clip_norm", self.clip_norm, infinite=True)  # which clips nothing
        require_number("weight_decay", self.weight_decay, zero=True)
        require_count("batch_size", self.batch_size)


RECIPES = {"A": Recipe(1e-3, 0.5), "B": Recipe(3e-3, 1.0), "C": Recipe(1e-2, 2.0)}

Loss = Callable[[Tensor, Tensor], Tensor]
LOSSES: dict[str, Loss] = {
    "cross_entropy": F.cross_entropy,
    "multilabel": F.binary_cross_entropy_with_logits,
    "mse": F.mse_loss,
}


class TrainingStep:
    """One optimizer step per call: `loss = step(values, targets)`.

    Works for any model of the project: `model(values, time_delta=, observed=, valid=)` gives the outputs, and
    `model.constrain()`, where it exists, is called after the optimizer. `microbatch` splits a batch into parts of at
    most that size whose gradients add up to the whole batch's.
    """

    def __init__(
        self,
        model: nn.Module,
        recipe: Recipe = RECIPES["B"],
        *,
        loss: str = "cross_entropy",
        microbatch: int | None = None,
    ) -> None:
        if not isinstance(recipe, Recipe):
            raise AlphabetError(f"recipe must be a Recipe, such as RECIPES['B']; got {recipe!r}")
        if not isinstance(model, nn.Module):
            raise AlphabetError(f"model must be a torch.nn.Module; got {describe(model)}")
        if not isinstance(loss, str) or loss not in LOSSES:
            raise AlphabetError(f"loss must be one of {', '.join(LOSSES)}; got {loss!r}")
        if microbatch is not None:
            require_count("microbatch", microbatch)
        self.model = model
        self.recipe = recipe
        self.loss = loss
        self.microbatch = microbatch
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if not self.parameters:
            raise AlphabetError("model has no trainable parameter; a frozen copy cannot train, pass the original model")
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=recipe.learning_rate, weight_decay=recipe.weight_decay, fused=True
        )
        wrapped = isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel)
        self._constrain: Callable[[], None] | None = getattr(model.module if wrapped else model, "constrain", None)

    def __call__(
        self,
        values: Tensor,
        targets: Tensor,
        *,
        time_delta: Tensor | None = None,
        observed: Tensor | None = None,
        valid: Tensor | None = None,
    ) -> Tensor:
        """Do the step and return the batch's mean loss before it, detached."""
        given = {"time_delta": time_delta, "observed": observed, "valid": valid}
        side_inputs = {name: tensor for name, tensor in given.items() if tensor is not None}
        check_lengths(values, targets=targets, **side_inputs)
        batch = values.shape[0]
        size = self.microbatch or max(batch, 1)
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), dtype=values.dtype, device=values.device)
        for start in range(0, max(batch, 1), size):
            part = slice(start, start + size)
            rows = {name: tensor[part] for name, tensor in side_inputs.items()}
            total += self.accumulate(values[part], targets[part], min(size, batch - start) / max(batch, 1), **rows)
        self.update()
        return total

    def step(
        self,
        values: Tensor,
        targets: Tensor,
        *,
        time_delta: Tensor | None = None,
        observed: Tensor | None = None,
        valid: Tensor | None = None,
    ) -> Tensor:
        """Do the step and return the batch's mean loss before it: the same as calling the object."""
        return self(values, targets, time_delta=time_delta, observed=observed, valid=valid)

    def update(self) -> None:
        """Turn the gradients into the next parameters: clip, optimize, constrain."""
        nn.utils.clip_grad_norm_(self.parameters, self.recipe.clip_norm)
        self.optimizer.step()
        if self._constrain is not None:
            self._constrain()

    def accumulate(self, values: Tensor, targets: Tensor, share: float, **side_inputs: Tensor) -> Tensor:
        """Add `share` times the gradients of the mean loss to the parameters'; return `share` times the loss."""
        require_number("share", share, zero=True)  # which an empty batch has
        loss = self.measure(self.predict(values, **side_inputs), targets) * share
        loss.backward()
        return loss.detach()

    def predict(self, values: Tensor, **side_inputs: Tensor) -> Tensor:
        """The model's outputs (B, K), to be differentiated."""
        outputs: Tensor = self.model(values, **side_inputs)
        return outputs

    def measure(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of the outputs, after checking that the targets fit them."""
        self.check_targets(targets, *outputs.shape)
        return LOSSES[self.loss](outputs, targets)

    def check_targets(self, targets: Tensor, batch: int, outputs: int) -> None:
        """Raise if the targets do not fit outputs of this shape."""
        require_tensor("targets", targets)
        if self.loss == "cross_entropy":
            if targets.shape != (batch,) or targets.dtype != torch.int64:
                raise AlphabetError(
                    f"targets must be int64 class indices of shape ({batch},); "
                    f"got {targets.dtype} {tuple(targets.shape)}"
                )
            if outputs == 1:
                raise AlphabetError(
                    "outputs=1 leaves cross entropy nothing to choose between: configure outputs=2, or use "
                    "loss='multilabel' with one 0/1 target"
                )
            if values_checked():
                check_indices("targets", targets, batch, outputs)
        elif targets.shape != (batch, outputs) or not targets.is_floating_point():
            raise AlphabetError(
                f"targets must be floating point of shape {(batch, outputs)} for loss={self.loss!r}; "
                f"got {targets.dtype} {tuple(targets.shape)}"
            )
        elif values_checked():
            check_target_values(targets, shares=self.loss == "multilabel")


def fit(
    step: TrainingStep,
    values: Tensor,
    targets: Tensor,
    *,
    epochs: int,
    seed: int,
    on_epoch: Callable[[int, float], None] | None = None,
    **side_inputs: Tensor | None,
) -> list[float]:
    """Train on shuffled minibatches of the recipe's size and return the mean loss of each epoch.

    `side_inputs` (time_delta, observed, valid) are batched along with the values; `on_epoch(epoch, loss)` reports.
    """
    require_step(step)
    require_count("epochs", epochs, least=0)
    if on_epoch is not None:
        require_callable("on_epoch", on_epoch)
    examples = Examples(values, targets, **side_inputs)
    order = torch.Generator().manual_seed(require_seed(seed))
    step.model.train()
    losses = []
    for epoch in range(epochs):
        losses.append(shuffled_epoch(step, examples, order))
        if on_epoch is not None:
            on_epoch(epoch, losses[-1])
    step.model.eval()
    return losses


def require_step(step: object) -> None:
    """Raise unless the argument `step` is a `TrainingStep`."""
    if not isinstance(step, TrainingStep):
        raise AlphabetError(f"step must be a TrainingStep, such as TrainingStep(model); got {describe(step)}")


def shuffled_epoch(step: TrainingStep, examples: Examples, order: torch.Generator) -> float:
    """Train on every example once, in minibatches of the recipe's size; return the mean loss."""
    total = 0.0
    for rows in torch.randperm(len(examples), generator=order).split(step.recipe.batch_size):
        batch = examples.take(rows.to(examples.values.device))
        total += float(step(batch.values, batch.targets, **batch.side_inputs())) * len(rows)
    return total / len(examples)
