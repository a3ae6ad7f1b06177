"""The input contract that every model of the project shares: what a sequence is, and what is wrong with a bad one.

Structure (rank, sizes, dtype, device) is always checked. Values (NaN or Inf where something is observed, negative or
non-finite steps, masks that are not 0/1) are checked in eager use unless `value_checks(False)` is in force; they are
never checked while compiling, exporting or capturing a graph, where a NaN then propagates to the output instead.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor

from alphabet_core.arguments import require_tensor
from alphabet_core.errors import AlphabetError

# None where nobody has said anything: then values are checked.
_checks_wanted: ContextVar[bool | None] = ContextVar("alphabet_value_checks", default=None)


@contextmanager
def value_checks(enabled: bool | None) -> Iterator[None]:
    """A context in which the checks of values are on or off; None switches them off unless they were switched on.

    On a GPU a check waits for the device, so a fused runtime replays with None: it checks for callers who asked for it.
    Holds for the thread (or task) that enters the block; threads started inside it check again.
    """
    if enabled is not None and not isinstance(enabled, bool):
        raise AlphabetError(f"enabled must be True, False or None; got {enabled!r}")
    token = _checks_wanted.set(bool(_checks_wanted.get()) if enabled is None else enabled)
    try:
        yield
    finally:
        _checks_wanted.reset(token)


@dataclass(frozen=True)
class Sequence:
    """A batch that passed the contract, with its values masked.

    values (B, T, C) are zero wherever nothing valid was observed. time_delta (B, T) is None on a regular grid.
    available (B, T) is True where a valid token has at least one observed channel; valid (B, T) and observed (B, T, C)
    are as given, entry by entry. A mask of None means True everywhere.
    """

    values: Tensor
    time_delta: Tensor | None
    available: Tensor | None
    valid: Tensor | None
    observed: Tensor | None = None

    def keep_valid(self, features: Tensor) -> Tensor:
        """Features (B, T, D) with zero at invalid tokens."""
        return features if self.valid is None else torch.where(self.valid.unsqueeze(-1), features, 0.0)


def read_sequence(
    values: Tensor,
    *,
    channels: int,
    like: Tensor,
    time_delta: Tensor | None = None,
    observed: Tensor | None = None,
    valid: Tensor | None = None,
) -> Sequence:
    """The batch, checked against the contract and masked; `like` is a parameter with the dtype and device to share."""
    _check_structure(values, channels, like, time_delta, observed, valid)
    if not (torch.compiler.is_compiling() or torch.compiler.is_exporting()):
        # A view of a conjugate's imaginary part: whoever reads its memory would miss the sign.
        values = values.resolve_neg()
        time_delta = None if time_delta is None else time_delta.resolve_neg()
    if values_checked():
        _check_masks(observed, valid)
    else:
        values = _carry_nan(_carry_nan(values, observed), valid)
    valid_mask = None if valid is None else valid.bool()
    observed_mask = None if observed is None else observed.bool()
    if observed_mask is not None and observed_mask.ndim == 2:
        observed_mask = observed_mask.unsqueeze(-1).expand_as(values)
    readable = _readable(observed_mask, valid_mask)
    if values_checked():
        _check_values(values, readable, time_delta)
    if readable is None:
        return Sequence(values, time_delta, available=None, valid=None)
    available = valid_mask if observed_mask is None else readable.any(dim=-1)
    # `where`, not a product: an entry that nobody may read can hold NaN, and 0 * NaN would let it through.
    masked = torch.where(readable, values, torch.zeros((), dtype=values.dtype, device=values.device))
    return Sequence(masked, time_delta, available=available, valid=valid_mask, observed=observed_mask)


def _carry_nan(values: Tensor, mask: Tensor | None) -> Tensor:
    """The values, NaN wherever an unchecked mask holds NaN or Inf, which would otherwise count as True."""
    if mask is None or not mask.is_floating_point():
        return values
    fault = 0.0 * mask.to(values.dtype)
    return values + (fault if fault.ndim == 3 else fault.unsqueeze(-1))


def _readable(observed: Tensor | None, valid: Tensor | None) -> Tensor | None:
    if valid is None:
        return observed
    token = valid.unsqueeze(-1)
    return token if observed is None else observed & token


def values_checked() -> bool:
    """Whether values are checked here and now: in eager use, unless `value_checks(False)` is in force."""
    if torch.compiler.is_compiling() or torch.compiler.is_exporting() or _checks_wanted.get() is False:
        return False
    return not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())


def values_must_be_checked() -> bool:
    """Whether somebody switched the checks of values on: here even a fused runtime makes them, which waits."""
    return _checks_wanted.get() is True


def _check_structure(
    values: Tensor,
    channels: int,
    like: Tensor,
    time_delta: Tensor | None,
    observed: Tensor | None,
    valid: Tensor | None,
) -> None:
    require_tensor("values", values)
    if values.ndim != 3:
        raise AlphabetError(f"values must have shape (batch, time, channels={channels}); got {_shape(values)}")
    batch, length, found = values.shape
    if found != channels:
        raise AlphabetError(
            f"values must have {channels} channels in its last axis, as the model was configured; got {_shape(values)}"
        )
    # A symbolic size, while exporting, is never zero, and asking would narrow it.
    for size, what in ((batch, "batch is empty"), (length, "sequence has no token")):
        if isinstance(size, int) and size == 0:
            raise AlphabetError(
                f"values: the {what}; got {_shape(values)}, expected at least one sequence of at least one token"
            )
    if not values.is_floating_point():
        raise AlphabetError(f"values must be floating point; got {values.dtype}: convert it with values.float()")
    if values.dtype != like.dtype:
        raise AlphabetError(
            f"values is {values.dtype} but the model is {like.dtype}: convert one of them with .to(dtype)"
        )
    if values.device != like.device:
        raise AlphabetError(
            f"values is on {values.device} but the model is on {like.device}: move one with .to(device)"
        )
    _check_side_input("time_delta", time_delta, values, [(batch, length)])
    _check_side_input("observed", observed, values, [(batch, length, channels), (batch, length)])
    _check_side_input("valid", valid, values, [(batch, length)])
    if time_delta is not None and time_delta.dtype not in (values.dtype, torch.float64):
        wanted = " or ".join(map(str, dict.fromkeys((values.dtype, torch.float64))))
        raise AlphabetError(f"time_delta must be {wanted}; got {time_delta.dtype}")


def _check_side_input(name: str, tensor: Tensor | None, values: Tensor, shapes: list[tuple[int, ...]]) -> None:
    if tensor is None:
        return
    require_tensor(name, tensor)
    if not any(tensor.ndim == len(shape) and tuple(tensor.shape) == shape for shape in shapes):
        expected = " or ".join(str(tuple(int(size) for size in shape)) for shape in shapes)
        raise AlphabetError(f"{name} must have shape {expected} to match values {_shape(values)}; got {_shape(tensor)}")
    if tensor.device != values.device:
        raise AlphabetError(f"{name} is on {tensor.device} but values is on {values.device}: move one with .to(device)")
    if tensor.is_complex():
        raise AlphabetError(f"{name} must be real; got {tensor.dtype}")


def _check_masks(observed: Tensor | None, valid: Tensor | None) -> None:
    for name, mask in (("observed", observed), ("valid", valid)):
        if mask is None or mask.dtype == torch.bool:
            continue
        bad = (mask != 0) & (mask != 1)
        if bad.any():
            raise AlphabetError(f"{name} must hold only 0 and 1 (or booleans); found {_first(bad, mask)}")


def _check_values(values: Tensor, readable: Tensor | None, time_delta: Tensor | None) -> None:
    bad = ~torch.isfinite(values)
    if readable is not None:
        bad &= readable
    if bad.any():
        raise AlphabetError(
            f"values must be finite wherever they are observed and valid; found {_first(bad, values)}: "
            "mark missing entries with observed=0, padding with valid=0"
        )
    if time_delta is not None:
        bad = ~(torch.isfinite(time_delta) & (time_delta >= 0))
        if bad.any():
            raise AlphabetError(
                f"time_delta must be finite and not negative (elapsed time before each token); "
                f"found {_first(bad, time_delta)}"
            )


def check_lengths(values: Tensor, **side_inputs: Tensor) -> None:
    """Raise unless every side input is a tensor with one row per sequence of values; else rows would be mispaired."""
    for name, tensor in {"values": values, **side_inputs}.items():
        require_tensor(name, tensor)
        if tensor.ndim == 0 or tensor.shape[0] != values.shape[0]:
            raise AlphabetError(
                f"{name} must have one row per sequence, {values.shape[0]} as values has; got {_shape(tensor)}"
            )


def check_indices(name: str, indices: Tensor, batch: int, classes: int) -> None:
    """Raise unless `indices` are int64 class indices (batch,) in 0 ... classes - 1, naming the first that is not."""
    require_tensor(name, indices)
    if indices.dtype != torch.int64 or tuple(indices.shape) != (batch,):
        raise AlphabetError(f"{name} must be int64 of shape ({batch},); got {indices.dtype} {_shape(indices)}")
    bad = (indices < 0) | (indices >= classes)
    if bad.any():
        raise AlphabetError(
            f"{name} must lie in 0 ... {classes - 1}, the model's {classes} outputs; found {_first(bad, indices)}"
        )


def check_target_values(targets: Tensor, *, shares: bool) -> None:
    """Raise unless targets (B, K) are finite, or in 0 ... 1 where they are `shares`, naming the first that is not."""
    bad = ~((targets >= 0) & (targets <= 1)) if shares else ~targets.isfinite()
    if bad.any():
        wanted = "lie in 0 ... 1, as labels of several do" if shares else "be finite"
        index = tuple(int(i) for i in bad.nonzero()[0])
        raise AlphabetError(
            f"targets must {wanted}; found {targets[index].item()} at batch {index[0]}, output {index[1]}. "
            "One step towards it would ruin every parameter"
        )


def _first(bad: Tensor, tensor: Tensor) -> str:
    index = tuple(int(i) for i in bad.nonzero()[0])
    place = ", ".join(f"{axis} {i}" for axis, i in zip(("batch", "token", "channel"), index, strict=False))
    return f"{tensor[index].item()} at {place}"


def _shape(tensor: Tensor) -> tuple[int, ...]:
    return tuple(int(size) for size in tensor.shape)
