"""Eighteen noisy sines of three frequencies, with labels and times, as users pass them."""

import numpy as np
from numpy.typing import NDArray


def waves(
    count: int = 18, length: int = 12, channels: int = 2, classes: int = 3, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Noisy sines (n, channels, time), and which of as many frequencies each has."""
    draw = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    phase = draw.uniform(0, 2 * np.pi, (count, channels, 1))
    angle = (0.4 + 0.6 * labels[:, None, None]) * np.arange(length)
    return np.sin(angle + phase) + 0.1 * draw.normal(size=(count, channels, length)), labels


X, Y = waves()
NAMES = np.array(["low", "middle", "high"])[Y]
FLAT = X[:, 0]  # a matrix (n, time)
TIMES = np.cumsum(np.random.default_rng(1).uniform(0.5, 2.0, (18, 12)), axis=1)

DATES = np.datetime64("2026-01-01") + np.arange(12) * np.timedelta64(1, "h")
