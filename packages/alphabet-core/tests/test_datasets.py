"""Learning on real data: the two UCR sets bundled with aeon, fixed configuration, recipe B, three seeds."""

import statistics

import pytest
import torch
from aeon.datasets import load_gunpoint, load_italy_power_demand
from alphabet_core import RECIPES, Alphabet, AlphabetConfig, TrainingStep, attribute, fit, mean_descriptor
from alphabet_core.spectral_control import balanced_accuracy
from alphabet_testing.datasets import read_dataset

CASES = [("GunPoint", load_gunpoint, 0.97), ("ItalyPowerDemand", load_italy_power_demand, 0.94)]
# Another processor rounds sums differently, and training then ends elsewhere: single scores on GunPoint have a standard
# deviation of .011 around .979, so means of three have been .969 to .978. Where three seeds fall short, five more
# decide; the mean of eight misses .97 by chance on one processor in a hundred.
SEEDS, MORE_SEEDS = (7, 11, 19), (23, 31, 43, 47, 59)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(("name", "loader", "least"), CASES)
def test_mean_balanced_test_accuracy_over_seeds(name, loader, least):
    (train, train_labels), (test, test_labels) = read_dataset(loader)
    scores = []
    for seed in (*SEEDS, *MORE_SEEDS):
        if len(scores) == len(SEEDS) and statistics.fmean(scores) >= least:
            break
        torch.manual_seed(seed)
        model = Alphabet(AlphabetConfig(channels=1, width=64, modes=16, outputs=len(train_labels.unique())))
        fit(TrainingStep(model, RECIPES["B"]), train, train_labels, epochs=100, seed=seed)
        with torch.no_grad():
            logits = model(test)
        scores.append(balanced_accuracy(logits.argmax(dim=1), test_labels))
        split = attribute(model, model.describe(test).detach(), mean_descriptor(model, train))
        top = logits.topk(2, dim=1).values
        assert (
            float((split.baseline + split.contributions.sum(dim=(1, 2)) - top[:, 0] + top[:, 1]).abs().max()) <= 8.6e-6
        )
    print(f"{name}: {[round(score, 3) for score in scores]}, mean {statistics.fmean(scores):.3f}")
    assert statistics.fmean(scores) >= least
