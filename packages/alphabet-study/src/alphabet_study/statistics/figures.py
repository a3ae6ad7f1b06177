"""Pictures of a comparison: which families differ in rank, and rank against the number of parameters.

They are drawn on white and in two colours; the family that is highlighted is bold or of another shape too. So they read
on a light and on a dark page, in print and without colour vision.
"""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.ticker import FuncFormatter, LogLocator, MultipleLocator, NullFormatter
from matplotlib.transforms import Bbox
from scikit_posthocs import critical_difference_diagram

from alphabet_study.errors import StudyError
from alphabet_study.statistics.paper import TITLES
from alphabet_study.statistics.ranks import mean_ranks, rank_tasks, require_columns
from alphabet_study.statistics.significance import ALPHA, compare_pairs, fill_matrix

HIGHLIGHT, PLAIN = "#c2410c", "#33475b"
HIGHLIGHTED = "alphabet"
# Where a label may stand beside its dot: offsets in points, tried in this order, and its alignment.
_PLACES = (
    (8, 0, "left", "center"), (-8, 0, "right", "center"), (0, 8, "center", "bottom"), (0, -8, "center", "top"),
    (7, 7, "left", "bottom"), (-7, 7, "right", "bottom"), (7, -7, "left", "top"), (-7, -7, "right", "top"),
    (16, 12, "left", "bottom"), (-16, 12, "right", "bottom"), (16, -12, "left", "top"), (-16, -12, "right", "top"),
)  # fmt: skip


def plot_critical_differences(
    frame: pd.DataFrame, *, alpha: float = ALPHA, titles: Mapping[str, str] = TITLES
) -> Figure:
    """The critical-difference diagram of results with columns task, family, value and direction.

    Families stand at their mean ranks, the best at the left. A bar joins families of which no two differ, by
    signed-rank tests of all pairs with Holm's correction; its dots say which families those are.
    """
    ranks = rank_tasks(frame)
    if ranks.shape[1] < 2:
        raise StudyError(f"a critical-difference diagram needs at least 2 families; got {list(ranks.columns)}")
    means = mean_ranks(ranks)
    matrix = fill_matrix(compare_pairs(ranks, alpha=alpha))
    count = len(means)
    figure = Figure(figsize=(8.0, 1.4 + 0.3 * count), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    drawn = critical_difference_diagram(
        means.rename(lambda family: titles.get(family, family)),
        matrix.rename(
            index=lambda family: titles.get(family, family), columns=lambda family: titles.get(family, family)
        ),
        alpha=alpha,
        ax=axes,
        label_fmt_left="{label}  {rank:.2f} ",
        label_fmt_right=" {rank:.2f}  {label}",
        text_h_margin=max(0.25, 0.06 * float(means.iloc[-1] - means.iloc[0])),
        color_palette={titles.get(family, family): _color(family) for family in means.index},
        label_props={"fontsize": 11},
        elbow_props={"linewidth": 1.1},
        marker_props={"s": 34},
        crossbar_props={"color": "black", "linewidth": 3.0, "marker": "o", "markersize": 5.5, "alpha": 0.75},
    )
    for label in drawn["labels"]:
        if titles.get(HIGHLIGHTED, HIGHLIGHTED) in label.get_text():
            label.set_fontweight("bold")
    axes.xaxis.set_major_locator(MultipleLocator(1.0))
    axes.tick_params(axis="x", labelsize=10)
    axes.set_xlim(means.iloc[0] - 0.5, means.iloc[-1] + 0.5)
    axes.set_ylim(top=0.6)
    axes.set_title(f"Mean rank over {len(ranks)} tasks, best at the left", fontsize=11, pad=24)
    figure.supxlabel(
        f"A bar joins families of which no two differ at level {alpha:g} (signed-rank tests, Holm)", fontsize=10
    )
    return figure


def plot_rank_against_parameters(results: pd.DataFrame, *, titles: Mapping[str, str] = TITLES) -> Figure:
    """The mean rank of each family against its median number of trainable parameters over tasks, on a logarithmic axis.

    results: columns task, family, value, direction and parameters. The best corner is the upper left.
    """
    require_columns(results, ("parameters",), "results to be drawn")
    means = mean_ranks(rank_tasks(results))
    sizes = results.groupby("family")["parameters"].median()
    lacking = [family for family in means.index if not sizes[family] > 0]
    if lacking:
        raise StudyError(f"parameters must be positive; they are not for {', '.join(lacking)}")
    figure = Figure(figsize=(7.0, 4.6), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    axes.set_xscale("log")
    for family in means.index:
        axes.scatter(
            sizes[family], means[family], s=90 if family == HIGHLIGHTED else 55, color=_color(family), zorder=3,
            marker="D" if family == HIGHLIGHTED else "o", edgecolors="white", linewidths=0.8,
        )  # fmt: skip
    drawn = sizes[means.index]
    axes.set_xlim(drawn.min() / 1.6, drawn.max() * 1.6)
    axes.margins(y=0.12)
    axes.invert_yaxis()
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:,.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(color="0.9", linewidth=0.8, zorder=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("trainable parameters, median over tasks")
    axes.set_ylabel("mean rank, best on top")
    axes.set_title(f"Mean rank and size on {results['task'].nunique()} tasks", fontsize=11)
    _label_dots(figure, axes, {family: (sizes[family], means[family]) for family in means.index}, titles)
    return figure


def _label_dots(figure: Figure, axes: Axes, dots: Mapping[str, tuple[float, float]], titles: Mapping[str, str]) -> None:
    """Write each family beside its dot, where the text covers neither dots nor earlier texts and stays inside."""
    figure.draw_without_rendering()  # the layout must be settled before texts can be measured
    inside = axes.get_window_extent()
    taken = []
    for dot in dots.values():
        x, y = axes.transData.transform(dot)
        taken.append(Bbox.from_extents(x - 6, y - 6, x + 6, y + 6))
    for family, dot in dots.items():
        best: tuple[float, Annotation, Bbox] | None = None
        for right, up, horizontal, vertical in _PLACES:
            text = axes.annotate(
                titles.get(family, family), dot, xytext=(right, up), textcoords="offset points", ha=horizontal,
                va=vertical, fontsize=10, color=_color(family), zorder=4,
                fontweight="bold" if family == HIGHLIGHTED else "normal",
            )  # fmt: skip
            box = text.get_window_extent()
            text.set_in_layout(False)  # texts are inside, so that measuring them must not move the axes
            outside = float(box.width * box.height) - _overlap(box, inside)
            covered = round(outside + sum(_overlap(box, other) for other in taken), 3)
            if best is None or covered < best[0]:
                if best is not None:
                    best[1].remove()
                best = (covered, text, box)
            else:
                text.remove()
            if best[0] == 0.0:
                break
        assert best is not None
        taken.append(best[2])


def _overlap(first: Bbox, second: Bbox) -> float:
    """The area, in square pixels, that two boxes share."""
    shared = Bbox.intersection(first, second)
    return 0.0 if shared is None else float(shared.width * shared.height)


def _color(family: str) -> str:
    return HIGHLIGHT if family == HIGHLIGHTED else PLAIN
