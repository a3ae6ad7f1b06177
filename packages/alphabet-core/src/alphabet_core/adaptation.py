"""Lifts started on the data: random filters, each scaled and biased so that its feature tells training series apart.

An extension of the paper, which starts every lift the same way whatever the data are. The evidence is in
docs/initial-values.md.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from alphabet_core.arguments import require_number, require_seed
from alphabet_core.errors import AlphabetError
from alphabet_core.grid import Grid, make_grid
from alphabet_core.lift import Lift
from alphabet_core.model import Alphabet, require_alphabet
from alphabet_core.sequence import Sequence, check_lengths, read_sequence

SERIES = 8  # so many series are looked at, or all where there are fewer
KERNEL_SPREAD = 0.5
ZERO_MEAN_SHARE = 0.7  # of the filters, so many do not see a constant
SHARPNESS = (0.5, 2.0)  # the deviation of a filtered signal in front of its SiLU: from nearly linear to a soft switch


@torch.no_grad()
def adapt(
    model: Alphabet,
    values: Tensor,
    *,
    seed: int,
    time_delta: Tensor | None = None,
    observed: Tensor | None = None,
    valid: Tensor | None = None,
) -> None:
    """Draw the projection and the lifts of a fresh model anew, fitted to a few training series (N, T, C), in place."""
    require_alphabet(model)
    examples = _choose(model, values, seed, time_delta=time_delta, observed=observed, valid=valid)
    model.project.weight.copy_(_normal(model.project.weight, model.config.channels**-0.5, examples.draw))
    _adapt_banks(model, examples, SHARPNESS)


@torch.no_grad()
def adapt_lifts(
    model: Alphabet,
    values: Tensor,
    *,
    seed: int,
    sharpness: tuple[float, float] = SHARPNESS,
    time_delta: Tensor | None = None,
    observed: Tensor | None = None,
    valid: Tensor | None = None,
) -> None:
    """Draw the lifts of a model anew, fitted to a few training series (N, T, C) as it projects them, in place.

    Filters are drawn at random; then each is scaled to a deviation drawn from `sharpness` over those series, and its
    bias is minus a random quantile of what it gives, so that some feature switches at every level of the signal.
    """
    require_alphabet(model)
    _check_sharpness(sharpness)
    _adapt_banks(model, _choose(model, values, seed, time_delta=time_delta, observed=observed, valid=valid), sharpness)


def _check_sharpness(sharpness: tuple[float, float]) -> None:
    if not isinstance(sharpness, tuple | list) or len(sharpness) != 2:
        raise AlphabetError(f"sharpness must be a pair (least, most), such as {SHARPNESS}; got {sharpness!r}")
    low, high = (require_number(f"sharpness[{place}]", number) for place, number in enumerate(sharpness))
    if low > high:
        raise AlphabetError(f"sharpness must rise from the least to the most; got {sharpness!r}")


class _Chosen(NamedTuple):
    """The series that are looked at, and the random numbers that go on from their choice."""

    sequence: Sequence
    grid: Grid
    draw: torch.Generator


def _choose(model: Alphabet, values: Tensor, seed: int, **named: Tensor | None) -> _Chosen:
    given = {name: tensor for name, tensor in named.items() if tensor is not None}
    check_lengths(values, **given)
    draw = torch.Generator().manual_seed(require_seed(seed))
    chosen = torch.randperm(len(values), generator=draw)[:SERIES].to(values.device)
    side_inputs = {name: tensor[chosen] for name, tensor in given.items()}
    sequence = read_sequence(values[chosen], channels=model.config.channels, like=model.project.weight, **side_inputs)
    if sequence.valid is not None and not sequence.valid.any():
        raise AlphabetError("none of the series that were looked at has a valid token: pass series with observations")
    return _Chosen(sequence, make_grid(sequence), draw)


def _adapt_banks(model: Alphabet, chosen: _Chosen, sharpness: tuple[float, float]) -> None:
    sequence, grid, _ = chosen
    keep, direct = sequence.keep_valid, model.direct
    projected = model.project(sequence.values)
    _adapt_lift(direct.lift, projected, chosen, sharpness)
    if model.cascaded is None:
        return
    stream = lifted = keep(direct.lift(projected, grid))
    if model.synthesis is not None:
        normed, frame = direct.norm(lifted), direct.frame()
        states = direct.transport(normed @ frame, sequence.available, grid, model.scan)
        stream = model.synthesis(lifted, states @ frame.mT, normed)
    _adapt_lift(model.cascaded.lift, keep(stream), chosen, sharpness)


def _adapt_lift(lift: Lift, features: Tensor, chosen: _Chosen, sharpness: tuple[float, float]) -> None:
    """Draw a lift's filters, then scale and bias each by what it gives at the valid tokens of features (B, T, D)."""
    sequence, grid, draw = chosen
    kernel = _normal(lift.kernel, KERNEL_SPREAD, draw)
    balanced = _uniform(kernel[:, :1], 0.0, 1.0, draw) < ZERO_MEAN_SHARE
    kernel -= torch.where(balanced, kernel.mean(dim=1, keepdim=True), 0.0)
    filtered = grid.convolve(features, kernel)
    filtered = filtered.flatten(0, 1) if sequence.valid is None else filtered[sequence.valid]  # (tokens, D)

    wanted = torch.exp(_uniform(lift.bias, math.log(sharpness[0]), math.log(sharpness[1]), draw))
    spread = filtered.std(dim=0, correction=0)
    # A filter that never moves on these series, such as one of a constant signal, keeps its scale.
    scale = torch.where(spread > 1e-6, wanted / spread, 1.0)
    # The value at a random token is a random quantile, without sorting.
    token = (_uniform(lift.bias, 0.0, 1.0, draw) * len(filtered)).long().clamp(max=len(filtered) - 1)
    quantile = filtered.gather(0, token.unsqueeze(0)).squeeze(0) * scale
    lift.kernel.copy_(kernel * scale.unsqueeze(1))
    lift.bias.copy_(-quantile)


def _normal(like: Tensor, spread: float, draw: torch.Generator) -> Tensor:
    """Normal numbers, drawn on the CPU so that every device starts alike."""
    return (spread * torch.randn(like.shape, generator=draw)).to(like)


def _uniform(like: Tensor, low: float, high: float, draw: torch.Generator) -> Tensor:
    return (low + (high - low) * torch.rand(like.shape, generator=draw)).to(like)
