"""Pictures of explanations; they need matplotlib: pip install 'alphabet-learn[plots]'.

plot_map    which periods and memories speak for and against     plot_bars   the strongest poles by name
plot_time   where in the series they look                        plot_poles  a trained model's poles

Blue speaks for what was asked and orange against it, which colour-blind readers tell apart; in plot_poles, which is
the core's, they are the direct and the cascaded bank.
"""

from typing import TYPE_CHECKING, Any, Literal

import alphabet_core
import numpy as np
import torch
from numpy.typing import NDArray

from alphabet_learn.closed_form import Doubles
from alphabet_learn.errors import LearnError
from alphabet_learn.explaining import LONGEST_PERIOD, Aspect, Explanation
from alphabet_learn.poles import count_poles, short
from alphabet_learn.trained import Trained

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

FOR, AGAINST, NEUTRAL = "#1b6ca8", "#d9722b", "0.6"
LARGEST_DOT, SMALLEST_DOT = 260.0, 8.0
MANY_POLES = 200  # from so many on, a map shows sums over cells, since dots would hide each other
CUT_OFF, CUT_TO = 8.0, 1.6  # a bar longer than so many times the longest part is cut, to so many times it
CHANNEL_COLORS = ("#222222", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")  # Okabe and Ito's, for colour-blind readers
MOST_CHANNELS = len(CHANNEL_COLORS)


def plot_map(explanation: Explanation, index: int = 0, *, ax: "Axes | None" = None) -> "Axes":
    """Draw what one series' poles contribute, by their period and memory, and return the axes.

    Few poles are dots, whose area is |contribution|; many are summed over cells of an octave. Poles that do not turn
    within their memory (periods beyond 16384 steps) are drawn at the right edge, labelled so.
    """
    why = explanation[index]
    amounts = why.contributions[0]
    step = why.lenses[0].unit
    period = np.array([pole.period for pole in why.poles]) / step
    memory = np.array([pole.memory for pole in why.poles]) / step
    slow = period >= 2.0**LONGEST_PERIOD
    edge = 4.0 * period[~slow].max() if (~slow).any() else 4.0
    period = np.where(slow, edge, period) * step
    memory = memory * step
    axes = _axes(ax, (6.8, 4.8))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    if len(amounts) >= MANY_POLES:
        shown = _draw_cells(axes, period, memory, amounts, step)
    else:
        largest = _largest(amounts)
        area = np.abs(amounts) / largest * LARGEST_DOT + SMALLEST_DOT
        order = np.argsort(-area)
        shown = axes.scatter(
            period[order], memory[order], s=area[order], c=amounts[order], cmap=_colors(), vmin=-largest, vmax=largest,
            edgecolors="0.35", linewidths=0.6,
        )  # fmt: skip
        axes.margins(0.12)
    unit = _unit(why)
    _label_octaves(axes, step * edge if slow.any() else None)
    axes.set_xlabel(f"period ({unit})")
    axes.set_ylabel(f"memory ({unit})")
    axes.set_title(f"{why.asked[0]}: {why.margin[0]:+z.3g}")
    bar = axes.figure.colorbar(shown, ax=axes)
    bar.set_label("contribution" if len(amounts) < MANY_POLES else "contribution, summed over the cell")
    return axes


def plot_bars(
    explanation: Explanation,
    index: int = 0,
    *,
    by: Aspect | Literal["pole"] | None = None,
    top: int = 8,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw one series' margin as bars and return the axes: baseline, parts, all others together, and the sum.

    by: "pole", the strongest by name; or an aspect, such as "period" or "channel", all of it. None: "pole", unless
    there are hundreds, of which each says little; then "period".
    """
    why = explanation[index]
    if by is None:
        by = "pole" if len(why.poles) < MANY_POLES else "period"
    if by == "pole":
        parts = [(pole.name, amount) for pole, amount in why.strongest(top)]
    else:
        labels, table = why.by(by)
        before = f"{by} " if by in ("period", "memory", "view") else "sample " if by == "time" else ""
        parts = [(f"{before}{label}", float(amount)) for label, amount in zip(labels, table[0], strict=True)]
    rows = [("baseline", float(why.baseline[0]), NEUTRAL)]
    rows += [(name, amount, FOR if amount >= 0 else AGAINST) for name, amount in parts]
    if by == "pole" and len(why.poles) > len(parts):
        others = float(why.margin[0] - why.baseline[0]) - sum(amount for _, amount in parts)
        rows.append((f"{len(why.poles) - len(parts):,} other poles", others, NEUTRAL))
    rows.append((why.asked[0], float(why.margin[0]), "black"))
    axes = _axes(ax, (8.4, 0.34 * len(rows) + 1.1))
    _draw_bars(axes, rows, longest=_largest(np.array([amount for _, amount in parts])))
    return axes


def _draw_bars(axes: "Axes", rows: list[tuple[str, float, str]], longest: float) -> None:
    """Bars with their names and numbers, the last one the sum; those beyond all proportion are cut off and hatched."""
    decimals = max(0, 2 - int(np.floor(np.log10(longest))))
    cut, lengths = False, []
    for place, (_, amount, color) in enumerate(rows):
        beyond = abs(amount) > CUT_OFF * longest
        cut |= beyond
        length = float(np.copysign(CUT_TO * longest, amount)) if beyond else amount
        lengths.append(length)
        bar = axes.barh(place, length, color="white" if beyond else color, height=0.72)
        if beyond:
            bar.patches[0].set(hatch="////", edgecolor=color)
        axes.annotate(
            f"{amount:+z.{decimals}f}", (length, place), xytext=(4 if length >= 0 else -4, 0),
            textcoords="offset points", va="center", ha="left" if length >= 0 else "right", fontsize="small",
        )  # fmt: skip
    span = max(max(lengths), 0.0) - min(min(lengths), 0.0) or 1.0
    axes.set_xlim(min(0.0, *lengths) - 0.2 * span, max(0.0, *lengths) + 0.2 * span)
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    axes.get_yticklabels()[-1].set_fontweight("bold")
    axes.invert_yaxis()
    axes.axvline(0.0, color="0.3", linewidth=0.8)
    axes.set_xlabel("contribution (hatched bars are cut off)" if cut else "contribution")
    axes.spines[["top", "right"]].set_visible(False)


def plot_time(explanation: Explanation, index: int = 0, *, top: int = 4) -> "Figure":
    """Draw one series, and below it where in time its strongest poles contribute; return the figure.

    A pole's contribution is spread by where its energy lies, which is a rule of display. The rows of single poles share
    one scale; that of all poles has its own.
    """
    why = explanation[index]
    length = int(why.series.lengths[0])
    strongest = why.order()[:top]
    rows = why.over_time(strongest)[0, :length].T  # (poles, T)
    everything = why.by("time")[1][0, :length]
    instants = np.arange(length) if why.series.times is None else why.series.times[0, :length]

    plt = _pyplot()
    count = len(rows) + 2
    figure: Figure = plt.figure(figsize=(7.6, 1.7 + 0.82 * (count - 1)), layout="constrained")
    panels = figure.subplots(count, 1, sharex=True, height_ratios=[2.0] + [1.0] * (count - 1))
    _draw_series(panels[0], why, instants)
    panels[0].set_title(f"{why.asked[0]}: {why.margin[0]:+z.3g}")
    _draw_amounts(panels[1], instants, everything, f"all {len(why.poles):,} poles")
    for panel, amounts, place in zip(panels[2:], rows, strongest, strict=True):
        _draw_amounts(panel, instants, amounts, why.poles[place].name)
    limits = [panel.get_ylim() for panel in panels[2:]]
    for panel in panels[2:]:
        panel.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
    panels[-1].set_xlabel("sample" if why.unit == "samples" else f"time ({why.unit or 'in your unit'})")
    figure.supylabel("contribution per token", fontsize="medium")
    return figure


def plot_poles(estimator: Any, explanation: Explanation | None = None) -> "Figure":
    """Draw a trained estimator's poles in the complex plane, a panel for each model; return the figure.

    With an explanation, areas are mean |contribution| over its series.
    """
    engine = estimator.engine_
    if not isinstance(engine, Trained):
        raise LearnError(
            "plot_poles draws a trained model's poles, but this one is in closed form, whose random poles differ from "
            "view to view: use plot_map."
        )
    plt = _pyplot()
    models = engine.models
    figure: Figure = plt.figure(figsize=(5.6 * len(models), 4.4), layout="constrained")
    panels = figure.subplots(1, len(models), squeeze=False, sharex=True, sharey=True)[0]
    step = "sample" if not estimator.timed_ else f"step of {engine.time_unit:.3g}{' s' if estimator.dated_ else ''}"
    amounts = None if explanation is None else _amounts_of(explanation, sum(count_poles(model) for model in models))
    first = 0
    for number, (panel, model) in enumerate(zip(panels, models, strict=True)):
        part = None
        if amounts is not None:
            part = _as_attribution(amounts[:, first : first + count_poles(model)], model)
            first += count_poles(model)
        alphabet_core.plot_poles(model, part, ax=panel)
        panel.set_xlabel(f"−1 / memory (per {step})")
        panel.set_ylabel(f"angular frequency (radians per {step})" if number == 0 else "")
        if len(models) > 1:
            panel.set_title(f"Model {number}" + ("" if part is None else ", area by mean |contribution|"))
    return figure


def _draw_cells(axes: "Axes", period: Doubles, memory: Doubles, amounts: Doubles, step: float) -> Any:
    """Sums over octaves of both, as `Explanation.by` has them; cells without a pole are left white."""
    bounds = [_octave_bounds(values, step) for values in (period, memory)]
    sums = np.histogram2d(period, memory, bins=bounds, weights=amounts)[0]
    counts = np.histogram2d(period, memory, bins=bounds)[0]
    largest = _largest(sums)
    return axes.pcolormesh(
        *bounds, np.where(counts > 0, sums, np.nan).T, cmap=_colors(), vmin=-largest, vmax=largest, edgecolors="white",
        linewidth=0.6,
    )  # fmt: skip


def _octave_bounds(values: Doubles, step: float) -> Doubles:
    octaves = np.floor(np.log2(values / step))
    return np.asarray(step * 2.0 ** np.arange(octaves.min(), octaves.max() + 2))


def _label_octaves(axes: "Axes", edge: float | None) -> None:
    """Plain numbers in place of powers of two; the right edge, where poles without a period are, says so."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(base=2.0, numticks=9))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: short(value) if value >= 10 else f"{value:.3g}"))
    if edge is not None:
        low, high = axes.get_xlim()
        axes.axvline(edge / 2.0, color="0.6", linewidth=0.8, linestyle=":")
        axes.set_xlim(low, max(high, edge * 2.0))
        axes.set_xticks([tick for tick in axes.get_xticks() if low <= tick < edge / 2.0])
        axes.annotate("no\nperiod", (1.0, 1.0), xycoords="axes fraction", xytext=(-3, -3), textcoords="offset points",
                      ha="right", va="top", fontsize="small", color="0.4")  # fmt: skip


def _draw_series(axes: "Axes", why: Explanation, instants: NDArray[Any]) -> None:
    """The values of the first channels, with gaps where nothing was observed."""
    series, length = why.series, len(instants)
    values = series.values[0, :length].astype(np.float64)
    if series.observed is not None:
        values = np.where(series.observed[0, :length], values, np.nan)
    shown = min(series.channels, MOST_CHANNELS)
    marker = "o" if length < 3 or np.isnan(values).any() else None
    for channel in range(shown):
        axes.plot(
            instants, values[:, channel], color=CHANNEL_COLORS[channel], linewidth=1.3, marker=marker, markersize=2.5,
            label=f"channel {channel}",
        )  # fmt: skip
    axes.set_ylabel("value" if series.channels == 1 else "values")
    if series.channels > 1:
        title = None if shown == series.channels else f"{shown} of {series.channels}"
        axes.legend(frameon=False, fontsize="small", title=title, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.margins(x=0.01)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_amounts(axes: "Axes", instants: NDArray[Any], amounts: Doubles, name: str) -> None:
    axes.fill_between(instants, np.maximum(amounts, 0.0), 0.0, color=FOR, step="mid", linewidth=0.5)
    axes.fill_between(instants, np.minimum(amounts, 0.0), 0.0, color=AGAINST, step="mid", linewidth=0.5)
    axes.axhline(0.0, color="0.3", linewidth=0.6)
    axes.set_title(f"{name}: {amounts.sum():+z.3g}", loc="left", fontsize="small", pad=2)
    axes.tick_params(labelsize="small")
    axes.locator_params(axis="y", nbins=3)
    axes.spines[["top", "right"]].set_visible(False)


def _amounts_of(explanation: Explanation, poles: int) -> Doubles:
    """The contributions (N, poles) with zero for poles that the explanation leaves out."""
    amounts = np.zeros((len(explanation), poles))
    amounts[:, explanation.places] = explanation.contributions
    return amounts


def _as_attribution(amounts: Doubles, model: alphabet_core.Alphabet) -> alphabet_core.Attribution:
    """Contributions (N, poles) of one model, as the core's pictures take them."""
    contributions = torch.from_numpy(amounts.reshape(len(amounts), model.config.banks, model.config.modes))
    nothing = torch.zeros(len(amounts), dtype=torch.float64)
    return alphabet_core.Attribution(contributions, nothing, contributions.sum(dim=(1, 2)), nothing.long(), None)


def _largest(amounts: Doubles) -> float:
    return float(np.abs(amounts).max()) or 1.0


def _unit(why: Explanation) -> str:
    return why.unit or "in your unit of time"


def _colors() -> "LinearSegmentedColormap":
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("for_and_against", ["#8a3b0c", AGAINST, "#f5f5f5", FOR, "#0b3c61"])


def _axes(ax: "Axes | None", size: tuple[float, float]) -> "Axes":
    if ax is not None:
        return ax
    axes: Axes = _pyplot().subplots(figsize=size, layout="constrained")[1]
    return axes


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as missing:
        raise LearnError("Pictures need matplotlib: pip install 'alphabet-learn[plots]'.") from missing
    return plt
