"""What every family must be able to learn before a comparison with it means anything."""

from collections.abc import Sequence

import torch
from alphabet_core import TrainingStep, fit
from alphabet_core.spectral_control import SEEDS, balanced_accuracy, run_seed
from torch import Tensor

from alphabet_baselines.registry import Candidate, build, candidates, find_family

# The moment-matched spectral control: one width for every family, and what the paper publishes at eps .4.
SPECTRAL_CONTROL_WIDTH = 64
PUBLISHED_SCORES = {"lru": 0.787, "s4d": 0.750}


def spectral_control_scores(
    family: str, *, eps: float = 0.4, seeds: Sequence[int] = SEEDS, epochs: int = 60
) -> list[tuple[float, float]]:
    """Pairs of balanced validation accuracies on the moment-matched control, the model's and Bayes', seed by seed.

    Width 64, the family's first structural choice, recipe B, after the last epoch.
    """
    choice = find_family(family).choices[0]
    return [
        run_seed(
            seed,
            eps,
            lambda: build(family, channels=1, outputs=2, width=SPECTRAL_CONTROL_WIDTH, choice=choice),
            epochs=epochs,
        )
        for seed in seeds
    ]


def six_candidates(family: str) -> list[Candidate]:
    """The six candidates of the sanity check on real data: every width and choice with recipe B."""
    return [candidate for candidate in candidates(family) if candidate.recipe_name == "B"]


def train_and_score(
    candidate: Candidate, train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], *, seed: int = 7, epochs: int = 100
) -> float:
    """The balanced accuracy on `test` of a candidate trained on `train`, both (values (N, T, C), labels (N,))."""
    torch.manual_seed(seed)
    model = candidate.build(channels=train[0].shape[-1], outputs=int(train[1].max()) + 1)
    step = TrainingStep(model, candidate.recipe, microbatch=candidate.microbatch)
    fit(step, *train, epochs=epochs, seed=seed)
    with torch.no_grad():
        return balanced_accuracy(model(test[0]).argmax(dim=1), test[1])
