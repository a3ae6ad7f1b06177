"""CpuTrainer: the complete training step with the fused forward and backward kernels."""

import numpy as np
import torch
from alphabet_core import read_sequence
from alphabet_core.fused import TANGENT_SCALE, EnergyHead, FusedTrainer, read_adamw_settings
from torch import Tensor, nn

from alphabet_cpu.batch import Pass, count_threads, is_split, read_batch, run_batch
from alphabet_cpu.dispatch import fused_fallback_reason
from alphabet_cpu.folding import FoldingAtBase, FoldingByGraph, add_gradient, is_at_base
from alphabet_cpu.kernels.backward import DONE, Gradients, Return, backpropagate, count_behind
from alphabet_cpu.kernels.layout import Batch, Doubles, Floats, Integers, Outputs, without_names
from alphabet_cpu.kernels.optimizer import clip_and_move, rebase
from alphabet_cpu.kernels.tiles import count_tiles
from alphabet_cpu.weights import ModelWeights, energies_only
from alphabet_cpu.workers import announce_compilation, one_torch_thread, run_together

# Groups of tiles whose gradients are added up apart. The number is fixed, so that sums depend neither on how many
# threads there are nor on which of them was faster.
GROUPS = 32
LEAST_PER_THREAD = 4096  # numbers, tokens times width, that are worth a thread: a fourth of a forward pass's


class CpuTrainer(FusedTrainer):
    """`loss = trainer.step(values, targets)`: the core's `TrainingStep` with its gradients from compiled kernels.

    Clipping, AdamW and the frames' constraint are compiled too, on torch's own optimizer state. The reference runs what
    the kernels do not cover; `path(...)` says which of the two runs a call, and why.
    """

    _threads: int | None = None  # within a step, how many its kernels may take

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
                return super().__call__(values, targets, **side_inputs)
            finally:
                self._threads = None

    def fallback_reason(self, values: Tensor | None = None, time_delta: Tensor | None = None) -> str | None:
        """Why the reference runs a call, or None; without values, the reason that holds for every call."""
        if isinstance(time_delta, Tensor) and time_delta.requires_grad:
            return "time_delta requires a gradient; the kernels compute none for it"
        return super().fallback_reason() or fused_fallback_reason(self.alphabet, values)

    def accumulate(self, values: Tensor, targets: Tensor, share: float, **side_inputs: Tensor) -> Tensor:
        """Add `share` times the mean loss's gradients, also to `values` if it requires one; return that share of it."""
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
        weights = folding.weights
        if isinstance(model.head, EnergyHead):
            weights = energies_only(weights)
        forward = run_batch(batch, weights, threads, keep=True)
        loss, d_descriptor = self._descend(forward.outputs, targets, share)
        gradient, d_values = backpropagate_batch(
            batch, weights, forward, d_descriptor, threads, want_values=values.requires_grad
        )
        folding.accumulate_gradients(gradient)
        if d_values is not None:
            sequence.values.backward(d_values)
        return loss.detach()

    def _descend(self, outputs: Outputs, targets: Tensor, share: float) -> tuple[Tensor, Doubles]:
        """The share of the loss, and the descriptor's gradient; the head's are added to `.grad`."""
        head = self.alphabet.head
        if isinstance(head, EnergyHead):
            descriptor = torch.from_numpy(outputs.descriptor).float().requires_grad_()
            loss = self.measure(head(descriptor), targets) * share
            loss.backward()
            assert descriptor.grad is not None
            return loss, descriptor.grad.double().numpy()
        logits = torch.from_numpy(outputs.logits).float().requires_grad_()
        loss = self.measure(logits, targets) * share
        loss.backward()  # to the logits; from here on by the kernels
        assert logits.grad is not None
        return loss, head_bwd(head, outputs.descriptor, logits.grad)

    def update(self) -> None:
        """Clip, optimize and constrain by compiled code, on torch's own optimizer state and settings."""
        settings = read_adamw_settings(self.optimizer)
        table = None if settings is None else adamw_table(self.optimizer)
        if settings is None or table is None or fused_fallback_reason(self.alphabet) is not None:
            super().update()
            return
        clip_and_move(table, float(self.recipe.clip_norm), tuple(settings))
        for frame in self.trainable_frames():
            rebase(frame.base.numpy(), frame.tangent.detach().numpy(), TANGENT_SCALE)
        self.announce_step()


def adamw_table(optimizer: torch.optim.Optimizer) -> Integers | None:
    """The table that `clip_and_move` takes, or None where only torch can do the step, such as the first."""
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


def head_bwd(head: nn.Module, descriptor: Doubles, d_logits: Tensor) -> Doubles:
    """The descriptor's gradient (B, banks, M, 1 + 2 L), given the logits' (B, K); the head's are added to `.grad`."""
    assert isinstance(head, nn.Linear)
    d = d_logits.numpy().astype(np.float64)
    add_gradient(head.weight, d.T @ descriptor.reshape(len(d), -1))
    add_gradient(head.bias, d.sum(axis=0))
    d_descriptor: Doubles = d @ head.weight.detach().numpy().astype(np.float64)
    return d_descriptor.reshape(descriptor.shape)


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
    handover = Return(
        split, np.zeros(DONE + groups, np.int64), forward.carried, np.zeros((2, count_behind(sizes)), np.float32)
    )
    arguments = without_names(sizes, arrays, batch, forward.outputs, gradients, handover)
    with announce_compilation((backpropagate, batch.clock is None)):
        run_together(lambda: backpropagate(*arguments), threads if split else min(threads, batch.sequences))
    gradient: Floats = gradients.packed.sum(axis=0)
    shape = batch.sequences, batch.length, sizes.channels
    return gradient, torch.from_numpy(gradients.values).view(shape) if want_values else None
