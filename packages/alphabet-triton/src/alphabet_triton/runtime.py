"""TritonRuntime: the model's logits by the fused kernels where they apply, by the reference everywhere else."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from alphabet_core import Alphabet, AlphabetError, Sequence, read_sequence
from torch import Tensor

from alphabet_triton.graphs import Run, capture_graph, run_eagerly
from alphabet_triton.launching import Device, TritonDevice
from alphabet_triton.path import FUSED, choose_path
from alphabet_triton.shapes import Masks, Shape, no_masks
from alphabet_triton.weights import Weights, copy_weights, read_weights


@dataclass(frozen=True)
class Recording:
    """A shape's static buffers, and what runs its launches over them."""

    values: Tensor
    masks: Masks
    logits: Tensor
    descriptor: Tensor
    replay: Run


class TritonRuntime:
    """`runtime(values, time_delta=..., observed=..., valid=...)` gives the logits of `model`, without gradients.

    The first call of a shape compiles its kernels and, on a GPU, records them into a CUDA graph; later calls copy the
    input and replay it. Parameters changed in place by an optimizer are seen at the next call; after writes that torch
    does not count (`parameter.data`), call `refresh()`. `path(...)` says which implementation a call takes, and why.
    """

    def __init__(
        self, model: Alphabet, *, device: Device | None = None, capture: Callable[[Run], Run] | None = None
    ) -> None:
        if not isinstance(model, Alphabet):
            raise AlphabetError(f"model must be an Alphabet; got {type(model).__name__}")
        self.model = model
        self._device = device
        self._capture = capture
        self._weights: Weights | None = None
        self._recordings: dict[tuple[object, ...], Recording] = {}
        self._versions: list[tuple[int, int]] = []

    def __repr__(self) -> str:
        return f"TritonRuntime({choose_path(self.model)}, {self.model.config})"

    def path(
        self,
        values: Tensor,
        *,
        time_delta: Tensor | None = None,
        observed: Tensor | None = None,  # noqa: ARG002  every mask is covered
        valid: Tensor | None = None,  # noqa: ARG002
    ) -> str:
        """`"fused"`, or `"reference: "` and the reason."""
        return choose_path(self.model, values, time_delta)

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
        recording = self._record(sequence)
        recording.values.copy_(sequence.values)
        if recording.masks.given:
            for mask, given in ((recording.masks.valid, sequence.valid), (recording.masks.gate, sequence.available)):
                mask.fill_(1) if given is None else mask.copy_(given)
        self._follow_parameters()
        recording.replay()
        return recording.logits.clone()

    def refresh(self) -> None:
        """Read the parameters again at the next call."""
        self._versions = []

    def _record(self, sequence: Sequence) -> Recording:
        """The recording of this shape, made at its first call."""
        from alphabet_triton.inference import allocate, plan_forward  # which imports triton

        config, values = self.model.config, sequence.values
        masked = sequence.valid is not None or sequence.available is not None
        key = (*values.shape, masked, values.device)
        if key in self._recordings:
            return self._recordings[key]
        if self._weights is None:
            self._weights = read_weights(self.model)
        batch, length, _ = values.shape
        shape = Shape(batch, length, config.channels, config.width, config.modes)
        masks = no_masks(values.device)
        if masked:
            mask = torch.ones(batch, length, dtype=torch.uint8, device=values.device)
            masks = Masks(mask, mask.clone())
        buffers, static = allocate(shape, config.outputs, values.device), torch.empty_like(values).contiguous()
        launches = plan_forward(shape, masks, static, self._weights, buffers)
        device = self._device or TritonDevice()

        def run() -> None:
            for launch in launches:
                device.run(launch)

        capture = self._capture or (capture_graph if values.is_cuda else run_eagerly)
        recording = Recording(static, masks, buffers.logits, buffers.descriptor, capture(run))
        self._recordings[key] = recording
        return recording

    def _follow_parameters(self) -> None:
        """Fold again, into the tensors that recordings hold, if a parameter or buffer has changed."""
        tensors = [*self.model.parameters(), *self.model.buffers()]
        versions = [(tensor.data_ptr(), tensor._version) for tensor in tensors]
        if versions != self._versions and self._weights is not None:
            copy_weights(self._weights, read_weights(self.model))
            self._versions = versions
