"""Pictures of what a model looks at; needs matplotlib: pip install 'alphabet-core[plots]'."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from alphabet_core.attribution import Attribution
from alphabet_core.errors import AlphabetError
from alphabet_core.model import Alphabet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BANK_NAMES = ("direct", "cascaded")
BANK_COLORS = ("#1f6f8b", "#d1603d")
_LARGEST_DOT = 420.0


def plot_poles(model: Alphabet, attribution: Attribution | None = None, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the poles in the complex plane and return the axes; with an attribution, areas are mean |contribution|."""
    axes = _axes(ax)
    size: Tensor | None = None
    if attribution is not None:
        weight = attribution.contributions.abs().mean(dim=0).float()
        size = weight / weight.max().clamp(min=torch.finfo(weight.dtype).tiny)
    for index, bank in enumerate(model.banks()):
        poles = bank.poles.values().detach().cpu()
        area = 60.0 if size is None else (size[index] * _LARGEST_DOT + 6.0).cpu().numpy()
        axes.scatter(
            poles.real, poles.imag, s=area, color=BANK_COLORS[index], alpha=0.65, linewidths=0.8, edgecolors="white",
            label=BANK_NAMES[index],
        )  # fmt: skip
    axes.axhline(0.0, color="0.8", linewidth=0.8, zorder=0)
    axes.axvline(0.0, color="0.3", linewidth=0.8, zorder=0)
    axes.set_xlabel("decay rate, −α (per unit time)")
    axes.set_ylabel("angular frequency ω (rad per unit time)")
    axes.set_title("Poles" if size is None else "Poles, area by mean |contribution|")
    legend = axes.legend(frameon=False, loc="best")
    for handle in legend.legend_handles:
        if handle is not None and hasattr(handle, "set_sizes"):
            handle.set_sizes([60.0])
    return axes


def plot_prediction(
    attribution: Attribution,
    index: int = 0,
    *,
    top: int = 8,
    classes: list[str] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw one prediction's margin as bars and return the axes: baseline, strongest poles, all others, and the sum."""
    axes = _axes(ax)
    contributions = attribution.contributions[index].cpu()
    modes = contributions.shape[1]
    order = contributions.flatten().abs().argsort(descending=True, stable=True)
    shown, rest = order[:top], order[top:]
    labels = ["baseline", *(f"{BANK_NAMES[int(i) // modes]} {int(i) % modes}" for i in shown)]
    lengths = [float(attribution.baseline[index]), *(float(contributions.flatten()[i]) for i in shown)]
    colors = ["0.6", *(BANK_COLORS[int(i) // modes] for i in shown)]
    if len(rest) > 0:
        labels.append(f"{len(rest)} other poles")
        lengths.append(float(contributions.flatten()[rest].sum()))
        colors.append("0.75")
    labels.append("margin")
    lengths.append(float(attribution.margin[index]))
    colors.append("black")

    rows = list(range(len(labels)))
    axes.barh(rows, lengths, color=colors)
    span = max(abs(length) for length in lengths) or 1.0
    for row, length in zip(rows, lengths, strict=True):
        axes.annotate(
            f"{length:+.3f}", (length, row), xytext=(4 if length >= 0 else -4, 0), textcoords="offset points",
            va="center", ha="left" if length >= 0 else "right", fontsize="small",
        )  # fmt: skip
    axes.set_xlim(min(0.0, *lengths) - 0.25 * span, max(0.0, *lengths) + 0.25 * span)
    axes.set_yticks(rows, labels)
    axes.invert_yaxis()
    axes.axvline(0.0, color="0.3", linewidth=0.8)
    axes.set_xlabel("contribution to the margin")
    axes.set_title(_title(attribution, index, classes))
    return axes


def _title(attribution: Attribution, index: int, classes: list[str] | None) -> str:
    def name(label: Tensor) -> str:
        return classes[int(label)] if classes is not None else f"class {int(label)}"

    if attribution.runner_up is None:
        return "Output by pole"
    return f"{name(attribution.winner[index])} over {name(attribution.runner_up[index])}"


def _axes(ax: "Axes | None") -> "Axes":
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as missing:
        raise AlphabetError("plots need matplotlib: pip install 'alphabet-core[plots]'") from missing
    axes: Axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")[1]
    return axes
