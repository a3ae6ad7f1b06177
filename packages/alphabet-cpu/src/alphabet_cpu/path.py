"""Which calls the fused kernels cover, and in words why one is not."""

import torch
from alphabet_core import Alphabet, AlphabetError
from torch import Tensor, nn

FUSED = "fused"
LAGS = (1, 2, 4)


def require_alphabet(model: object) -> Alphabet:
    """The model, if it is one."""
    if not isinstance(model, Alphabet):
        raise AlphabetError(f"model must be an Alphabet; got {type(model).__name__}")
    return model


class Pathfinder:
    """Something that runs an `alphabet` by the kernels or by the reference, and says which."""

    alphabet: Alphabet

    def path(
        self,
        values: Tensor,
        *,
        time_delta: Tensor | None = None,
        observed: Tensor | None = None,  # noqa: ARG002  every mask is covered
        valid: Tensor | None = None,  # noqa: ARG002
    ) -> str:
        """`"fused"`, or `"reference: "` and the reason."""
        return choose_path(self.alphabet, values, time_delta)


def choose_path(model: Alphabet, values: Tensor | None = None, time_delta: Tensor | None = None) -> str:
    """`"fused"`, or `"reference: "` and the reason; without values, what holds for every call."""
    reason = _model_reason(model)
    if reason is None and time_delta is not None:
        reason = "time_delta is given; the kernels run on regular grids"
    if reason is None and isinstance(values, Tensor) and values.dtype != torch.float32:
        reason = f"values is {values.dtype}; the kernels compute in torch.float32"
    return FUSED if reason is None else f"reference: {reason}"


def _model_reason(model: Alphabet) -> str | None:
    if model.cascaded is None or model.synthesis is None or not isinstance(model.head, nn.Linear):
        return "the model is a structural variant, and the kernels are written for the full dataflow and affine head"
    if model.config.lags != LAGS:
        return f"lags are {model.config.lags}; the kernels are written for {LAGS}"
    parameter = model.project.weight
    if parameter.dtype != torch.float32:
        return f"the model is {parameter.dtype}; the kernels compute in torch.float32"
    if parameter.device.type != "cpu":
        return f"the model is on {parameter.device}"
    return None
