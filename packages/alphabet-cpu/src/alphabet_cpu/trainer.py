"""CpuTrainer: the complete training step with the fused forward and backward kernels."""

import numpy as np
import torch
from alphabet_core import RECIPES, Alphabet, Recipe, read_sequence
from alphabet_core.fused import TANGENT_SCALE, FusedTrainer, read_adamw_settings
from numpy.typing import NDArray
from torch import Tensor, nn

from alphabet_cpu.backward import backpropagate
from alphabet_cpu.batch import Batch, Doubles, Outputs, read_batch, run_batch
from alphabet_cpu.dispatch import CpuDispatch, fused_fallback_reason
from alphabet_cpu.folding import FoldingAtBase, FoldingByGraph, add_gradient, is_at_base
from alphabet_cpu.optimizer import clip_and_move, rebase
from alphabet_cpu.weights import Array, Weights
from alphabet_cpu.workers import compile_aloud, one_torch_thread, run_together

# Of sequences whose gradients are added up apart. Fixed, so that the sums depend neither on the number of threads nor
# on which of them was faster.
GROUPS = 32


class CpuTrainer(CpuDispatch, FusedTrainer):
    """`loss = trainer.step(values, targets)`: the core's `TrainingStep` with its gradients from compiled kernels.

    Clipping, AdamW and the frames' constraint are compiled too, on torch's own optimizer state. What the kernels do not
    cover takes the reference's way; `path(...)` says which a call takes, and why.
    """

    def __init__(
        self,
        model: Alphabet,
        recipe: Recipe = RECIPES["B"],
        *,
        loss: str = "cross_entropy",
        microbatch: int | None = None,
    ) -> None:
        super().__init__(model, recipe, loss=loss, microbatch=microbatch)
        self._threads: int | None = None

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
        side_inputs = {"time_delta": time_delta, "observed": observed, "valid": valid}
        if self.fallback_reason(values, time_delta) is not None:
            return super().__call__(values, targets, **side_inputs)
        with one_torch_thread() as self._threads, compile_aloud(CpuTrainer):
            try:
                return super().__call__(values, targets, **side_inputs)
            finally:
                self._threads = None

    def fallback_reason(self, values: Tensor | None = None, time_delta: Tensor | None = None) -> str | None:
        """Why a call takes the reference, or None."""
        return FusedTrainer.fallback_reason(self) or super().fallback_reason(values, time_delta)

    def accumulate(self, values: Tensor, targets: Tensor, share: float, **side_inputs: Tensor) -> Tensor:
        """Add `share` times the gradients of the mean loss, to `values` too if it asks for them; return the loss."""
        if self.fallback_reason(values, side_inputs.get("time_delta")) is not None:
            return super().accumulate(values, targets, share, **side_inputs)
        if self._threads is not None:  # within a step
            return self._accumulate(values, targets, share, self._threads, **side_inputs)
        with one_torch_thread() as threads:
            return self._accumulate(values, targets, share, threads, **side_inputs)

    def _accumulate(self, values: Tensor, targets: Tensor, share: float, threads: int, **side_inputs: Tensor) -> Tensor:
        model = self.alphabet
        sequence = read_sequence(values, channels=model.config.channels, like=model.project.weight, **side_inputs)
        batch = read_batch(sequence)
        folding = FoldingAtBase(model) if is_at_base(model) else FoldingByGraph(model)
        outputs = run_batch(batch, folding.weights, threads)
        logits = torch.from_numpy(outputs.logits).float().requires_grad_()
        loss = self.measure(logits, targets) * share
        loss.backward()  # to the logits; from here on by hand
        assert logits.grad is not None
        d_descriptor = return_head(model.head, outputs.descriptor, logits.grad)
        gradient, d_values = backpropagate_batch(
            batch, folding.weights, outputs, d_descriptor, threads, want_values=values.requires_grad
        )
        folding.give_back(gradient)
        if d_values is not None:
            sequence.values.backward(d_values)
        return loss.detach()

    def update(self) -> None:
        """Clip, optimize and constrain by compiled code, on torch's own optimizer state and settings."""
        settings = read_adamw_settings(self.optimizer)
        table = None if settings is None else list_moving(self.optimizer)
        if settings is None or table is None or fused_fallback_reason(self.alphabet) is not None:
            super().update()
            return
        clip_and_move(table, float(self.recipe.clip_norm), *settings)
        for frame in self.trainable_frames():
            rebase(frame.base.numpy(), frame.tangent.detach().numpy(), TANGENT_SCALE)
        self.announce_step()


def list_moving(optimizer: torch.optim.Optimizer) -> NDArray[np.int64] | None:
    """Addresses and sizes of what an AdamW step moves, or None where only torch can: at the first step."""
    rows = []
    for parameter in optimizer.param_groups[0]["params"]:
        state = optimizer.state.get(parameter)
        if parameter.grad is None or not state:
            return None
        tensors = (parameter, parameter.grad, state["exp_avg"], state["exp_avg_sq"], state["step"])
        if not all(tensor.dtype == torch.float32 and tensor.is_contiguous() for tensor in tensors):
            return None
        rows.append([*(tensor.data_ptr() for tensor in tensors), parameter.numel()])
    return np.array(rows)


def return_head(head: nn.Module, descriptor: Doubles, d_logits: Tensor) -> Doubles:
    """The descriptor's gradient, and the head's added to `.grad`."""
    assert isinstance(head, nn.Linear)
    d = d_logits.numpy().astype(np.float64)
    add_gradient(head.weight, d.T @ descriptor.reshape(len(d), -1))
    add_gradient(head.bias, d.sum(axis=0))
    d_descriptor: Doubles = d @ head.weight.detach().numpy().astype(np.float64)
    return d_descriptor.reshape(descriptor.shape)


def backpropagate_batch(
    batch: Batch, weights: Weights, outputs: Outputs, d_descriptor: Doubles, threads: int, *, want_values: bool
) -> tuple[Array, Tensor | None]:
    """The gradient of the packed weights, and of the values (B, T, C) if wanted."""
    rows, length, _ = batch.shape
    d_values = np.zeros(batch.values.size if want_values else 0, np.float32)
    grads = np.zeros((min(rows, GROUPS), weights.packed.size), np.float32)
    counter = np.zeros(1, np.int64)

    def work() -> None:
        backpropagate(batch.values, batch.valid, batch.gate, batch.masked, counter, rows, length, weights.sizes,
                      weights.packed, batch.pairs, outputs.sums, d_descriptor, grads, d_values)  # fmt: skip

    with compile_aloud(backpropagate):
        run_together(work, min(threads, len(grads)))
    gradient: Array = grads.sum(axis=0)
    return gradient, torch.from_numpy(d_values).view(batch.shape) if want_values else None
