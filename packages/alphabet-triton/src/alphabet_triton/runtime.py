"""TritonRuntime: a model's logits by the fused kernels where they apply, and by the reference elsewhere."""

from threading import RLock

import torch
from alphabet_core import Alphabet, Sequence, read_sequence
from alphabet_core.fused import Capture, FusedRuntime, GraphCapture, ModelWatch, run_eagerly
from torch import Tensor

from alphabet_triton.dispatch import TritonDispatch, refuse_wrapper
from alphabet_triton.graphs import refuse_inside_capture
from alphabet_triton.inputs import Inputs, recording_key
from alphabet_triton.launching import Device, TritonDevice, device_of, on
from alphabet_triton.recordings import Recording, Recordings, lasting
from alphabet_triton.weights import Weights, copy_weights, describe_place, list_weights, read_weights


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
        self._forget()

    def _forget(self) -> None:
        super()._forget()
        self._lock = RLock()
        self._graphs = GraphCapture()
        self._weights: Weights | None = None
        self._recordings = Recordings()
        self._folded: ModelWatch | None = None
        self._versions: list[int] = []
        self._channels = 0

    def __call__(
        self,
        values: Tensor,
        *,
        time_delta: Tensor | None = None,
        observed: Tensor | None = None,
        valid: Tensor | None = None,
    ) -> Tensor:
        """Logits (B, K) of values (B, T, C)."""
        if (
            type(values) is Tensor
            and not values.requires_grad
            and time_delta is observed is valid is None
            and self.fallback_reason(values) is None
        ):
            return self.infer(values, observed=None, valid=None)  # no tensor here has a gradient: none is switched off
        return super().__call__(values, time_delta=time_delta, observed=observed, valid=valid)

    def infer(self, values: Tensor, *, observed: Tensor | None, valid: Tensor | None) -> Tensor:
        """Logits (B, K) by the fused kernels, for a call that they cover; threads take turns."""
        with self._lock:
            return self._infer(values, observed, valid)

    def _infer(self, values: Tensor, observed: Tensor | None, valid: Tensor | None) -> Tensor:
        weights = self._follow_parameters()
        home = weights.project
        if self._capture is None and home.is_cuda:
            refuse_inside_capture(type(self).__name__)

        def read() -> Sequence:
            return read_sequence(values, channels=self._channels, like=home, observed=observed, valid=valid)

        with device_of(home):
            key = recording_key(values, observed, valid)
            recording = self._recordings.find(key)
            if recording is None:
                recording = self._recordings.add(key, self._record(Inputs.read(read()), weights))
            else:
                recording.inputs.copy_call(values, observed, valid, read=read)
            recording.replay()
            return recording.result.clone()

    def refresh(self) -> None:
        """Read the parameters again at the next call."""
        self._folded = None

    def _record(self, given: Inputs, weights: Weights) -> Recording:
        """A recording with tensors of its own, for every call with this shape."""
        from alphabet_triton.inference import infer  # which imports triton

        with lasting(), torch.no_grad():
            inputs = given.clone()
            logits = weights.head_bias.new_zeros(len(inputs.values), len(weights.head_bias))

            def run() -> None:
                with on(self._device):
                    infer(inputs.values, inputs.valid, inputs.gate, weights, logits=logits)

            capture = self._capture or (self._graphs if inputs.values.is_cuda else run_eagerly)
            return Recording(inputs, None, logits, tuple(list_weights(weights)), capture(run, []))

    def _follow_parameters(self) -> Weights:
        """The tensors that recordings read, folded again if a parameter or buffer of the model has changed."""
        watch = self._watch
        assert watch is not None  # dispatch has looked at the model
        versions = watch.versions()
        if self._weights is not None and watch is self._folded and versions == self._versions:
            return self._weights
        with lasting(), torch.no_grad():
            weights = read_weights(self.model)
            if self._weights is None or describe_place(self._weights) != describe_place(weights):
                self._weights = weights
                self._recordings.clear()
            else:
                copy_weights(self._weights, weights)
        self._folded, self._versions, self._channels = watch, versions, self.model.config.channels
        return self._weights
