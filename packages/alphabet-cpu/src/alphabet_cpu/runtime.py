"""CpuRuntime: the model's logits by the fused kernels where they apply, and by the reference everywhere else."""

import copy
from typing import NamedTuple

import numpy as np
import torch
from alphabet_core import read_sequence
from alphabet_core.fused import FusedRuntime, ModelWatch, list_modules, list_tensors
from torch import Tensor

from alphabet_cpu.batch import read_batch, read_plain_batch, run_batch
from alphabet_cpu.dispatch import CpuDispatch, Finding
from alphabet_cpu.kernels.layout import Floats, Outputs
from alphabet_cpu.kernels.memory import same_floats
from alphabet_cpu.openmp import one_product_thread
from alphabet_cpu.weights import ModelWeights, energies_only, fold_and_select
from alphabet_cpu.workers import one_torch_thread


class FoldedModel(NamedTuple):
    """The weights that kernels read, the numbers (n,) of the model that they were folded from, and what watched it."""

    weights: ModelWeights
    numbers: Floats
    watch: ModelWatch


class CpuRuntime(CpuDispatch, FusedRuntime):
    """`runtime(values, time_delta=..., observed=..., valid=...)` returns the logits of `model`, without gradients.

    `describe(...)` returns what the head reads. Changes of the model's parameters are seen at the next call.
    `path(...)` says which implementation runs a call, and why it is not the fused one.
    """

    _folded: FoldedModel | None = None

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
            with torch.no_grad():
                logits: Tensor = self.model(values, time_delta=time_delta, observed=observed, valid=valid)
            return logits
        return self.infer(values, time_delta=time_delta, observed=observed, valid=valid)

    def infer(
        self, values: Tensor, *, time_delta: Tensor | None = None, observed: Tensor | None, valid: Tensor | None
    ) -> Tensor:
        """Logits (B, K) by the fused kernels, for a call that they cover."""
        if self.model.config.energy_hidden is None:
            return torch.from_numpy(self._run(values, time_delta, observed, valid).logits).float()
        outputs = self._run(values, time_delta, observed, valid, energies=True)
        with one_torch_thread(), one_product_thread(), torch.no_grad():
            logits: Tensor = self.model.head(torch.from_numpy(outputs.descriptor).float())
        return logits

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
            with torch.no_grad():
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
        threads = torch.get_num_threads()  # first of all: it gives a new thread the process's number
        batch = None
        if time_delta is observed is valid is None:
            batch = read_plain_batch(values, self.model.config.channels)
        if batch is None:
            with one_torch_thread(), torch.no_grad():
                sequence = read_sequence(
                    values,
                    channels=self.model.config.channels,
                    like=self.model.project.weight,
                    time_delta=time_delta,
                    observed=observed,
                    valid=valid,
                )
                batch = read_batch(sequence)
        weights = self._fresh_weights()
        return run_batch(batch, energies_only(weights) if energies else weights, threads).outputs

    def _fresh_weights(self) -> ModelWeights:
        """The folded weights, computed again only if a parameter or a buffer is not what it was, however it changed.

        Weights and numbers both come from one copy of the model and are replaced together: what another thread writes
        meanwhile is in neither of them, and the next call sees it.
        """
        folded, found = self._folded, self._finding or self.look()
        if folded is not None and folded.watch is found.watch and is_unchanged(found, folded.numbers):
            return folded.weights
        with one_torch_thread(), torch.no_grad():
            snapshot = copy.deepcopy(self.model)
            kept = [tensor.detach().flatten() for tensor in list_tensors(list_modules(snapshot))]
            folded = self._folded = FoldedModel(fold_and_select(snapshot), torch.cat(kept).numpy(), found.watch)
        return folded.weights


def is_unchanged(found: Finding, numbers: Floats) -> bool:
    """Whether a model's parameters and buffers are bit by bit these numbers."""
    table, kept = found.table, []
    if table is None:
        kept = [tensor.contiguous() for tensor in found.watch.tensors]
        table = np.array([(tensor.data_ptr(), tensor.numel()) for tensor in kept])
    unchanged: bool = same_floats(table, numbers)
    return unchanged
