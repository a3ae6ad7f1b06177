"""What a model of a family reads: the core's sequence contract, metadata as extra channels, padding removed.

Invalid tokens are taken out before any model sees them: the valid ones move to the front in order, and a tail of zeros
remains. Padding in front, behind or in between can then change nothing, in any family that leaves the tail unread.
"""

from collections.abc import Sequence as Names
from dataclasses import dataclass

import torch
from alphabet_core import AlphabetError, Sequence, read_sequence
from torch import Tensor

# The metadata that can enter as channels: one indicator per channel, and one channel of log(1 + elapsed time).
# Validity would be a constant wherever a model reads, so it has no channel.
METADATA = ("observed", "time_delta")


@dataclass(frozen=True)
class Tokens:
    """A batch ready for a backbone.

    inputs (B, T, channels and metadata); present (B, T), True for the first `lengths` (B,) tokens of each row. Both
    are None where every token is valid.
    """

    inputs: Tensor
    present: Tensor | None = None
    lengths: Tensor | None = None


def check_metadata(metadata: Names[str]) -> tuple[str, ...]:
    """The metadata names in their fixed order, or an error that says which one is unknown."""
    if not isinstance(metadata, tuple | list) or any(name not in METADATA for name in metadata):
        raise AlphabetError(f"metadata must be a tuple of names out of {METADATA}; got {metadata!r}")
    return tuple(name for name in METADATA if name in metadata)


def count_inputs(channels: int, metadata: Names[str]) -> int:
    """The number of inputs per token once the metadata are channels."""
    return channels + channels * ("observed" in metadata) + ("time_delta" in metadata)


def read_tokens(
    values: Tensor,
    *,
    channels: int,
    like: Tensor,
    metadata: Names[str] = (),
    time_delta: Tensor | None = None,
    observed: Tensor | None = None,
    valid: Tensor | None = None,
) -> Tokens:
    """The tokens of a batch, checked by the core's contract, with metadata as channels and without invalid tokens."""
    sequence = read_sequence(
        values, channels=channels, like=like, time_delta=time_delta, observed=observed, valid=valid
    )
    if time_delta is not None and "time_delta" not in metadata:
        raise AlphabetError(
            "time_delta is given, but this model has no channel for it and would ignore it: "
            "build it with metadata=('time_delta',), or leave time_delta out"
        )
    parts = [sequence.values]
    if "observed" in metadata:
        indicators = torch.ones_like(values) if sequence.observed is None else sequence.observed.to(values.dtype)
        parts.append(indicators)
    if "time_delta" in metadata:
        parts.append(torch.log1p(_elapsed(sequence)).to(values.dtype).unsqueeze(-1))
    inputs = torch.cat(parts, dim=-1) if len(parts) > 1 else sequence.values
    if sequence.valid is None:
        return Tokens(inputs)
    return _remove_invalid(inputs, sequence.valid)


def _elapsed(sequence: Sequence) -> Tensor:
    """(B, T) time since the valid token before, in float64; the first valid token's own step."""
    values, step = sequence.values, sequence.time_delta
    if step is None:
        step = torch.ones(values.shape[:2], dtype=torch.float64, device=values.device)
    step = step.double()
    if sequence.valid is None:
        return step
    # A clock that runs during invalid tokens only, but not in front of the first valid one.
    gaps = torch.where((sequence.valid.cumsum(1) > 0) & ~sequence.valid, step, 0.0).cumsum(1)
    before = torch.where(sequence.valid, gaps, 0.0).cummax(1).values  # it never falls, so this is its latest value
    before = torch.cat((torch.zeros_like(before[:, :1]), before[:, :-1]), dim=1)
    return step + (gaps - before)


def _remove_invalid(inputs: Tensor, valid: Tensor) -> Tokens:
    lengths = valid.sum(dim=1)
    order = torch.argsort(valid.logical_not().to(torch.uint8), dim=1, stable=True)
    present = torch.arange(valid.shape[1], device=valid.device) < lengths.unsqueeze(1)
    moved = inputs.gather(1, order.unsqueeze(-1).expand_as(inputs))
    return Tokens(torch.where(present.unsqueeze(-1), moved, 0.0), present, lengths)
