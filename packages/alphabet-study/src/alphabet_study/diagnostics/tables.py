"""Frames as tables for a terminal: the paper's numbers beside ours."""

import math
from collections.abc import Iterable, Sequence

from rich.table import Table

from alphabet_study.diagnostics.published import Effect

NOTHING_PUBLISHED = "-"


def make_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> Table:
    """A table whose first column is text and whose others are numbers."""
    table = Table(
        title=title, caption=caption, title_justify="left", caption_justify="left", caption_style="", box=None,
        pad_edge=False,
    )  # fmt: skip
    for position, name in enumerate(columns):
        table.add_column(name, justify="right" if position else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def share(value: float | None) -> str:
    """A share between 0 and 1 with three digits, as the paper prints it: .863."""
    if value is None or math.isnan(value):
        return NOTHING_PUBLISHED
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 0.9995 else f"{value:.3f}"


def points(value: float | None, *, digits: int = 1) -> str:
    """A difference in percentage points, with its sign."""
    return NOTHING_PUBLISHED if value is None or math.isnan(value) else f"{value:+.{digits}f}"


def effect(mean: float | None, low: float | None = None, high: float | None = None, *, digits: int = 1) -> str:
    """A mean difference in points with its interval in brackets, where there is one."""
    text = points(mean, digits=digits)
    if low is None or high is None or math.isnan(low):
        return text
    return f"{text} [{low:+.{digits}f}, {high:+.{digits}f}]"


def published_effect(found: Effect | None) -> str:
    """The paper's mean difference with its interval, with the digits that it prints, or a dash."""
    if found is None:
        return NOTHING_PUBLISHED
    digits = 1 if all(round(value, 1) == value for value in found if value is not None) else 2
    return effect(*found, digits=digits)
