"""TritonTrainer: the complete training step by fused operators, recorded whole into one CUDA graph per shape."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from alphabet_core import RECIPES, Alphabet, Recipe, TrainingStep, read_sequence, value_checks
from alphabet_core.fused import (
    AdamWSettings,
    Capture,
    FusedTrainer,
    Run,
    capture_graph,
    list_modules,
    list_tensors,
    read_adamw_settings,
    run_eagerly,
)
from torch import Tensor

from alphabet_triton.dispatch import TritonDispatch, fused_fallback_reason
from alphabet_triton.inputs import Inputs, read_masks
from alphabet_triton.launching import Device, TritonDevice, at_home_of, on

if TYPE_CHECKING:
    from alphabet_triton.tail import Tail


@dataclass(frozen=True)
class Recording:
    """A shape's static inputs, targets and loss, and what does a step over them."""

    inputs: Inputs
    targets: Tensor
    loss: Tensor
    replay: Run


class TritonTrainer(TritonDispatch, FusedTrainer):
    """`loss = trainer.step(values, targets)`: the core's `TrainingStep` with fused operators and a fused optimizer.

    A step is the core's own, forward to constraint; on a GPU its first call with a shape records it into a CUDA graph,
    and later calls copy their batch and replay that. What the kernels do not cover takes the reference's way;
    `path(...)` says which a call takes, and why.
    """

    def __init__(
        self,
        model: Alphabet,
        recipe: Recipe = RECIPES["B"],
        *,
        loss: str = "cross_entropy",
        microbatch: int | None = None,
        device: Device | None = None,
        capture: Capture | None = None,
    ) -> None:
        super().__init__(model, recipe, loss=loss, microbatch=microbatch)
        self._device = device or TritonDevice()
        self._capture = capture
        self._tail: Tail | None = None
        self._recordings: dict[tuple[object, ...], Recording] = {}
        self._addresses: list[tuple[int, bool]] = []
        self._at_base: list[tuple[int, int]] = []
        self._recording = False

    def fallback_reason(self, values: Tensor | None = None, time_delta: Tensor | None = None) -> str | None:
        """Why a call takes the reference, or None."""
        reason = super().fallback_reason(values, time_delta) or FusedTrainer.fallback_reason(self)
        if reason is None and not self._frames_at_base():
            reason = (
                "a frame's tangent is not zero; the kernels are for frames at their base, where every step leaves them"
            )
        return reason

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
        settings = read_adamw_settings(self.optimizer)
        with self._at_work():
            # What only torch's optimizer can do, or does to some parameters, cannot be recorded.
            fused = self.fallback_reason(values, time_delta) is None and self._all_train(values)
            if fused and settings is not None and self._take_over(settings):
                loss = self._replay(values, targets, observed, valid)
            else:
                loss = super().__call__(values, targets, **side_inputs)
        self.announce_step()
        self._at_base = self._tangent_versions()
        return loss

    def accumulate(self, values: Tensor, targets: Tensor, share: float, **side_inputs: Tensor) -> Tensor:
        """Add `share` times the gradients of the mean loss, to `values` too if it asks for them; return the loss."""
        with self._at_work():
            if values.requires_grad or self.fallback_reason(values, side_inputs.get("time_delta")) is not None:
                return super().accumulate(values, targets, share, **side_inputs)
            loss = self.measure(self.predict(values, **side_inputs), targets) * share
            # Not `backward`: what adds to `.grad` belongs to the stream where a parameter was first used, and a graph
            # cannot record another stream's work.
            leaves = [parameter for parameter in self.parameters if parameter.requires_grad]
            for leaf, gradient in zip(leaves, torch.autograd.grad(loss, leaves), strict=True):
                # In the parameter's own strides: torch's fused AdamW goes by memory.
                placed = gradient if gradient.stride() == leaf.stride() else torch.empty_like(leaf).copy_(gradient)
                leaf.grad = placed if leaf.grad is None else leaf.grad + placed
            return loss.detach()

    def predict(self, values: Tensor, **side_inputs: Tensor) -> Tensor:
        """The model's outputs (B, K), to be differentiated: by the operators, or by the reference."""
        model = self.alphabet
        if self.fallback_reason(values, side_inputs.get("time_delta")) is not None:
            return super().predict(values, **side_inputs)
        from alphabet_triton.forward import forward  # which imports triton

        sequence = read_sequence(values, channels=model.config.channels, like=model.project.weight, **side_inputs)
        return forward(model, sequence.values, *read_masks(sequence))

    def update(self) -> None:
        """Clip, optimize and constrain; clipping and AdamW in one kernel, on torch's own optimizer state."""
        settings = read_adamw_settings(self.optimizer)
        whole = all(parameter.grad is not None for parameter in self.parameters)
        if (
            settings is None
            or not whole
            or fused_fallback_reason(self.alphabet) is not None
            or not self._take_over(settings)
        ):
            super().update()
            self._tail = None  # which would not know of this step
            return
        assert self._tail is not None
        with self._at_work():
            self._tail.run()
        self._tail.show_gradients()
        self.alphabet.constrain()

    def _replay(self, values: Tensor, targets: Tensor, observed: Tensor | None, valid: Tensor | None) -> Tensor:
        """A step by the recording of its shape, made at its first call."""
        model = self.alphabet
        sequence = read_sequence(
            values, channels=model.config.channels, like=model.project.weight, observed=observed, valid=valid
        )
        self.check_targets(targets, len(values), model.config.outputs)
        given = Inputs.read(sequence)
        key = (*given.key, tuple(targets.shape), targets.dtype)
        recording = self._recordings.get(key)
        if recording is None:
            recording = self._recordings[key] = self._record(given, targets)
        recording.inputs.copy_(given)
        recording.targets.copy_(targets)
        recording.replay()
        assert self._tail is not None
        self._tail.show_gradients()
        return recording.loss.clone()

    def _record(self, given: Inputs, targets: Tensor) -> Recording:
        inputs, targets, loss = given.clone(), targets.clone(), torch.zeros_like(given.values[0, 0, 0])

        def run() -> None:
            # Values and frames were looked at before; the host, which would have to, cannot be recorded.
            with value_checks(False), self._taking_frames_for_based():
                masks = {"observed": inputs.gate, "valid": inputs.valid}
                loss.copy_(TrainingStep.__call__(self, inputs.values, targets, **masks))

        assert self._tail is not None
        changed = [*list_tensors(list_modules(self.alphabet)), *self._tail.changed, loss]
        capture = self._capture or (capture_graph if loss.is_cuda else run_eagerly)
        return Recording(inputs, targets, loss, capture(run, changed))

    def _take_over(self, settings: AdamWSettings) -> bool:
        """Have a tail for these parameters and settings; what was recorded with others, elsewhere, is forgotten."""
        from alphabet_triton.tail import Tail  # which imports triton

        addresses = [(t.data_ptr(), t.requires_grad) for t in list_tensors(list_modules(self.alphabet))]
        if self._tail is None or addresses != self._addresses:
            self._tail, self._recordings, self._addresses = Tail(self.parameters), {}, addresses
        return self._tail.prepare(self.optimizer, *settings, float(self.recipe.clip_norm))

    def _all_train(self, values: Tensor) -> bool:
        """Whether a step is about all the parameters, and nothing else."""
        return all(parameter.requires_grad for parameter in self.parameters) and not values.requires_grad

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        with at_home_of(self.parameters[0]), on(self._device):
            yield

    def _frames_at_base(self) -> bool:
        """Whether all tangents are zero, which is only asked of the device after something else wrote to them."""
        versions = self._tangent_versions()
        if versions != self._at_base and not self._recording:
            if any(bool(frame.tangent.any()) for frame in self.trainable_frames()):
                return False
            self._at_base = versions
        return True

    @contextmanager
    def _taking_frames_for_based(self) -> Iterator[None]:
        self._recording = True
        try:
            yield
        finally:
            self._recording = False

    def _tangent_versions(self) -> list[tuple[int, int]]:
        return [(frame.tangent.data_ptr(), frame.tangent._version) for frame in self.trainable_frames()]
