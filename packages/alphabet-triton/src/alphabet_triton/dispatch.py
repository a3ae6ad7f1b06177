"""Dispatch: the calls that this package's kernels cover, and in words why the reference runs the others."""

from typing import Any, Self

from alphabet_core import Alphabet, AlphabetError
from alphabet_core.fused import (
    FusedDispatch,
    ModelWatch,
    call_fallback_reason,
    list_modules,
    list_tensors,
    model_fallback_reason,
)
from torch import Tensor, nn
from torch.optim import Optimizer

from alphabet_triton.launching import Device

MOST_OUTPUTS = 65_535


class TritonDispatch(FusedDispatch):
    """Runs an `alphabet` by this package's kernels where they apply, and by the reference elsewhere."""

    _device: Device

    def _forget(self) -> None:
        """Have found out nothing yet about the model, which is how a runtime or a trainer begins."""
        self._watch: ModelWatch | None = None
        self._lasting_reason: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What a copy is made from: all but what is recorded and found out, whose addresses are not the copy's."""
        found_out = vars(type(self)._begin())
        return {name: value for name, value in vars(self).items() if name not in found_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._forget()
        vars(self).update(state)

    @classmethod
    def _begin(cls) -> Self:
        blank = cls.__new__(cls)
        blank._forget()
        return blank

    def fallback_reason(self, values: Tensor | None = None, time_delta: Tensor | None = None) -> str | None:
        """Why the reference runs a call, or None; without values, the reason that holds for every call."""
        return self._lasting_fallback_reason() or call_fallback_reason(values, time_delta)

    def _lasting_fallback_reason(self) -> str | None:
        """Why the reference runs every call of this model on this device, or None."""
        if self._watch is None or not self._watch.unchanged():
            self._lasting_reason = self._look_for_reason()
            self._watch = ModelWatch(self.alphabet)
        return self._lasting_reason

    def _look_for_reason(self) -> str | None:
        model, home = self.alphabet, self.alphabet.project.weight.device
        reason = self._device.unavailable_reason(home) or model_fallback_reason(model, home.type)
        if reason is None and count_outputs(model) > MOST_OUTPUTS:
            reason = f"outputs are {count_outputs(model)}; the head is written for at most {MOST_OUTPUTS}"
        if reason is None:
            reason = memory_fallback_reason(list_tensors(list_modules(model)))
        return reason


def count_outputs(model: Alphabet) -> int:
    """The outputs of a model that the kernels cover; its head may have been replaced by one with more or fewer."""
    assert isinstance(model.head, nn.Linear)
    return len(model.head.weight)


def memory_fallback_reason(tensors: list[Tensor]) -> str | None:
    """Why kernels cannot work on a model's tensors where they lie, or None."""
    for tensor in tensors:
        if tensor.device != tensors[0].device:
            return f"the model is on {tensors[0].device} and on {tensor.device}; move it to one device with .to(device)"
        if tensor.is_inference():
            return "the model was made inside torch.inference_mode(), where changes of its parameters are not counted"
    return None


def replaced_parameter_reason(model: Alphabet, parameters: list[nn.Parameter]) -> str | None:
    """Why the reference trains a model that no longer has the parameters that an optimizer moves, or None."""
    if set(map(id, parameters)) <= set(map(id, model.parameters())):
        return None
    return (
        "a parameter of the model was replaced by another, as load_state_dict(assign=True) does, and the optimizer "
        "still moves the one before: make a new trainer"
    )


def refuse_state_elsewhere(optimizer: Optimizer) -> None:
    """Raise if a model moved after steps that left the optimizer's state on the device where it was."""
    for parameter, state in optimizer.state.items():
        average = state.get("exp_avg")
        if average is not None and average.device != parameter.device:
            raise AlphabetError(
                f"the model is on {parameter.device} but the optimizer's state on {average.device}, where earlier "
                "steps left it: take it along with trainer.optimizer.load_state_dict(trainer.optimizer.state_dict()), "
                "or make a new trainer"
            )


def refuse_wrapper(model: object) -> None:
    """Raise if a model is inside a wrapper for several devices."""
    if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        raise AlphabetError(
            f"model is a {type(model).__name__}, whose hooks recorded kernels would not call: pass model.module to "
            "TritonRuntime, and train the wrapped model with alphabet_core.TrainingStep"
        )
