"""CpuTrainer: the complete training step with the fused forward and backward kernels."""

from typing import NamedTuple

import numpy as np
import torch
from alphabet_core import TrainingStep, read_sequence
from alphabet_core.fused import (
    TANGENT_SCALE,
    EnergyHead,
    FusedTrainer,
    ModelWatch,
    check_lengths,
    read_adamw_settings,
    require_number,
)
from torch import Tensor
from torch.autograd.graph import increment_version

from alphabet_cpu.batch import Pass, count_threads, is_split, read_batch, read_plain_batch, run_batch
from alphabet_cpu.descent import adamw_table, descend, descend_by_graph, drop_gradients
from alphabet_cpu.dispatch import CpuDispatch
from alphabet_cpu.folding import FoldingAtBase, FoldingByGraph, is_at_base
from alphabet_cpu.kernels.backward import DONE, Gradients, Return, backpropagate, count_behind
from alphabet_cpu.kernels.layout import Batch, Doubles, Floats, Outputs, without_names
from alphabet_cpu.kernels.optimizer import clip_and_move, rebase
from alphabet_cpu.kernels.tiles import count_tiles
from alphabet_cpu.openmp import one_product_thread
from alphabet_cpu.weights import ModelWeights, energies_only
from alphabet_cpu.workers import UNDER_WAY, announce_compilation, one_torch_thread, run_together

# Groups of tiles whose gradients are added up apart. The number is fixed, so that sums depend neither on how many
# threads there are nor on which of them was faster.
GROUPS = 32
LEAST_PER_THREAD = 4096  # numbers, tokens times width, that are worth a thread: a fourth of a forward pass's


class CpuTrainer(CpuDispatch, FusedTrainer):
    """`loss = trainer.step(values, targets)`: the core's `TrainingStep` with its gradients from compiled kernels.

    Clipping, AdamW and the frames' constraint are compiled too, on torch's own optimizer state. The reference runs what
    the kernels do not cover; `path(...)` says which of the two runs a call, and why.
    """

    _threads: int | None = None  # within a step, how many its kernels may take
    _folding: tuple[ModelWatch, FoldingAtBase] | None = None
    _frames: "Frames | None" = None

    def __call__(
        self,
        values: Tensor,
        targets: Tensor,
        *,
        time_delta: Tensor | None = None,
        observed: Tensor | None = None,
        valid: Tensor | None = None,
    ) -> Tensor:
        """The batch's mean loss before the step that this does, detached."""
        side_inputs = {"time_delta": time_delta, "observed": observed, "valid": valid}
        if self.fallback_reason(values, time_delta) is not None:
            return super().__call__(values, targets, **side_inputs)
        with one_torch_thread() as self._threads, announce_compilation(CpuTrainer):
            try:
                if self.microbatch is not None:
                    return super().__call__(values, targets, **side_inputs)
                given = {name: tensor for name, tensor in side_inputs.items() if tensor is not None}
                check_lengths(values, targets=targets, **given)
                drop_gradients(self.optimizer)
                loss = self.accumulate(values, targets, 1.0, **given)
                self.update()
                return loss
            finally:
                self._threads = None

    def fallback_reason(self, values: Tensor | None = None, time_delta: Tensor | None = None) -> str | None:
        """Why the reference runs a call, or None; without values, the reason that holds for every call."""
        if isinstance(time_delta, Tensor) and time_delta.requires_grad:
            return "time_delta requires a gradient; the kernels compute none for it"
        return FusedTrainer.fallback_reason(self) or CpuDispatch.fallback_reason(self, values)

    def accumulate(self, values: Tensor, targets: Tensor, share: float, **side_inputs: Tensor) -> Tensor:
        """Add `share` times the mean loss's gradients, also to `values` if it requires one; return that share of it."""
        if self._threads is not None:  # within a step, which has looked
            return self._accumulate(values, targets, share, self._threads, **side_inputs)
        if self.fallback_reason(values, side_inputs.get("time_delta")) is not None:
            return super().accumulate(values, targets, share, **side_inputs)
        with one_torch_thread() as threads:
            return self._accumulate(values, targets, share, threads, **side_inputs)

    def _accumulate(self, values: Tensor, targets: Tensor, share: float, threads: int, **side_inputs: Tensor) -> Tensor:
        model, sequence, batch = self.alphabet, None, None
        require_number("share", share, zero=True)
        if not side_inputs and isinstance(values, Tensor) and not values.requires_grad:
            batch = read_plain_batch(values, model.config.channels)
        if batch is None:
            sequence = read_sequence(values, channels=model.config.channels, like=model.project.weight, **side_inputs)
            batch = read_batch(sequence)
        folding = self._fold()
        weights = folding.weights
        if model.config.energy_hidden is not None:
            weights = energies_only(weights)
        forward = run_batch(batch, weights, threads, keep=True)
        loss, d_descriptor = self._descend(forward.outputs, targets, share)
        gradient, d_values = backpropagate_batch(
            batch, weights, forward, d_descriptor, threads, want_values=values.requires_grad
        )
        folding.accumulate_gradients(gradient)
        if sequence is not None and d_values is not None:
            sequence.values.backward(d_values)
        return loss

    def _fold(self) -> FoldingAtBase | FoldingByGraph:
        """The parameters as they are now, folded; where they lie is kept from step to step, as long as it holds."""
        kept, found = self._folding, self._finding or self.look()
        if kept is not None and kept[0] is found.watch and kept[1].repeat():
            return kept[1]
        self._folding = None
        if not is_at_base(self.alphabet):
            return FoldingByGraph(self.alphabet)
        folding = FoldingAtBase(self.alphabet)
        if found.table is not None:
            self._folding = found.watch, folding
        return folding

    def _descend(self, outputs: Outputs, targets: Tensor, share: float) -> tuple[Tensor, Doubles]:
        """The share of the loss, and the descriptor's gradient; the head's are added to `.grad`."""
        head, found = self.alphabet.head, None
        if isinstance(head, EnergyHead):
            descriptor = torch.from_numpy(outputs.descriptor).float().requires_grad_()
            with one_product_thread():
                loss = self.measure(head(descriptor), targets) * share
                loss.backward()
            assert descriptor.grad is not None
            return loss.detach(), descriptor.grad.double().numpy()
        if is_cores(self.measure) and is_cores(self.check_targets):
            found = descend(self.loss, head, outputs, targets, share)
        return found or descend_by_graph(self.measure, head, outputs, targets, share)

    def update(self) -> None:
        """Clip, optimize and constrain by compiled code, on torch's own optimizer state and settings."""
        settings = read_adamw_settings(self.optimizer, self.parameters)
        table = None if settings is None else adamw_table(self.optimizer)
        if settings is None or table is None or (self._threads is None and self.look().reason is not None):
            super().update()
            return
        clip_and_move(table, float(self.recipe.clip_norm), tuple(settings))
        for base, tangent in self._follow_frames().arrays:
            rebase(base, tangent, TANGENT_SCALE)
        self.announce_step()

    def announce_step(self) -> None:
        """Let observers of tensor versions see what compiled code changed, and a scheduler that there was a step."""
        increment_version(self._follow_frames().moved)
        self.optimizer._opt_called = True  # type: ignore[attr-defined]

    def _follow_frames(self) -> "Frames":
        """The frames that a step moves, found again whenever something of the model is not where it was."""
        kept, watch = self._frames, (self._finding or self.look()).watch
        if kept is None or kept.watch is not watch:
            frames = self.trainable_frames()
            arrays = [(frame.base.detach().numpy(), frame.tangent.detach().numpy()) for frame in frames]
            kept = self._frames = Frames(watch, arrays, [*self.parameters, *(frame.base for frame in frames)])
        return kept


