"""What a pole is called and where it looks, for engines of either method.

An engine is lenses (views with their banks) and an affine head on the coordinates that banks give, seven for each
pole: `lenses_of` and `read_head` show both methods in that form. Poles are listed in the order of their coordinates:
lenses, banks, direct before cascaded, modes.

Period and memory are in the user's unit of time: a pole -decay + i frequency turns once in 2 pi / |frequency| tokens
of its view and forgets all but 1/e of its state in 1 / decay of them; a token of the view lasts `span` steps.

Channels: a pole divides itself among the features that drive it by their squared weights (its two columns of the frame
times the norm's gain), and a feature among the channels by its squared projection weights. In the closed form two
features drive a pole, with half of it each. What the synthesis adds to the cascaded bank's features is counted as these
features' own.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from alphabet_core import Alphabet, read_sequence, value_checks
from alphabet_core.bounds import affine_head
from alphabet_core.grid import make_grid
from alphabet_core.pairs import split
from alphabet_cpu.workers import one_torch_thread

from alphabet_learn.banks import TOKENS_AT_ONCE_BY_REFERENCE, Lens, count_coordinates, poles_of
from alphabet_learn.closed_form import ClosedForm, Doubles, Head
from alphabet_learn.recipe import View
from alphabet_learn.series import Series
from alphabet_learn.trained import Trained

KINDS = ("direct", "cascaded")
MAIN_SHARE = 0.5  # a pole that several channels drive is named by the one with at least this share


@dataclass(frozen=True)
class Pole:
    """One pole, by what it measures.

    view: how it sees a series. bank: the number of its model. kind: "direct" or "cascaded". mode: its number there.
    period, memory: in the user's unit of time; the period is inf if it does not turn.
    channels: that drive it; shares (C,): how much each does, summing to 1.
    """

    view: str
    bank: int
    kind: str
    mode: int
    period: float
    memory: float
    channels: tuple[int, ...]
    shares: tuple[float, ...]
    name: str

    def __str__(self) -> str:
        return self.name


def lenses_of(engine: ClosedForm | Trained) -> tuple[Lens, ...]:
    """The views with their banks; those of the trained method are its models, which see values as they are."""
    if isinstance(engine, ClosedForm):
        return engine.lenses
    return (Lens(View("values"), engine.scaler, engine.time_unit, tuple(engine.models)),)


def read_head(engine: ClosedForm | Trained) -> Head:
    """The affine head on all banks' coordinates, whose scores are the engine's.

    Trained: the mean of the models' heads, in the target's units, measured from the training series' mean descriptor;
    for two classes the second output minus the first.
    """
    if isinstance(engine, ClosedForm):
        return engine.head
    scale = engine.target_deviation / len(engine.models)  # (K,)
    means, weights, intercept = [], [], engine.target_mean.astype(np.float64)
    for model, center in zip(engine.models, engine.baseline, strict=True):
        head = affine_head(model)
        weight, bias = head.weight.detach().double().numpy(), head.bias.detach().double().numpy()
        if engine.kind == "classification" and len(bias) == 2:
            weight, bias = weight[1:] - weight[:1], bias[1:] - bias[:1]
        mean = center.flatten().double().numpy()
        means.append(mean)
        weights.append(weight.T * scale)
        intercept = intercept + (bias + weight @ mean) * scale
    mean = np.concatenate(means)
    return Head(mean, np.ones(len(mean)), np.concatenate(weights), intercept)


def list_poles(lenses: tuple[Lens, ...], *, unit: str) -> tuple[Pole, ...]:
    """All poles, in the order of their coordinates; `unit` is the word behind a period, such as "samples", or ""."""
    views = [lens for lens in lenses for _ in lens.banks]
    banks = [bank for lens in lenses for bank in lens.banks]
    return tuple(
        _name_pole(lens, number, kind, mode, value, share, unit)
        for number, (lens, bank) in enumerate(zip(views, banks, strict=True))
        for kind, values, shares in zip(KINDS, poles_of(bank), channel_shares(bank), strict=False)
        for mode, (value, share) in enumerate(zip(values.tolist(), shares, strict=True))
    )


def _name_pole(lens: Lens, bank: int, kind: str, mode: int, value: complex, share: Doubles, unit: str) -> Pole:
    """The pole `value`, per token of the lens, with its name."""
    view, step = lens.view.name, lens.view.span * lens.unit
    period = 2.0 * math.pi / abs(value.imag) * step if value.imag != 0 else math.inf
    memory = -step / value.real
    behind = f" {unit}" if unit else ""
    name = f"period {short(period)}{behind}, memory {short(memory)}"
    if math.isinf(period):
        name = f"no period, memory {short(memory)}{behind}"
    # A pole that no view is named for sees values as they are.
    where = ["" if view == "values" else view, "cascaded" if kind == "cascaded" else "", _name_channels(share)]
    if any(where):
        name += f" ({', '.join(part for part in where if part)})"
    channels = tuple(np.flatnonzero(share).tolist())
    return Pole(view, bank, kind, mode, period, memory, channels, tuple(share.tolist()), name)


def channel_shares(bank: Alphabet) -> Doubles:
    """How much each channel drives each pole, (banks, M, C); the module's docstring says by which rule."""
    projection = bank.project.weight.detach().double().square()  # (D, C)
    total = projection.sum(dim=1, keepdim=True)
    even = torch.full_like(projection, 1.0 / projection.shape[1])
    of_features = torch.where(total > 0, projection / torch.where(total > 0, total, 1.0), even)
    shares = []
    for part in bank.banks():
        weighted = part.frame().detach().double().square() * part.norm.gain.detach().double().square().unsqueeze(1)
        weight = sum(split(weighted))  # (D, M), real and imaginary part together
        assert isinstance(weight, torch.Tensor)
        shares.append((weight / weight.sum(dim=0).clamp(min=torch.finfo(torch.float64).tiny)).mT @ of_features)
    return torch.stack(shares).numpy()


