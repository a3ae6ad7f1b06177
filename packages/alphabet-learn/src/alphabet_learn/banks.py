"""Random banks: ALPHABET models that nobody trains, drawn for one view of the training series."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from alphabet_core import Alphabet, AlphabetConfig, adapt_lifts, value_checks
from alphabet_core.fused import DECAY_MAX, DECAY_MIN, FREQUENCY_MAX, FixedFrame
from alphabet_cpu import CpuRuntime
from alphabet_cpu.workers import one_torch_thread
from numpy.typing import NDArray
from torch import Tensor

from alphabet_learn.clock import counts_tokens
from alphabet_learn.drawing import draw_fresh
from alphabet_learn.recipe import Recipe, View
from alphabet_learn.series import Series
from alphabet_learn.standardizing import Scaler, fit_scaler
from alphabet_learn.views import look

Floats = NDArray[np.float32]
TOKENS_AT_ONCE = 1 << 21  # of a call, where nothing grows with the length; the reference keeps every state
TOKENS_AT_ONCE_BY_REFERENCE = 1 << 15


@dataclass(frozen=True, eq=False)
class Lens:
    """One view with what it takes to see series through it: its scaler, its unit of time, and its banks."""

    view: View
    scaler: Scaler
    unit: float
    banks: tuple[Alphabet, ...]

    def see(self, series: Series) -> Series | None:
        """The view of every series, standardized, its clock in tokens of the view; None where it has no token."""
        seen = look(series, self.view)
        if seen is None:
            return None
        times = None if seen.times is None else seen.times / (self.unit * self.view.span)
        if times is not None and counts_tokens(times, seen.valid).all():
            times = None
        return replace(self.scaler(seen), times=times)

    def describe(self, series: Series) -> Iterator[Floats]:
        """What each bank's head would read, (N, coordinates); zero where a series has no token in this view."""
        seen = self.see(series)
        for runtime in self._runtimes:
            if seen is None:
                yield np.zeros((series.count, count_coordinates(runtime.model)), np.float32)
            else:
                yield describe(runtime, seen)

    @cached_property
    def _runtimes(self) -> tuple[CpuRuntime, ...]:
        """The banks' runtimes, which fold their weights once."""
        return tuple(CpuRuntime(bank) for bank in self.banks)

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: a copy or a pickle makes its own runtimes."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def draw_lens(view: View, series: Series, recipe: Recipe, *, unit: float, seed: int) -> Lens | None:
    """A view with random banks, adapted to the training series; None if these are too short for it."""
    seen = look(series, view)
    if seen is None or (view.span > 1 and series.length < 2):
        return None
    empty = Lens(view, fit_scaler(seen), unit, ())
    prepared = empty.see(series)
    assert prepared is not None
    length = longest(prepared)
    seeds = [int(each) for each in np.random.SeedSequence(seed).generate_state(recipe.banks_per_view)]
    return replace(empty, banks=tuple(draw_bank(prepared, recipe, length=length, seed=each) for each in seeds))


def longest(series: Series) -> float:
    """The longest series' duration, in tokens."""
    if series.times is None:
        return float(series.lengths.max())
    return float(series.times.max()) + 1.0


def draw_bank(series: Series, recipe: Recipe, *, length: float, seed: int) -> Alphabet:
    """A random model, its lifts adapted to the series: features m and M + m drive mode m.

    Poles: decay logarithmically uniform from 1 / length, frequency from pi / length.
    """
    draw = torch.Generator().manual_seed(seed)
    modes, channels = recipe.modes, series.channels
    model = make_bank(recipe, channels)
    # One thread, so that sums over the series are rounded alike, however many there are.
    with one_torch_thread(), torch.no_grad():
        model.project.weight.copy_(draw_projection(channels, 2 * modes, recipe.most_channels, draw))
        for bank in model.banks():
            lowest = min(max(1.0 / length, 1.1 * DECAY_MIN), 1.0)
            share = (_spread(lowest, DECAY_MAX, modes, draw) - DECAY_MIN) / (DECAY_MAX - DECAY_MIN)
            bank.poles.raw_decay.copy_(share.clamp(max=1.0 - 1e-6).logit())
            turns = _spread(min(1.0 / length, 0.5), recipe.highest_frequency, modes, draw)
            bank.poles.raw_frequency.copy_(turns.atanh())
        adapt_lifts(model, series.tensor(), seed=seed, sharpness=recipe.sharpness, **series.side_inputs())
    return model


