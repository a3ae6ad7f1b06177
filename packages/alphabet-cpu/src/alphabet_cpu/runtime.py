"""CpuRuntime: the model's logits by the fused kernels where they apply, and by the reference everywhere else."""

import copy
from typing import NamedTuple

import numpy as np
import torch
from alphabet_core import Alphabet, read_sequence
from alphabet_core.fused import EnergyHead, FusedRuntime, list_modules, list_tensors
from torch import Tensor

from alphabet_cpu.batch import read_batch, run_batch
from alphabet_cpu.dispatch import fused_fallback_reason
from alphabet_cpu.kernels.layout import Floats, Outputs
from alphabet_cpu.kernels.memory import same_floats
from alphabet_cpu.weights import ModelWeights, energies_only, fold_and_select
from alphabet_cpu.workers import one_torch_thread


class FoldedModel(NamedTuple):
    """The weights that kernels read, and the numbers (n,) of the model that they were folded from."""

    weights: ModelWeights
    numbers: Floats


class CpuRuntime(FusedRuntime):
    """`runtime(values, time_delta=..., observed=..., valid=...)` returns the logits of `model`, without gradients.

    `describe(...)` returns what the head reads. Changes of the model's parameters are seen at the next call.
    `path(...)` says which implementation runs a call, and why it is not the fused one.
    """

    def __init__(self, model: Alphabet) -> None:
        super().__init__(model)
        self._folded: FoldedModel | None = None

    def fallback_reason(
        self,
        values: Tensor | None = None,
        time_delta: Tensor | None = None,  # noqa: ARG002  every grid is covered
    ) -> str | None:
        """Why the reference runs a call, or None; without values, the reason that holds for every call."""
        return fused_fallback_reason(self.alphabet, values)

    @torch.no_grad()
    def __call__(
        self,
        values: Tensor,
        *,
        time_delta: Tensor | None = None,
        observed: Tensor | None = None,
        valid: Tensor | None = None,
    ) -> Tensor:
        """Logits (B, K) of values (B, T, C)."""
        if self.fallback_reason(values) is not None:
            logits: Tensor = self.model(values, time_delta=time_delta, observed=observed, valid=valid)
            return logits
        return self.infer(values, time_delta=time_delta, observed=observed, valid=valid)

    def infer(
        self, values: Tensor, *, time_delta: Tensor | None = None, observed: Tensor | None, valid: Tensor | None
    ) -> Tensor:
        """Logits (B, K) by the fused kernels, for a call that they cover."""
        head = self.model.head
        if not isinstance(head, EnergyHead):
            return torch.from_numpy(self._run(values, time_delta, observed, valid).logits).float()
        outputs = self._run(values, time_delta, observed, valid, energies=True)
        logits: Tensor = head(torch.from_numpy(outputs.descriptor).float())
        return logits

    @torch.no_grad()
    def describe(
        self,
        values: Tensor,
        *,
        time_delta: Tensor | None = None,
        observed: Tensor | None = None,
        valid: Tensor | None = None,
    ) -> Tensor:
        """The descriptor (B, banks, M, 1 + 2 lags) of values (B, T, C): all that the head reads."""
        if self.fallback_reason(values) is not None:
            return self.model.describe(values, time_delta=time_delta, observed=observed, valid=valid)
        return torch.from_numpy(self._run(values, time_delta, observed, valid).descriptor).float()

    def _run(
        self,
        values: Tensor,
        time_delta: Tensor | None,
        observed: Tensor | None,
        valid: Tensor | None,
        *,
        energies: bool = False,
    ) -> Outputs:
        """The outputs of a batch; with `energies` the descriptor has no lags."""
        model = self.model
        with one_torch_thread() as threads:
            sequence = read_sequence(
                values,
                channels=model.config.channels,
                like=model.project.weight,
                time_delta=time_delta,
                observed=observed,
                valid=valid,
            )
            weights = self._fresh_weights()
            return run_batch(read_batch(sequence), energies_only(weights) if energies else weights, threads).outputs

    def _fresh_weights(self) -> ModelWeights:
        """The folded weights, computed again only if a parameter or a buffer is not what it was, however it changed.

        Weights and numbers both come from one copy of the model and are replaced together: what another thread writes
        meanwhile is in neither of them, and the next call sees it.
        """
        folded = self._folded
        tensors = [t if t.is_contiguous() else t.contiguous() for t in list_tensors(list_modules(self.model))]
        table = np.array([(tensor.data_ptr(), tensor.numel()) for tensor in tensors])
        if folded is None or not same_floats(table, folded.numbers):
            snapshot = copy.deepcopy(self.model)
            kept = [tensor.detach().flatten() for tensor in list_tensors(list_modules(snapshot))]
            folded = self._folded = FoldedModel(fold_and_select(snapshot), torch.cat(kept).numpy())
        return folded.weights
