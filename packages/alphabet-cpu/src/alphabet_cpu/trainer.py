"""CpuTrainer: the complete training step with the fused forward and backward kernels."""

import numpy as np
import torch
from alphabet_core import RECIPES, Alphabet, Recipe, TrainingStep, read_sequence
from torch import Tensor, nn

from alphabet_cpu.backward import backpropagate
from alphabet_cpu.batch import Batch, Doubles, describe_sums, read_batch, read_head, sum_batch
from alphabet_cpu.conditioning import return_sums
from alphabet_cpu.folding import FoldingAtBase, FoldingByGraph, add_gradient, is_at_base
from alphabet_cpu.path import FUSED, Pathfinder, choose_path, require_alphabet
from alphabet_cpu.weights import Array, transpose
from alphabet_cpu.workers import compile_aloud, one_torch_thread, run_slices, split_range


class CpuTrainer(Pathfinder, TrainingStep):
    """`loss = trainer.step(values, targets)`: the core's `TrainingStep` with its gradients from compiled kernels.

    Optimizer, clipping and constraints are the core's own. What the kernels do not cover takes the reference's way;
    `path(...)` says which a call takes, and why.
    """

    def __init__(
        self,
        model: Alphabet,
        recipe: Recipe = RECIPES["B"],
        *,
        loss: str = "cross_entropy",
        microbatch: int | None = None,
    ) -> None:
        super().__init__(require_alphabet(model), recipe, loss=loss, microbatch=microbatch)
        self.alphabet = model
        self._threads = 1

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
        if choose_path(self.alphabet, values, time_delta) != FUSED:
            return super().__call__(values, targets, time_delta=time_delta, observed=observed, valid=valid)
        with one_torch_thread() as self._threads:
            return super().__call__(values, targets, observed=observed, valid=valid)

    step = __call__

    def accumulate(self, values: Tensor, targets: Tensor, share: float, **companions: Tensor) -> Tensor:
        """Add `share` times the gradients of the mean loss, to `values` too if it asks for them; return the loss."""
        model = self.alphabet
        if choose_path(model, values, companions.get("time_delta")) != FUSED:
            return super().accumulate(values, targets, share, **companions)
        sequence = read_sequence(values, channels=model.config.channels, like=model.project.weight, **companions)
        batch = read_batch(sequence)
        folding = FoldingAtBase(model) if is_at_base(model) else FoldingByGraph(model)
        sums = sum_batch(batch, model.config.width, folding.weights, self._threads)
        descriptor = describe_sums(sums, batch.pairs, model.config.modes)
        logits = torch.from_numpy(read_head(model.head, descriptor)).float().requires_grad_()
        loss = self.measure(logits, targets) * share
        loss.backward()  # to the logits; from here on by hand
        assert logits.grad is not None
        d_descriptor = return_head(model.head, descriptor, logits.grad)
        d_sums = np.zeros_like(sums)
        return_sums(sums, batch.pairs, d_descriptor, d_sums)
        gradients, d_values = backpropagate_batch(
            batch, model.config.width, folding.weights, d_sums, self._threads, want_values=values.requires_grad
        )
        folding.give_back(gradients)
        if d_values is not None:
            sequence.values.backward(d_values)
        return loss.detach()


def return_head(head: nn.Module, descriptor: Doubles, d_logits: Tensor) -> Doubles:
    """The descriptor's gradient, and the head's added to `.grad`."""
    assert isinstance(head, nn.Linear)
    d = d_logits.numpy().astype(np.float64)
    add_gradient(head.weight, d.T @ descriptor.reshape(len(d), -1))
    add_gradient(head.bias, d.sum(axis=0))
    d_descriptor: Doubles = d @ head.weight.detach().numpy().astype(np.float64)
    return d_descriptor.reshape(descriptor.shape)


def backpropagate_batch(
    batch: Batch, width: int, weights: tuple[Array, ...], d_sums: Doubles, threads: int, *, want_values: bool
) -> tuple[list[Array], Tensor | None]:
    """Gradients of the folded weights, flat, and of the values (B, T, C) if wanted."""
    rows, length, channels = batch.shape
    turned = (transpose(weights[2], width), transpose(weights[4], weights[3].size), transpose(weights[7], width))
    sum_grads = d_sums.astype(np.float32).ravel()
    d_values = np.zeros(batch.values.size if want_values else 1, np.float32)
    parts = [tuple(np.zeros_like(weight) for weight in weights) for _ in split_range(rows, threads)]

    def work(piece: int, first: int, last: int) -> None:
        backpropagate(batch.values, batch.valid, batch.gate, batch.masked, first, last, length, channels, width,
                      weights, turned, sum_grads, parts[piece], d_values, want_values)  # fmt: skip

    with compile_aloud(backpropagate):
        run_slices(work, rows, threads)
    # In the order of the slices, so that a fixed number of threads gives the same sums bit by bit.
    gradients = [np.sum(pieces, axis=0) for pieces in zip(*parts, strict=True)]
    return gradients, torch.from_numpy(d_values).view(rows, length, channels) if want_values else None
