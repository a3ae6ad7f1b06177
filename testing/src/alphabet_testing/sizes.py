"""Sizes that the tests run at."""

from alphabet_audit import read_declarations
from alphabet_audit.designs import MATCHED

# Channels, width, modes, outputs.
SIZES = [(2, 64, 16, 5), (1, 16, 4, 3), (3, 24, 7, 2), (2, 128, 32, 5), (1, 40, 20, 2)]
# (B, T, D) of the systems audit's nine shapes, with D / 4 modes, two channels and five outputs.
DESIGNS = [
    (design.shape.batch, design.shape.length, design.shape.width)
    for design in read_declarations().designs.select(MATCHED)
]