def short(number: float) -> str:
    """A positive number as one reads it: whole from 10 on, else two digits."""
    if number >= 1e6 or number < 1e-3:
        return f"{number:.1e}"
    return f"{number:,.0f}" if number >= 9.95 else f"{number:.2g}"


def _name_channels(share: Doubles) -> str:
    """The channels that drive a pole; nothing where there is but one to choose from."""
    if len(share) == 1:
        return ""
    channels = np.flatnonzero(share)
    if len(channels) == 1:
        return f"channel {channels[0]}"
    if len(channels) == 2:
        return f"channels {channels[0]} and {channels[1]}"
    return f"mostly channel {share.argmax()}" if share.max() >= MAIN_SHARE else f"{len(channels)} channels"


def over_time(lenses: tuple[Lens, ...], series: Series, contributions: Doubles) -> Doubles:
    """Contributions (N, poles, G) of all poles, in G groups, spread over the tokens of the series: (N, T, G).

    A rule of display: in each view a pole's contribution is divided in proportion to the energy |z|^2 of its state at
    each valid token. A token of a view is the samples that it averages, in equal parts, or for a change the later of
    the two. A pole whose state is zero throughout is spread evenly over the series.
    """
    spread = np.zeros((series.count, series.length, contributions.shape[2]))
    rows = max(1, TOKENS_AT_ONCE_BY_REFERENCE // series.length)
    for start in range(0, series.count, rows):
        part = slice(start, start + rows)
        few = series.take(np.arange(start, min(start + rows, series.count)))
        silent = np.zeros((few.count, contributions.shape[2]))
        first = 0
        for lens in lenses:
            seen = lens.see(few)
            for bank in lens.banks:
                given = contributions[part, first : first + count_poles(bank)]
                first += count_poles(bank)
                if not given.any():
                    continue
                if seen is None:
                    silent += given.sum(axis=1)
                    continue
                energy = _energy(bank, seen)  # (n, tokens of the view, poles)
                total = energy.sum(axis=1, keepdims=True)
                energy /= np.where(total > 0, total, 1.0)
                silent += np.where(total[:, 0, :, None] > 0, 0.0, given).sum(axis=1)
                spread[part] += _on_samples(np.einsum("ntp,npg->ntg", energy, given, optimize=True), lens.view, few)
        spread[part] += (_valid(few) / _valid(few).sum(axis=1, keepdims=True))[:, :, None] * silent[:, None, :]
    return spread


def count_poles(bank: Alphabet) -> int:
    """How many poles a model has, in both of its banks."""
    return count_coordinates(bank) // bank.config.coordinates


def _energy(bank: Alphabet, seen: Series) -> Doubles:
    """The energy of every state at every valid token, (N, T, poles)."""
    with torch.no_grad(), value_checks(False), one_torch_thread():  # many small steps, which threads slow down
        sequence = read_sequence(
            seen.tensor(), channels=bank.config.channels, like=bank.project.weight, **seen.side_inputs()
        )
        states = bank.trajectories(sequence, make_grid(sequence))  # (N, T, 2M) each
    squares = torch.cat([re.double().square() + im.double().square() for re, im in map(split, states)], dim=2).numpy()
    return squares if seen.valid is None else np.where(seen.valid[:, :, None], squares, 0.0)


def _on_samples(amounts: Doubles, view: View, series: Series) -> Doubles:
    """Amounts at the tokens of a view (N, t, G) at the series' own tokens (N, T, G), with the same sum."""
    if view.kind == "changes":
        return np.pad(amounts, ((0, 0), (1, 0), (0, 0)))
    if view.kind == "values" or series.length == 1:
        return amounts
    valid = _valid(series)
    starts = np.arange(0, series.length, view.span)
    counts = np.add.reduceat(valid, starts, axis=1)
    each = np.repeat(amounts / np.maximum(counts, 1.0)[:, :, None], view.span, axis=1)[:, : series.length]
    return np.asarray(each * valid[:, :, None])


def _valid(series: Series) -> Doubles:
    return np.ones((series.count, series.length)) if series.valid is None else series.valid.astype(np.float64)
