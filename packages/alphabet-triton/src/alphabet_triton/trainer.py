"""TritonTrainer: complete training steps by fused operators, each shape recorded into one CUDA graph."""

from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING

import torch
from alphabet_core import RECIPES, Alphabet, AlphabetError, Recipe, Sequence, TrainingStep, read_sequence, value_checks
from alphabet_core.fused import (
    AdamWSettings,
    Capture,
    Frame,
    FusedTrainer,
    GraphCapture,
    ModelWatch,
    SettingsMemo,
    run_eagerly,
)
from torch import Tensor
from torch.autograd.graph import increment_version

from alphabet_triton.dispatch import (
    TritonDispatch,
    count_outputs,
    refuse_state_elsewhere,
    refuse_wrapper,
    replaced_parameter_reason,
)
from alphabet_triton.graphs import refuse_inside_capture
from alphabet_triton.inputs import Inputs, read_masks, recording_key
from alphabet_triton.launching import Device, TritonDevice, device_of, on
from alphabet_triton.recordings import Recording, Recordings, lasting

if TYPE_CHECKING:
    from alphabet_triton.fused_adamw import FusedAdamW

_read_trained = attrgetter("requires_grad")
_read_hooks, _read_later_hooks = attrgetter("_backward_hooks"), attrgetter("_post_accumulate_grad_hooks")
# What a step of the core calls. A subclass with a method of its own gets steps that call it.
OVERRIDABLE = {"accumulate", "predict", "measure", "update"}


