"""The realizable model nearest to a parameter count; `python -m alphabet_baselines match` prints the audit's table."""

from dataclasses import dataclass

import torch
from alphabet_core import AlphabetError

from alphabet_baselines.registry import FAMILIES, Choice, build, find_family

# The systems audit's designs: ALPHABET of width D with D / 4 modes, two channels, five outputs.
DESIGN_WIDTHS = (16, 32, 64, 128)
DESIGN_CHANNELS, DESIGN_OUTPUTS = 2, 5
WIDTH_LIMIT = 1 << 16


@dataclass(frozen=True)
class Match:
    """One realizable model and how far its trainable parameters are from the target."""

    family: str
    target: int
    choice: Choice
    width: int
    parameters: int

    @property
    def gap(self) -> float:
        """The relative difference from the target, with its sign: +0.01 is one per cent too many parameters."""
        return self.parameters / self.target - 1.0


def count_parameters(family: str, *, channels: int, outputs: int, width: int, choice: Choice) -> int:
    """The number of trainable parameters, counted on the model itself, which is built without memory."""
    with torch.device("meta"):
        model = build(family, channels=channels, outputs=outputs, width=width, choice=choice)
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def match_parameters(family: str, target: int, *, channels: int, outputs: int) -> Match:
    """The nearest model over both structural choices and all integer widths; the smaller one of two equally near."""
    return find_neighbours(family, target, channels=channels, outputs=outputs)[0]


def find_neighbours(family: str, target: int, *, channels: int, outputs: int) -> list[Match]:
    """The models on either side of the target, two for each structural choice, nearest first."""
    entry = find_family(family)
    if isinstance(target, bool) or not isinstance(target, int) or target < 1:
        raise AlphabetError(f"target must be a positive number of parameters; got {target!r}")

    def realize(choice: Choice, width: int) -> Match:
        count = count_parameters(family, channels=channels, outputs=outputs, width=width, choice=choice)
        return Match(family, target, choice, width, count)

    found = set()
    for choice in entry.choices:
        # Counts grow with the width, so the two models on either side of the target are found by bisection.
        low, high = 0, 1
        while realize(choice, high).parameters < target:
            low, high = high, 2 * high
            if high > WIDTH_LIMIT:
                raise AlphabetError(
                    f"target={target} would need {family} wider than {WIDTH_LIMIT}; ask for fewer parameters"
                )
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if realize(choice, middle).parameters < target else (low, middle)
        found |= {realize(choice, width) for width in (low, high) if width}
    return sorted(found, key=lambda match: (abs(match.gap), match.parameters, match.choice, match.width))


def design_target(width: int) -> int:
    """ALPHABET's own parameter count at a design of the audit."""
    return count_parameters(
        "alphabet", channels=DESIGN_CHANNELS, outputs=DESIGN_OUTPUTS, width=width, choice=(width // 4,)
    )


def format_table() -> str:
    """The Markdown table of what matches each design in each family, and of the models next to it."""
    targets = {width: design_target(width) for width in DESIGN_WIDTHS}
    heading = " | ".join(f"D = {width}: {target:,}" for width, target in targets.items())
    chosen = [f"| family (choice) | {heading} |", "|---" * (1 + len(targets)) + "|"]
    nearby = [f"| family | {heading} |", "|---" * (1 + len(targets)) + "|"]
    for name, family in FAMILIES.items():
        best, others = [], []
        for target in targets.values():
            first, *rest = find_neighbours(name, target, channels=DESIGN_CHANNELS, outputs=DESIGN_OUTPUTS)
            best.append(f"{_describe(first)}: {first.parameters:,}, {first.gap:+.2%}")
            others.append("; ".join(f"{_describe(match)} {match.gap:+.1%}" for match in rest))
        chosen.append(f"| {family.title} ({', '.join(family.axes)}) | {' | '.join(best)} |")
        nearby.append(f"| {family.title} | {' | '.join(others)} |")
    return "\n".join([*chosen, "", "The models next to them, which are further away:", "", *nearby]) + "\n"


def _describe(match: Match) -> str:
    return f"({', '.join(map(str, match.choice))}) w{match.width}"
