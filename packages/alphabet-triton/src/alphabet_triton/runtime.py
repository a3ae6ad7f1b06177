"""TritonRuntime: a model's logits by the fused kernels where they apply, and by the reference elsewhere."""

import torch
from alphabet_core import Alphabet, read_sequence, value_checks
from alphabet_core.fused import Capture, FusedRuntime, GraphCapture, run_eagerly
from torch import Tensor

from alphabet_triton.dispatch import TritonDispatch, refuse_wrapper
from alphabet_triton.graphs import refuse_inside_capture
from alphabet_triton.inputs import Inputs, recording_key
from alphabet_triton.launching import Device, TritonDevice, device_of, on
from alphabet_triton.recordings import Recording, Recordings, lasting
from alphabet_triton.watching import ModelWatch
from alphabet_triton.weights import Weights, copy_weights, list_weights, read_weights


class TritonRuntime(TritonDispatch, FusedRuntime):
    """`runtime(values, time_delta=..., observed=..., valid=...)` gives the logits of `model`, without gradients.

    The first call with a shape compiles its kernels and, on a GPU, records them into a CUDA graph; later calls copy
    their input and replay the graph. The next call sees parameters that an optimizer changed in place; after writes
    that torch does not count (`parameter.data`), call `refresh()`. `path(...)` says whether a call runs the fused
    kernels or the reference, and why.

    Values are checked when a shape is recorded. A replay does not wait for the device to answer: there, NaN and Inf go
    through to the logits, unless the call is made inside `alphabet_core.value_checks(True)`.
    """

    def __init__(self, model: Alphabet, *, device: Device | None = None, capture: Capture | None = None) -> None:
        refuse_wrapper(model)
        super().__init__(model)
        self._device = device or TritonDevice()
        self._capture = capture
        self._graphs = GraphCapture()
        self._weights: Weights | None = None
        self._recordings = Recordings()
        self._folded: ModelWatch | None = None
        self._versions: list[int] = []

    def infer(self, values: Tensor, *, observed: Tensor | None, valid: Tensor | None) -> Tensor:
        """Logits (B, K) by the fused kernels, for a call that they cover."""
        home = self.model.project.weight
        if self._capture is None and home.is_cuda:
            refuse_inside_capture(type(self).__name__)
        with device_of(home):
            self._follow_parameters()
            key = recording_key(values, observed, valid) if isinstance(values, Tensor) else None
            recording = self._recordings.find(key)
            if recording is None:
                recording = self._recordings.add(key, self._record(self._read(values, observed, valid)))
            else:
                with value_checks(None):
                    recording.inputs.copy_(self._read(values, observed, valid))
            recording.replay()
            return recording.result.clone()

    def refresh(self) -> None:
        """Read the parameters again at the next call."""
        self._folded = None

    def _read(self, values: Tensor, observed: Tensor | None, valid: Tensor | None) -> Inputs:
        model = self.model
        return Inputs.read(
            read_sequence(
                values, channels=model.config.channels, like=model.project.weight, observed=observed, valid=valid
            )
        )

    def _record(self, given: Inputs) -> Recording:
        """A recording with tensors of its own, for every call with this shape."""
        from alphabet_triton.inference import infer  # which imports triton

        weights = self._weights
        assert weights is not None
        with lasting(), torch.no_grad():
            inputs = given.clone()
            logits = weights.head_bias.new_zeros(len(inputs.values), len(weights.head_bias))

            def run() -> None:
                with on(self._device):
                    infer(inputs.values, inputs.valid, inputs.gate, weights, logits=logits)

            capture = self._capture or (self._graphs if inputs.values.is_cuda else run_eagerly)
            return Recording(inputs, None, logits, tuple(list_weights(weights)), capture(run, []))

    def _follow_parameters(self) -> None:
        """If a parameter or buffer has changed, fold the model again into the tensors that recordings read."""
        watch = self._watch
        assert watch is not None  # dispatch has looked at the model
        versions = watch.versions()
        if watch is self._folded and versions == self._versions:
            return
        with lasting(), torch.no_grad():
            weights = read_weights(self.model)
            if self._weights is None or self._weights.project.device != weights.project.device:
                self._weights = weights
                self._recordings.clear()
            else:
                copy_weights(self._weights, weights)
        self._folded, self._versions = watch, versions
