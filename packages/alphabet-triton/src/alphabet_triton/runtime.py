"""TritonRuntime: a model's logits by the fused kernels where they apply, and by the reference elsewhere."""

from dataclasses import dataclass

from alphabet_core import Alphabet, read_sequence
from alphabet_core.fused import Capture, FusedRuntime, Run, capture_graph, list_modules, list_tensors, run_eagerly
from torch import Tensor

from alphabet_triton.dispatch import TritonDispatch
from alphabet_triton.inputs import Inputs
from alphabet_triton.launching import Device, TritonDevice, device_of, record
from alphabet_triton.weights import Weights, copy_weights, read_weights


@dataclass(frozen=True)
class Recording:
    """The static inputs and outputs of one shape, and a function that runs its launches over them."""

    inputs: Inputs
    logits: Tensor
    descriptor: Tensor
    replay: Run


class TritonRuntime(TritonDispatch, FusedRuntime):
    """`runtime(values, time_delta=..., observed=..., valid=...)` gives the logits of `model`, without gradients.

    The first call with a shape compiles its kernels and, on a GPU, records them into a CUDA graph; later calls copy
    their input and replay the graph. The next call sees parameters that an optimizer changed in place; after writes
    that torch does not count (`parameter.data`), call `refresh()`. `path(...)` says whether a call runs the fused
    kernels or the reference, and why.
    """

    def __init__(self, model: Alphabet, *, device: Device | None = None, capture: Capture | None = None) -> None:
        super().__init__(model)
        self._device = device or TritonDevice()
        self._capture = capture
        self._weights: Weights | None = None
        self._recordings: dict[tuple[object, ...], Recording] = {}
        self._versions: list[tuple[int, int]] = []

    def infer(self, values: Tensor, *, observed: Tensor | None, valid: Tensor | None) -> Tensor:
        """Logits (B, K) by the fused kernels, for a call that they cover."""
        model = self.model
        sequence = read_sequence(
            values, channels=model.config.channels, like=model.project.weight, observed=observed, valid=valid
        )
        with device_of(sequence.values):
            self._follow_parameters()
            given = Inputs.read(sequence)
            recording = self._recordings.get(given.key)
            if recording is None:
                recording = self._recordings[given.key] = self._record(given)
            recording.inputs.copy_(given)
            recording.replay()
            return recording.logits.clone()

    def refresh(self) -> None:
        """Read the parameters again at the next call."""
        self._versions = []

    def _record(self, given: Inputs) -> Recording:
        """A recording with tensors of its own, for every call with this shape."""
        from alphabet_triton.inference import infer  # which imports triton

        weights, inputs = self._weights, given.clone()
        assert weights is not None
        launches, (logits, descriptor) = record(lambda: infer(inputs.values, inputs.valid, inputs.gate, weights))

        def run() -> None:
            for launch in launches:
                self._device.run(launch)

        capture = self._capture or (capture_graph if inputs.values.is_cuda else run_eagerly)
        return Recording(inputs, logits, descriptor, capture(run, []))

    def _follow_parameters(self) -> None:
        """If a parameter or buffer has changed, fold the model again into the tensors that recordings read."""
        versions = [(tensor.data_ptr(), tensor._version) for tensor in list_tensors(list_modules(self.model))]
        if versions == self._versions:
            return
        weights, self._versions = read_weights(self.model), versions
        if self._weights is None or self._weights.project.device != weights.project.device:
            self._weights, self._recordings = weights, {}
        else:
            copy_weights(self._weights, weights)