def draw_projection(channels: int, features: int, most: int, draw: torch.Generator) -> Tensor:
    """Normal weights (features, channels), zero but for one to `most` random channels of each feature.

    How many is logarithmically uniform, so that the fewer are the more frequent. Scales do not matter: lifts adapt.
    """
    order = torch.rand(features, channels, generator=draw, dtype=torch.float32).argsort(dim=1)
    weights = torch.randn(features, channels, generator=draw, dtype=torch.float32)
    if channels == 1:
        return weights
    number = _spread(1.0, min(channels, most) + 1.0, features, draw).floor().clamp(max=min(channels, most))
    return torch.where(order < number.unsqueeze(1), weights, 0.0)


def make_bank(recipe: Recipe, channels: int) -> Alphabet:
    """A model with what the recipe fixes; its projection, its poles and its lifts are still to be set."""
    modes = recipe.modes
    model = draw_fresh(AlphabetConfig(channels=channels, width=2 * modes, modes=modes, outputs=1))
    with torch.no_grad():
        for bank in model.banks():
            bank.frame = FixedFrame(torch.eye(2 * modes, dtype=torch.float32))
            bank.norm.gain.fill_(recipe.gain)
        assert model.synthesis is not None
        model.synthesis.scale.fill_(recipe.synthesis / recipe.gain)
        model.synthesis.feedthrough.fill_(1.0)
        model.head.weight.zero_()  # type: ignore[operator]  # nobody reads this head
        model.head.bias.zero_()  # type: ignore[operator]
    return model.requires_grad_(False).eval()


def _spread(low: float, high: float, count: int, draw: torch.Generator) -> Tensor:
    """Numbers (count,) from low to high whose logarithms are uniform."""
    return torch.exp(
        math.log(low) + (math.log(high) - math.log(low)) * torch.rand(count, generator=draw, dtype=torch.float32)
    )


def describe(runtime: CpuRuntime, series: Series) -> Floats:
    """The flat descriptor (N, 14 M) of series by one bank; each row depends on its own series alone."""
    found = np.empty((series.count, count_coordinates(runtime.model)), np.float32)
    if series.times is None:
        found[:] = _describe_part(runtime, series, TOKENS_AT_ONCE)
        return found
    regular = counts_tokens(series.times, series.valid)  # these run through the kernels, the others do not
    if regular.any():
        found[regular] = describe(runtime, replace(series.take(regular), times=None))
    if not regular.all():
        found[~regular] = _describe_part(runtime, series.take(~regular), TOKENS_AT_ONCE_BY_REFERENCE)
    return found


def _describe_part(runtime: CpuRuntime, series: Series, tokens: int) -> Floats:
    """The same for series of one kind of clock, so many tokens at a time."""
    rows, side_inputs = max(1, tokens // series.length), series.side_inputs()
    parts = []
    for start in range(0, series.count, rows):
        part = slice(start, start + rows)
        masks = {name: tensor[part] for name, tensor in side_inputs.items()}
        with value_checks(False):  # a Series was checked when it was read
            parts.append(runtime.describe(series.tensor()[part], **masks).flatten(1).numpy())
    return np.concatenate(parts)


def count_coordinates(bank: Alphabet) -> int:
    """How many numbers describe a series by one bank."""
    return len(bank.banks()) * bank.config.modes * (1 + 2 * len(bank.config.lags))


def read_projections(banks: tuple[Alphabet, ...]) -> tuple[NDArray[np.int64], Floats]:
    """The channels that the features of random banks read, and their weights, (banks, 2M, k) each.

    k is the most that any feature reads; one that reads fewer has further channels with weight 0.
    """
    weights = torch.stack([bank.project.weight.detach() for bank in banks])
    most = max(int((weights != 0).sum(dim=2).max()), 1)
    channels = weights.abs().argsort(dim=2, descending=True, stable=True)[:, :, :most].contiguous()
    return channels.numpy(), weights.gather(2, channels).numpy()


def poles_of(bank: Alphabet) -> NDArray[np.complex128]:
    """The poles (2, M) of a bank, per token of its view; each has seven consecutive coordinates."""
    return np.stack([part.poles.values().detach().numpy() for part in bank.banks()]).astype(np.complex128)


assert math.pi == FREQUENCY_MAX  # `turns` above are in units of it
