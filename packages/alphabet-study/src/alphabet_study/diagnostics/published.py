"""The paper's numbers for the diagnostics, each under the name that our own carries."""

from typing import NamedTuple


class Effect(NamedTuple):
    """A mean over data sets in points with its 95 % interval; a bound is None where the paper gives none."""

    mean: float
    low: float | None = None
    high: float | None = None


class VariantResult(NamedTuple):
    """One row of the ablation's table: balanced accuracy, seed SD and median parameters, and the full model's lead."""

    accuracy: float
    seed_sd: float
    parameters: int
    lead: Effect | None = None
    wins_ties_losses: tuple[int, int, int] | None = None


# Balanced accuracy on validation by estimator, separation and length.
SPECTRAL_ACCURACY: dict[tuple[str, float, int], float] = {
    ("full", 0.1, 128): 0.567,
    ("full", 0.4, 128): 0.856,
    ("full", 0.8, 128): 0.991,
    ("lru", 0.4, 128): 0.787,
    ("s4d", 0.4, 128): 0.750,
    # "Remains at chance", at every separation.
    **{("autocovariances-4", eps, 128): 0.5 for eps in (0.1, 0.2, 0.4, 0.8)},
}
# The share of Bayes' excess over chance, by estimator, separation and length.
SPECTRAL_EXCESS: dict[tuple[str, float, int], float] = {("full", 0.4, 128): 0.913, ("full", 0.4, 1024): 0.997}

ABLATION: dict[str, VariantResult] = {
    "full": VariantResult(0.863, 0.061, 5698),
    "one-scan": VariantResult(0.830, 0.074, 5698, Effect(3.33, 0.05, 6.62), (10, 3, 4)),
    "no-synthesis": VariantResult(0.847, 0.071, 5570, Effect(1.67, -0.53, 3.88)),
    "fixed-poles": VariantResult(0.847, 0.074, 5634, Effect(1.67, -1.01, 4.36)),
    "energy-only": VariantResult(0.808, 0.085, 5705, Effect(5.48, 0.74, 10.21)),
}

# The audit of learned poles: contrasts in points, and the other figures by name.
POLE_CONTRASTS: dict[str, Effect] = {
    "top 8 removed against random": Effect(26.9, 19.0, 34.7),
    "top 8 removed against bottom": Effect(29.4, 21.2, 37.7),
    "top 8 retained against random": Effect(23.3, 16.6, 30.0),
    "top 8 retained against bottom": Effect(43.7, 33.8, 53.6),
    "cascaded bank removed against random": Effect(13.6, 6.8, 20.4),
    "cascaded bank retained against random": Effect(4.3, -0.04, 8.65),
}
POLE_FIGURES: dict[str, float] = {
    "rank correlation": 0.990,
    "cascaded share of attribution": 0.635,
    "cascaded share of top 8": 0.644,
    "checkpoints with a cascaded pole in top 8": 84 / 85,
    "largest error of a margin": 8.6e-6,
}

# ALPHABET's across-task mean minus the best family's, in points.
CORRUPTION_GAPS: dict[str, float] = {
    "noise 0.1": -1.6,
    "noise 0.2": -4.3,
    "amplitude x0.5": 10.2,
    "amplitude x1.5": 9.4,
    "half rate": 1.3,
}
# ALPHABET minus each task's best family.
CORRUPTION_PAIRED: dict[str, Effect] = {
    "noise 0.1": Effect(-7.2, -13.6, -0.8),
    "noise 0.2": Effect(-10.4, -17.8, -3.0),
}
