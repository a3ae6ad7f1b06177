"""One model of the trained method, from its first random number to its checkpoint, with weighted losses."""

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from alphabet_core import (
    Alphabet,
    AlphabetConfig,
    AlphabetError,
    DivergedError,
    Examples,
    Recipe,
    TrainingStep,
    adapt,
    fit,
    fit_validated,
    predict_examples,
)
from alphabet_core.early_stopping import copy_state, restore_state
from alphabet_core.fused import FusedTrainer
from alphabet_cpu import CpuRuntime, CpuTrainer
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from alphabet_learn.drawing import draw_fresh
from alphabet_learn.problem import Doubles

Flags = NDArray[np.bool_]
LOSS_NAMES = {"classification": "cross_entropy", "multilabel": "multilabel", "regression": "mse"}
SETTLED = 0.01  # a validation loss of labels below this leaves nothing to stop or choose by
# Steps by the reference, which autograd differentiates, hold a batch's every intermediate; parts of it bound that.
REFERENCE_MICROBATCH = 16

_threads_lock = threading.Lock()
_inside, _configured = 0, 1  # callers within `one_thread`, and the number of threads before the first of them
_depth = threading.local()  # how often a thread has entered it


@contextmanager
def one_thread() -> Iterator[None]:
    """Set torch to one thread: its sums are then rounded alike everywhere, and small steps do not wait for threads.

    Each thread has the number before back when it leaves, also if it entered while another was inside.
    """
    global _inside, _configured
    with _threads_lock:
        if _inside == 0:
            _configured = torch.get_num_threads()
        _inside, _depth.entered = _inside + 1, getattr(_depth, "entered", 0) + 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _threads_lock:
            _inside, _depth.entered = _inside - 1, _depth.entered - 1
            if _depth.entered == 0:
                torch.set_num_threads(_configured)


