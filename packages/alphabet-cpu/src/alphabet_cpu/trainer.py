"""CpuTrainer: the complete training step with the fused forward and backward kernels."""

import numpy as np
import torch
from alphabet_core import read_sequence
from alphabet_core.fused import TANGENT_SCALE, FusedTrainer, read_adamw_settings
from torch import Tensor, nn

from alphabet_cpu.batch import read_batch, run_batch
from alphabet_cpu.dispatch import fused_fallback_reason
from alphabet_cpu.folding import FoldingAtBase, FoldingByGraph, add_gradient, is_at_base
from alphabet_cpu.kernels.backward import Gradients, backpropagate
from alphabet_cpu.kernels.layout import Batch, Doubles, Floats, Integers, Outputs, without_names
from alphabet_cpu.kernels.optimizer import clip_and_move, rebase
from alphabet_cpu.weights import ModelWeights
from alphabet_cpu.workers import announce_compilation, one_torch_thread, run_together

# Groups of sequences whose gradients are added up apart. The number is fixed, so that sums depend neither on how many
# threads there are nor on which of them was faster.
GROUPS = 32


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
        return super().fallback_reason() or fused_fallback_reason(self.alphabet, values, time_delta)

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
        outputs = run_batch(batch, folding.weights, threads)
        logits = torch.from_numpy(outputs.logits).float().requires_grad_()
        loss = self.measure(logits, targets) * share
        loss.backward()  # to the logits; from here on by the kernels
        assert logits.grad is not None
        d_descriptor = head_bwd(model.head, outputs.descriptor, logits.grad)
        gradient, d_values = backpropagate_batch(
            batch, folding.weights, outputs, d_descriptor, threads, want_values=values.requires_grad
        )
        folding.accumulate_gradients(gradient)
        if d_values is not None:
            sequence.values.backward(d_values)
        return loss.detach()

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
    """The descriptor's gradient (B, 2, M, 7), given the logits' (B, K); the head's are added to `.grad`."""
    assert isinstance(head, nn.Linear)
    d = d_logits.numpy().astype(np.float64)
    add_gradient(head.weight, d.T @ descriptor.reshape(len(d), -1))
    add_gradient(head.bias, d.sum(axis=0))
    d_descriptor: Doubles = d @ head.weight.detach().numpy().astype(np.float64)
    return d_descriptor.reshape(descriptor.shape)


def backpropagate_batch(
    batch: Batch, weights: ModelWeights, outputs: Outputs, d_descriptor: Doubles, threads: int, *, want_values: bool
) -> tuple[Floats, Tensor | None]:
    """The gradient of the packed weights, and that of the values (B, T, C) if wanted."""
    sizes, arrays = weights
    gradients = Gradients(
        descriptor=d_descriptor,
        packed=np.zeros((min(batch.sequences, GROUPS), arrays.packed.size), np.float32),
        values=np.zeros(batch.values.size if want_values else 0, np.float32),
    )
    counter = np.zeros(1, np.int64)
    plain_sizes, plain_batch, plain_gradients = without_names(sizes, batch, gradients)

    def work() -> None:
        backpropagate(plain_sizes, arrays.packed, plain_batch, outputs.sums, plain_gradients, counter)

    with announce_compilation(backpropagate):
        run_together(work, min(threads, len(gradients.packed)))
    gradient: Floats = gradients.packed.sum(axis=0)
    shape = batch.sequences, batch.length, sizes.channels
    return gradient, torch.from_numpy(gradients.values).view(shape) if want_values else None
