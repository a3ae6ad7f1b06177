"""What a launch may choose where PTX leaves several results open."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mode:
    """The order in which programs, warps and threads run; see `orders`."""

    order: str | int = "ascending"


USUAL = Mode()