class Weighted(TrainingStep):
    """A training step whose targets carry the weight of each series, so that its mean loss is the weighted one.

    Cross entropy: targets (N, K) are the weight in the column of the class and 0 elsewhere. Other losses: K columns of
    targets and a last one of weights, (N, K + 1), or without it (N, K) if all weights are 1.
    """

    def check_targets(self, targets: Tensor, batch: int, outputs: int) -> None:
        """Raise if the targets are neither (N, K) nor (N, K + 1)."""
        if targets.shape not in ((batch, outputs), (batch, outputs + 1)) or not targets.is_floating_point():
            raise AlphabetError(
                f"targets must be floating point of shape {(batch, outputs)}, or with a column of weights; "
                f"got {targets.dtype} {tuple(targets.shape)}"
            )

    def measure(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of the outputs (N, K), each series times its weight."""
        if targets.shape[1] == outputs.shape[1]:
            return super().measure(outputs, targets)
        self.check_targets(targets, *outputs.shape)
        wanted, weights = targets[:, :-1], targets[:, -1:]
        if self.loss == "multilabel":
            return F.binary_cross_entropy_with_logits(outputs, wanted, weight=weights.expand_as(wanted))
        return ((outputs - wanted).square() * weights).mean()


class WeightedCpuTrainer(Weighted, CpuTrainer):
    """Weighted steps by the CPU's fused kernels, which take their gradients from the logits on."""


@dataclass(frozen=True)
class Plan:
    """What all models of one fit share.

    examples: all training series, standardized, with plain targets (N, K) float32. weights (N,) float32.
    fused: whether kernels cover these inputs; irregular times are left to the reference.
    """

    examples: Examples
    weights: Tensor
    kind: str
    recipe: Recipe
    patience: int
    adapted: bool
    fused: bool

    def settles(self, loss: float) -> bool:
        """Whether a validation loss is so low that neither further epochs nor another size could visibly improve it."""
        return self.kind != "regression" and loss < SETTLED

    def training(self, rows: Tensor) -> Examples:
        """These rows, with the weights in their targets as `Weighted` reads them."""
        return self._weighted(rows, torch.float32)

    def validation(self, rows: Tensor) -> Examples:
        """The same with targets in float64, for a loss whose last digits no number of threads changes."""
        return self._weighted(rows, torch.float64)

    def _weighted(self, rows: Tensor, dtype: torch.dtype) -> Examples:
        part, weights = self.examples.take(rows), self.weights[rows].unsqueeze(1).to(dtype)
        weights, targets = weights / weights.mean(), part.targets.to(dtype)
        targets = targets * weights if self.kind == "classification" else torch.cat([targets, weights], dim=1)
        return Examples(part.values, targets, **part.side_inputs())


@dataclass(frozen=True)
class Member:
    """A fitted model, its size (width, modes), and how it came about.

    epochs: after how many the checkpoint was taken. run: how many were run. validation_loss: nan without validation.
    held_out: the rows of its validation fold, and outputs (rows, K) float64, what it gives for them.
    """

    model: Alphabet
    size: tuple[int, int]
    epochs: int
    run: int
    validation_loss: float
    held_out: NDArray[np.intp]
    outputs: Doubles
    interrupted: bool


class Settled(Exception):  # noqa: N818  not an error
    """Ends the epochs of a fit whose validation loss is as low as `SETTLED`; its checkpoint is restored."""


def fit_member(
    plan: Plan,
    size: tuple[int, int],
    held_out: Flags | None,
    *,
    seed: int,
    epochs: int,
    on_epoch: Callable[[int, float], None],
) -> Member:
    """A fresh model trained on all rows but those held out, and restored to its best checkpoint on these.

    Without a validation fold it is trained for `epochs`. An interrupt ends training; it is raised again only if no
    epoch has finished.
    """
    rows = torch.arange(len(plan.examples))
    mask = torch.zeros(len(rows), dtype=torch.bool) if held_out is None else torch.from_numpy(held_out)
    train = plan.training(rows[~mask])
    model = draw_model(plan, size, train, seed)
    step, predict, device = make_trainer(plan, model)
    if held_out is None:
        run, loss, interrupted = _fit_unvalidated(step, train.to(device), epochs, seed, on_epoch)
        best, outputs = run, np.empty((0, model.config.outputs))
    else:
        validation = plan.validation(rows[mask]).to(device)
        best, run, loss, interrupted = _fit_validated(
            plan, step, predict, train.to(device), validation, epochs, seed, on_epoch
        )
        outputs = predict_examples(predict, validation).cpu().numpy()
    model.to("cpu").eval().requires_grad_(False)
    return Member(model, size, best, run, loss, rows[mask].numpy(), outputs, interrupted)


def _fit_validated(
    plan: Plan,
    step: TrainingStep,
    predict: Callable[..., Tensor],
    train: Examples,
    validation: Examples,
    epochs: int,
    seed: int,
    on_epoch: Callable[[int, float], None],
) -> tuple[int, int, float, bool]:
    """The best epoch, how many were run, the loss there, and whether an interrupt ended it."""
    losses: list[float] = []

    def note(epoch: int, _: float, loss: float) -> None:
        losses.append(loss)
        on_epoch(epoch, loss)
        if plan.settles(loss):
            raise Settled

    try:
        fitted = fit_validated(
            step,
            train,
            validation,
            epochs=epochs,
            patience=plan.patience,
            seed=seed,
            predict=predict,
            on_epoch=note,
        )
    except (KeyboardInterrupt, Settled) as end:
        if not np.isfinite(losses).any():
            raise
        best = int(np.nanargmin(losses))
        return best + 1, len(losses), losses[best], isinstance(end, KeyboardInterrupt)
    return fitted.best_epoch, fitted.epochs, fitted.validation_loss, False


def _fit_unvalidated(
    step: TrainingStep, train: Examples, epochs: int, seed: int, on_epoch: Callable[[int, float], None]
) -> tuple[int, float, bool]:
    """How many epochs were run, nan for the loss on a fold that is not there, and whether an interrupt ended it."""
    finished, checkpoint = 0, copy_state(step.model)

    def note(epoch: int, loss: float) -> None:
        nonlocal finished, checkpoint
        if not math.isfinite(loss):
            raise DivergedError(f"training diverged: the loss of epoch {epoch + 1} is {loss}")
        finished, checkpoint = epoch + 1, copy_state(step.model)
        on_epoch(finished, loss)

    try:
        fit(step, train.values, train.targets, epochs=epochs, seed=seed, on_epoch=note, **train.side_inputs())
    except KeyboardInterrupt:
        if finished == 0:
            raise
        restore_state(step.model, checkpoint)
        return finished, math.nan, True
    return finished, math.nan, False


def draw_model(plan: Plan, size: tuple[int, int], train: Examples, seed: int) -> Alphabet:
    """A fresh model of this width and number of modes, drawn by the seed alone."""
    outputs = plan.examples.targets.shape[1]
    config = AlphabetConfig(channels=train.values.shape[2], width=size[0], modes=size[1], outputs=outputs)
    model = draw_fresh(config, seed=seed)
    if plan.adapted:
        with one_thread():
            adapt(model, train.values, seed=seed, **train.side_inputs())
    return model


def make_trainer(plan: Plan, model: Alphabet) -> tuple[FusedTrainer, Callable[..., Tensor], str]:
    """The weighted training step of a model, what predicts for it in float64, and the device that both run on."""
    loss, microbatch = LOSS_NAMES[plan.kind], None if plan.fused else REFERENCE_MICROBATCH
    trainer, runtime, device = _make_triton(plan, model) or (
        WeightedCpuTrainer(model, plan.recipe, loss=loss, microbatch=microbatch),
        CpuRuntime(model),
        "cpu",
    )

    def predict(values: Tensor, **side_inputs: Tensor) -> Tensor:
        return runtime(values, **side_inputs).double()

    return trainer, predict, device


def _make_triton(plan: Plan, model: Alphabet) -> tuple[FusedTrainer, Callable[..., Tensor], str] | None:
    """The same by a GPU's kernels, or None without a GPU or without alphabet_triton."""
    if not torch.cuda.is_available():
        return None
    try:
        from alphabet_triton import TritonRuntime, TritonTrainer
    except ImportError:
        return None

    class WeightedTritonTrainer(Weighted, TritonTrainer):
        """Weighted steps by the GPU's kernels."""

    model.to("cuda")
    microbatch = None if plan.fused else REFERENCE_MICROBATCH
    trainer = WeightedTritonTrainer(model, plan.recipe, loss=LOSS_NAMES[plan.kind], microbatch=microbatch)
    return trainer, TritonRuntime(model), "cuda"