class Frames(NamedTuple):
    """A model's frames, base and tangent of each in the memory where they lie, and all tensors that a step moves."""

    watch: ModelWatch
    arrays: list[tuple[Floats, Floats]]
    moved: list[Tensor]


def is_cores(method: object) -> bool:
    """Whether a method of a trainer is that of `TrainingStep`, and not somebody's own."""
    function = getattr(method, "__func__", None)
    return function is not None and function is getattr(TrainingStep, function.__name__, None)


def backpropagate_batch(
    batch: Batch, weights: ModelWeights, forward: Pass, d_descriptor: Doubles, threads: int, *, want_values: bool
) -> tuple[Floats, Tensor | None]:
    """The gradient of the packed weights, and that of the values (B, T, C) if wanted."""
    sizes, arrays = weights
    groups = min(batch.sequences * count_tiles(batch.length, clocked=batch.clock is not None), GROUPS)
    gradients = Gradients(
        descriptor=d_descriptor,
        packed=np.zeros((groups, arrays.packed.size), np.float32),
        values=np.zeros(batch.values.size if want_values else 0, np.float32),
    )
    threads = count_threads(batch, sizes.width, threads, LEAST_PER_THREAD)
    split = is_split(batch, threads)
    counters, behind = np.zeros(DONE + groups, np.int64), np.zeros((2, count_behind(sizes)), np.float32)
    handover = Return(split, counters, UNDER_WAY, forward.carried, behind)
    arguments = without_names(sizes, arrays, batch, forward.outputs, gradients, handover)
    with announce_compilation((backpropagate, batch.clock is None)):
        run_together(lambda: backpropagate(*arguments), threads if split else min(threads, batch.sequences))
    gradient: Floats = gradients.packed.sum(axis=0)
    shape = batch.sequences, batch.length, sizes.channels
    return gradient, torch.from_numpy(gradients.values).view(shape) if want_values else None
