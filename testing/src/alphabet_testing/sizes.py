"""Sizes that the tests run at."""

# Channels, width, modes, outputs.
SIZES = [(2, 64, 16, 5), (1, 16, 4, 3), (3, 24, 7, 2), (2, 128, 32, 5), (1, 40, 20, 2)]
# (B, T, D) of the systems audit, with D / 4 modes, two channels and five outputs.
DESIGNS = [
    *((batch, 512, 64) for batch in (1, 8, 32, 64)),
    *((32, length, 64) for length in (128, 2048)),
    *((32, 512, width) for width in (16, 32, 128)),
]
