"""The report's pictures as inline SVG, and the colours of its heat map, drawn without a library or a network."""

import math

from markupsafe import Markup, escape

from alphabet_audit.evidence.canonical import Record

WIDTH, HEIGHT, EDGE, GUTTER = 208, 92, 8, 54  # the gutter, on the right, is for the axis
INK = {"A": "#0b6e8f", "B": "#c2571a"}
# A dot and a ring: colours are not seen by everyone, nor on every paper.
MARKS = {"A": f'r="2.2" fill="{INK["A"]}"', "B": f'r="1.8" fill="none" stroke="{INK["B"]}" stroke-width="1.1"'}
# Ratios beyond these two-sided limits have the full colour.
SATURATION = math.log(16.0)
FAVOUR, AGAINST = (11, 110, 143), (194, 87, 26)


def shade(ratio: float) -> str:
    """The colour of a ratio: blue above one, orange below, white at one; equal factors are equally strong."""
    strength = max(-1.0, min(1.0, math.log(ratio) / SATURATION))
    full = FAVOUR if strength > 0 else AGAINST
    mixed = (round(255 + (channel - 255) * 0.55 * abs(strength)) for channel in full)
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def three_digits(value: float) -> str:
    """A number with three digits, or with all that stand before its point; no exponent where it can be helped."""
    return f"{value:.0f}" if 100 <= value < 1e7 else f"{value:.3g}"


def draw_samples(groups: list[Record], caption: str) -> Markup:
    """An SVG of a row's blocks in order: milliseconds per call of ALPHABET and of the family, on a logarithmic axis."""
    points = [
        (4 * group["number"] + place, arm, 1e3 * seconds / group["repeats"][arm])
        for group in groups
        for place, (arm, seconds) in enumerate(zip(group["order"], group["seconds"], strict=True))
    ]
    low, high = min(value for *_, value in points), max(value for *_, value in points)
    # At least a tenth up and down, so that a quiet row does not look like a noisy one.
    bottom, top = math.log(low / 1.1), math.log(high * 1.1)
    last = max(position for position, *_ in points) or 1

    def place_x(position: float) -> float:
        return EDGE + (WIDTH - EDGE - GUTTER) * position / last

    def place_y(value: float) -> float:
        return HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * (math.log(value) - bottom) / (top - bottom)

    dots = "".join(
        f'<circle cx="{place_x(position):.1f}" cy="{place_y(value):.1f}" {MARKS[arm]}/>'
        for position, arm, value in points
    )
    lines = "".join(
        f'<line x1="{place_x(4 * number - 0.5):.1f}" x2="{place_x(4 * number - 0.5):.1f}" y1="{EDGE}" '
        f'y2="{HEIGHT - EDGE}" stroke="#ddd" stroke-width="1"/>'
        for number in range(1, len(groups))
    )
    labels = "".join(
        f'<text x="{WIDTH - 2}" y="{place_y(value) + 3:.1f}" font-size="9" text-anchor="end">'
        f"{three_digits(value)} ms</text>"
        for value in (high, low)
    )
    title = escape(caption)
    return Markup(
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}"><title>{title}</title>'
        f"{lines}{dots}{labels}</svg>"
    )


def draw_intervals(rows: list[Record]) -> Markup:
    """An SVG of every null row's interval on a logarithmic axis: ratios that the protocol cannot tell from one."""
    widest = max((abs(math.log(bound)) for row in rows for bound in row["interval"]), default=0.0)
    reach = max(1.1 * widest, math.log(1.02))
    height, width, left = 16 * len(rows) + 30, 720, 250

    def place(ratio: float) -> float:
        return left + (width - left - 30) * (math.log(ratio) + reach) / (2.0 * reach)

    parts = [
        f'<line x1="{place(1.0):.1f}" x2="{place(1.0):.1f}" y1="0" y2="{height - 22}" stroke="#999" stroke-width="1"/>'
    ]
    for number, row in enumerate(rows):
        y = 16 * number + 10
        low, high = row["interval"]
        color = INK["A"] if low <= 1.0 <= high else INK["B"]
        parts.append(
            f'<text x="{left - 8}" y="{y + 4}" font-size="11" text-anchor="end" fill="#333">'
            f"{escape(row['design'])}, {escape(row['phase'])}</text>"
            f'<line x1="{place(low):.1f}" x2="{place(high):.1f}" y1="{y}" y2="{y}" stroke="{color}" stroke-width="3"/>'
            f'<circle cx="{place(row["ratio"]):.1f}" cy="{y}" r="3.5" fill="{color}"/>'
        )
    parts += [
        f'<text x="{place(mark):.1f}" y="{height - 8}" font-size="11" text-anchor="middle">{mark:.2f}</text>'
        for mark in (math.exp(-reach), 1.0, math.exp(reach))
    ]
    whole = f'<svg viewBox="0 0 {width} {height}" class="wide" role="img" aria-label="noise">{"".join(parts)}</svg>'
    return Markup(whole)