class TritonTrainer(TritonDispatch, FusedTrainer):
    """`loss = trainer.step(values, targets)`: the core's `TrainingStep` with fused operators and a fused optimizer.

    A step is the core's own, from forward to constraint. On a GPU the first call with a shape records it into a CUDA
    graph; later calls copy their batch and replay the graph. The reference does the steps that the kernels do not
    cover; `path(...)` says whether a call runs the fused kernels or the reference, and why.

    Values and targets are checked when a shape is recorded. A replay does not wait for the device to answer: there, NaN
    and Inf go through to loss and parameters, unless the call is made inside `alphabet_core.value_checks(True)`.
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
        refuse_wrapper(model)
        super().__init__(model, recipe, loss=loss, microbatch=microbatch)
        self._device = device or TritonDevice()
        self._capture = capture
        self._forget()

    def _forget(self) -> None:
        super()._forget()
        self._graphs = GraphCapture()
        self._adamw: FusedAdamW | None = None
        self._recordings = Recordings()
        self._recorded: ModelWatch | None = None
        self._framed: ModelWatch | None = None
        self._frames: list[Frame] = []
        self._tangents: list[Tensor] = []
        self._moved: list[Tensor] = []
        self._settings = SettingsMemo()
        self._trained: list[bool] = []
        self._zero_tangents: list[tuple[int, int]] = []
        self._recording = False

    def fallback_reason(self, values: Tensor | None = None, time_delta: Tensor | None = None) -> str | None:
        """Why the reference runs a call, or None; without values, the reason that holds for every call."""
        reason = super().fallback_reason(values, time_delta)
        if reason is None and (any(map(_read_hooks, self.parameters)) or any(map(_read_later_hooks, self.parameters))):
            reason = FusedTrainer.fallback_reason(self)
        if reason is None and not self._tangents_are_zero():
            reason = "a frame's tangent is not zero; the kernels take it as zero, as every step leaves it"
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
        """The mean loss of the batch before the step that this call does, detached."""
        if self._capture is None and self.parameters[0].is_cuda:
            refuse_inside_capture(type(self).__name__)
        settings = self._settings.read(self.optimizer, self.parameters)
        # A step that needs torch's own optimizer, that leaves out some parameters, or a part of which somebody replaced
        # on this trainer alone, is not recorded.
        fused = self.fallback_reason(values, time_delta) is None and not getattr(values, "requires_grad", False)
        fused = fused and not OVERRIDABLE & set(self.__dict__)
        trained = list(map(_read_trained, self.parameters))
        if fused and all(trained) and settings is not None and self._prepare_adamw(settings, trained):
            with device_of(self.parameters[0]):
                loss = self._replay(values, targets, observed, valid)
        else:
            loss = super().__call__(values, targets, time_delta=time_delta, observed=observed, valid=valid)
        self.announce_step()
        self._zero_tangents = self._tangent_versions()
        return loss

    def accumulate(self, values: Tensor, targets: Tensor, share: float, **side_inputs: Tensor) -> Tensor:
        """The mean loss times `share`; its gradients are added to `.grad`, that of `values` too if they require it."""
        with self._launching():
            if values.requires_grad or self.fallback_reason(values, side_inputs.get("time_delta")) is not None:
                return super().accumulate(values, targets, share, **side_inputs)
            loss = self.measure(self.predict(values, **side_inputs), targets) * share
            # Not by `backward()`: it adds to `.grad` on the stream where a parameter was first used, and a graph cannot
            # record the work of another stream.
            leaves = [parameter for parameter in self.parameters if parameter.requires_grad]
            for leaf, gradient in zip(leaves, torch.autograd.grad(loss, leaves), strict=True):
                # In the parameter's own strides: torch's fused AdamW goes by memory.
                placed = gradient if gradient.stride() == leaf.stride() else torch.empty_like(leaf).copy_(gradient)
                leaf.grad = placed if leaf.grad is None else leaf.grad + placed
            return loss.detach()

    def predict(self, values: Tensor, **side_inputs: Tensor) -> Tensor:
        """The differentiable outputs (B, K) of the model, by the fused operators or by the reference."""
        model = self.alphabet
        if self.fallback_reason(values, side_inputs.get("time_delta")) is not None:
            return super().predict(values, **side_inputs)
        from alphabet_triton.forward import forward  # which imports triton

        sequence = read_sequence(values, channels=model.config.channels, like=model.project.weight, **side_inputs)
        return forward(model, sequence.values, *read_masks(sequence))

    def update(self) -> None:
        """Clip, optimize and constrain; clipping and AdamW are one kernel, which works on torch's optimizer state."""
        settings = self._settings.read(self.optimizer, self.parameters)
        whole = all(parameter.grad is not None for parameter in self.parameters)
        if (
            settings is None
            or not whole
            or self._lasting_fallback_reason() is not None
            or not self._prepare_adamw(settings, list(map(_read_trained, self.parameters)))
        ):
            refuse_state_elsewhere(self.optimizer)
            super().update()
            self._adamw = None  # its step counts do not include this step
            return
        assert self._adamw is not None
        with self._launching():
            self._adamw.run()
            self._constrain_frames()
        self._adamw.expose_gradients()

    def _constrain_frames(self) -> None:
        """Move the frames back onto their manifold, in two launches for both."""
        from alphabet_triton.ops.constraint.launch import launch_constraint  # which imports triton

        frames = self.trainable_frames()
        bases, tangents = [frame.base for frame in frames], [frame.tangent.detach() for frame in frames]
        if all(tensor.is_contiguous() for tensor in (*bases, *tangents)):
            if frames:
                launch_constraint(bases, tangents)
        else:
            self.alphabet.constrain()

    def _replay(self, values: Tensor, targets: Tensor, observed: Tensor | None, valid: Tensor | None) -> Tensor:
        """The loss of a step done by the recording of its shape, which the first call makes."""

        def read() -> Sequence:
            return self._read(values, targets, observed, valid)

        key = recording_key(values, observed, valid), recording_key(targets, None, None), self.loss, self.microbatch
        recording = self._recordings.find(key)
        if recording is None:
            with lasting():
                recording = self._recordings.add(key, self._record(Inputs.read(read()), targets.detach()))
        else:
            recording.inputs.copy_call(values, observed, valid, read=read)
            assert recording.targets is not None
            recording.targets.copy_(targets.detach() if targets.requires_grad else targets)
        recording.replay()
        assert self._adamw is not None
        self._adamw.expose_gradients()
        return recording.result.clone()

    def _read(self, values: Tensor, targets: Tensor, observed: Tensor | None, valid: Tensor | None) -> Sequence:
        """The sequence of a step, after checking that it and the targets fit the model."""
        config, like = self.alphabet.config, self.parameters[0]
        sequence = read_sequence(values, channels=config.channels, like=like, observed=observed, valid=valid)
        if isinstance(targets, Tensor) and targets.device != like.device:
            raise AlphabetError(
                f"targets is on {targets.device} but the model is on {like.device}: move one with .to(device)"
            )
        self.check_targets(targets, values.shape[0], count_outputs(self.alphabet))
        return sequence

    def _record(self, given: Inputs, targets: Tensor) -> Recording:
        """A recording of a complete step with tensors of its own, for every call with this shape."""
        from alphabet_triton.step import run_step  # which imports triton

        inputs, targets, loss = given.clone(), targets.clone(), torch.zeros_like(given.values[0, 0, 0])

        adamw, model = self._adamw, self.alphabet
        assert adamw is not None
        launches = self._is_one_program(inputs, targets)

        @torch.no_grad()
        def run_launches() -> None:
            with on(self._device):
                run_step(model, inputs, targets, loss=self.loss, adamw=adamw, measured=loss)

        def run_operators() -> None:
            # Values and frames were checked before this: a check asks the device for a value, and a graph cannot.
            with value_checks(False), self._assume_zero_tangents():
                masks = {"observed": inputs.gate, "valid": inputs.valid}
                loss.copy_(TrainingStep.__call__(self, inputs.values, targets, **masks))

        run = run_launches if launches else run_operators
        tensors = self._watched().tensors
        capture = self._capture or (self._graphs if loss.is_cuda else run_eagerly)
        replay = capture(run, [*tensors, *adamw.changed, loss])
        return Recording(inputs, targets, loss, (*tensors, *adamw.tensors), replay)

    def _is_one_program(self, inputs: Inputs, targets: Tensor) -> bool:
        """Whether a step is one program of launches; else it is the core's own, by operators and autograd."""
        from alphabet_triton.step import covers_step  # which imports triton

        assert self._adamw is not None
        whole = self.microbatch is None or self.microbatch >= len(inputs.values)
        unchanged = all(getattr(type(self), name) is getattr(TritonTrainer, name) for name in OVERRIDABLE)
        return whole and unchanged and covers_step(self.alphabet, self.loss, targets, self._adamw)

    def _prepare_adamw(self, settings: AdamWSettings, trained: list[bool]) -> bool:
        """Whether the fused AdamW can do the next step; recordings are dropped if a parameter moved in memory.

        trained: which parameters ask for gradients
        """
        watch = self._watched()
        if self._adamw is None or watch is not self._recorded or trained != self._trained:
            from alphabet_triton.fused_adamw import FusedAdamW  # which imports triton

            self._recordings.clear()
            with lasting():
                self._adamw = FusedAdamW(self.parameters)
            self._recorded, self._trained = watch, trained
        return self._adamw.prepare(self.optimizer, settings, float(self.recipe.clip_norm))

    def trainable_frames(self) -> list[Frame]:
        """The frames that the model's constraint moves back onto their manifold."""
        self._follow_frames()
        return self._frames

    def announce_step(self) -> None:
        """Let observers of tensor versions see what kernels changed, and a scheduler that there was a step."""
        self._follow_frames()
        increment_version(self._moved)
        self.optimizer._opt_called = True  # type: ignore[attr-defined]

    def _follow_frames(self) -> None:
        """Find the frames, their tangents and all that a step moves, if the model is not as it was."""
        if self._watch is None or self._watch is not self._framed:
            self._framed, self._frames = self._watch, super().trainable_frames()
            self._tangents = [frame.tangent for frame in self._frames]
            self._moved = [*self.parameters, *(frame.base for frame in self._frames)]

    def _look_for_reason(self) -> str | None:
        return super()._look_for_reason() or replaced_parameter_reason(self.alphabet, self.parameters)

    def _watched(self) -> ModelWatch:
        """The watch over the model, which dispatch renews whenever something is not where it was."""
        assert self._watch is not None
        return self._watch

    @contextmanager
    def _launching(self) -> Iterator[None]:
        with device_of(self.parameters[0]), on(self._device):
            yield

    def _tangents_are_zero(self) -> bool:
        """Whether all tangents are zero; the device is asked only after something other than a step wrote to them."""
        versions = self._tangent_versions()
        if versions != self._zero_tangents and not self._recording:
            if any(bool(tangent.any()) for tangent in self._tangents):
                return False
            self._zero_tangents = versions
        return True

    @contextmanager
    def _assume_zero_tangents(self) -> Iterator[None]:
        self._recording = True
        try:
            yield
        finally:
            self._recording = False

    def _tangent_versions(self) -> list[tuple[int, int]]:
        self._follow_frames()
        return [(tangent.data_ptr(), tangent._version) for tangent in self._tangents]
