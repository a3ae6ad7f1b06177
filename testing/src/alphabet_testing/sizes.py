"""Sizes that the tests run at."""

import pytest
from alphabet_audit import read_declarations
from alphabet_audit.declare.designs import MATCHED

# Channels, width, modes and outputs of models: the audit's own, the smallest, and some that fill no whole vector.
SIZES = [(2, 64, 16, 5), (1, 16, 4, 3), (3, 24, 7, 2), (2, 128, 32, 5), (1, 40, 20, 2)]
# (batch, length, width) of the audit's nine shapes, with width / 4 modes, two channels and five outputs.
DESIGNS = [
    (design.shape.batch, design.shape.length, design.shape.width)
    for design in read_declarations().designs.select(MATCHED)
]
# The same as parameters of tests; the reference takes seconds for the most tokens.
DESIGN_CASES = [
    pytest.param(*design, marks=[pytest.mark.slow] if design[0] * design[1] > 2**15 else []) for design in DESIGNS
]
