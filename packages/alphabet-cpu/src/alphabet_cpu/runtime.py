"""CpuRuntime: the model's logits by the fused kernel where it applies, by the reference everywhere else."""

from collections.abc import Iterator

import torch
from alphabet_core import Alphabet, read_sequence
from torch import Tensor, nn

from alphabet_cpu.batch import read_batch, run_batch
from alphabet_cpu.path import FUSED, Pathfinder, choose_path, require_alphabet
from alphabet_cpu.weights import Weights, fold_and_pack
from alphabet_cpu.workers import one_torch_thread


class CpuRuntime(Pathfinder):
    """`runtime(values, time_delta=..., observed=..., valid=...)` gives the logits of `model`, without gradients.

    Changes of the model's parameters are seen at the next call. `path(...)` says which implementation a call takes,
    and why it is not the fused one.
    """

    def __init__(self, model: Alphabet) -> None:
        self.model = self.alphabet = require_alphabet(model)
        self._weights: Weights | None = None
        self._versions: list[tuple[int, int]] = []

    def __repr__(self) -> str:
        return f"CpuRuntime({choose_path(self.model)}, {self.model.config})"

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
        model = self.model
        if choose_path(model, values, time_delta) != FUSED:
            logits: Tensor = model(values, time_delta=time_delta, observed=observed, valid=valid)
            return logits
        sequence = read_sequence(
            values, channels=model.config.channels, like=model.project.weight, observed=observed, valid=valid
        )
        with one_torch_thread() as threads:
            outputs = run_batch(read_batch(sequence), self._fresh_weights(), threads)
            return torch.from_numpy(outputs.logits).float()

    def _fresh_weights(self) -> Weights:
        """The folded weights, computed again only if a parameter or a buffer has changed since."""
        versions = [(tensor.data_ptr(), tensor._version) for tensor in _walk_tensors(self.model)]
        if self._weights is None or versions != self._versions:
            self._weights, self._versions = fold_and_pack(self.model), versions
        return self._weights


def _walk_tensors(module: nn.Module) -> Iterator[Tensor]:
    """Parameters and buffers, in a fifth of the time that `module.parameters()` takes: this runs at every call."""
    for tensors in (module._parameters, module._buffers):
        yield from (tensor for tensor in tensors.values() if tensor is not None)
    for child in module._modules.values():
        if child is not None:
            yield from _walk_tensors(child)
