"""Small models of the nine families for tests: every choice and algorithm, in float64."""

import torch
from alphabet_baselines import FAMILIES, build
from torch import nn

CHANNELS, OUTPUTS, WIDTH = 2, 3, 5
CASES = [(family, choice) for family, entry in FAMILIES.items() for choice in entry.choices]
# The plain definition that a family's other algorithms are held to.
DEFINITIONS = {
    "cnn1d": "gemm",
    "tcn": "gemm",
    "transformer": "softmax",
    **dict.fromkeys(("mamba", "s4d", "s5", "lru", "gru", "lstm"), "sequential"),
}


def algorithms_here(family: str) -> list[str]:
    """Every algorithm of a family that runs without CUDA."""
    return [name for name in FAMILIES[family].algorithms if name != "official"]


def make_model(family: str, choice: tuple[int, ...] | None = None, *, seed: int = 0, **options: object) -> nn.Module:
    """A small model of a family in float64; the seed alone decides its weights, whatever the algorithm."""
    torch.manual_seed(seed)
    sizes = {"channels": CHANNELS, "outputs": OUTPUTS, "width": WIDTH} | options
    return build(family, choice=choice or FAMILIES[family].choices[0], **sizes).double()


def draw(batch: int = 3, length: int = 21, channels: int = CHANNELS, seed: int = 1) -> torch.Tensor:
    """Values (batch, length, channels) in float64, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, length, channels, dtype=torch.float64, generator=generator)
