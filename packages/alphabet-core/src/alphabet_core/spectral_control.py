"""The moment-matched spectral control: two classes whose autocovariances agree up to lag 4 and differ at lag 5.

Run it with `python -m alphabet_core.spectral_control --eps 0.4`: five seeds of the paper's protocol, a minute each on
one core. Class 0 is white Gaussian noise, class 1 is X_t = a Z_t + b Z_{t-5} with a^2 + b^2 = 1 and 2ab = eps.
"""

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from alphabet_core.config import VARIANTS, AlphabetConfig
from alphabet_core.model import Alphabet
from alphabet_core.training import RECIPES, Recipe, TrainingStep, fit

SEEDS = (23, 31, 43, 47, 59)
PUBLISHED = {0.4: 0.856}
LAG = 5


def draw_paths(count: int, length: int, eps: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The paths (count, length, 1) of alternating class, and their labels (count,)."""
    total, difference = math.sqrt(1.0 + eps), math.sqrt(1.0 - eps)
    a, b = (total + difference) / 2.0, (total - difference) / 2.0
    noise = torch.randn(count, length + LAG, generator=generator)
    labels = torch.arange(count) % 2
    white, colored = noise[:, LAG:], a * noise[:, LAG:] + b * noise[:, :-LAG]
    return torch.where(labels.unsqueeze(1) == 1, colored, white).unsqueeze(-1), labels


def bayes_decision(paths: Tensor, eps: float) -> Tensor:
    """The exact Gaussian likelihood-ratio decision (count,): no classifier does better on average."""
    x = paths.squeeze(-1).double()
    length = x.shape[1]
    index = torch.arange(length)
    covariance = torch.eye(length, dtype=torch.float64)
    covariance[(index[:, None] - index[None, :]).abs() == LAG] = eps / 2.0
    factor = torch.linalg.cholesky(covariance)
    whitened = torch.linalg.solve_triangular(factor, x.T, upper=False)
    ratio = 0.5 * (x.square().sum(dim=1) - whitened.square().sum(dim=0)) - factor.diagonal().log().sum()
    decision: Tensor = ratio > 0
    return decision.long()


def balanced_accuracy(predicted: Tensor, labels: Tensor) -> float:
    """The share of each class that was recognized, averaged over the classes of `labels`."""
    return statistics.fmean(float((predicted[labels == k] == k).float().mean()) for k in labels.unique())


def run_seed(
    seed: int,
    eps: float,
    make_model: Callable[[], nn.Module],
    *,
    recipe: Recipe = RECIPES["B"],
    length: int = 128,
    epochs: int = 60,
) -> tuple[float, float]:
    """The balanced validation accuracies of a freshly trained model and of the Bayes decision, for one seed."""
    generator = torch.Generator().manual_seed(seed)
    train, train_labels = draw_paths(512, length, eps, generator)
    validation, labels = draw_paths(256, length, eps, generator)
    torch.manual_seed(seed)
    model = make_model()
    step = TrainingStep(model, recipe)
    fit(step, train, train_labels, epochs=epochs, seed=seed, on_epoch=_progress(seed, epochs))
    with torch.no_grad():
        predicted = model(validation).argmax(dim=1)
    return balanced_accuracy(predicted, labels), balanced_accuracy(bayes_decision(validation, eps), labels)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line: one line per seed, then the mean beside the published value, optionally as JSON."""
    parser = argparse.ArgumentParser(prog="python -m alphabet_core.spectral_control", description=__doc__)
    parser.add_argument("--eps", type=float, default=0.4, help="spectral separation, 0 < eps < 1")
    parser.add_argument("--length", type=int, default=128, help="tokens per path")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--variant", choices=list(VARIANTS), default="full")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--json", type=Path, help="write the result here as well")
    options = parser.parse_args(arguments)
    if not 0.0 < options.eps < 1.0:
        parser.error(f"--eps must lie strictly between 0 and 1; got {options.eps}")

    # One thread: sums are then rounded alike on any number of cores, and arrays this small gain nothing from more.
    torch.set_num_threads(1)
    print(f"moment-matched control, eps {options.eps}, T {options.length}, {options.epochs} epochs, {options.variant}")
    config = AlphabetConfig.variant(options.variant, channels=1, width=64, modes=16, outputs=2)
    scores, ceilings = [], []
    for seed in options.seeds:
        started = time.monotonic()
        score, ceiling = run_seed(
            seed, options.eps, lambda: Alphabet(config), length=options.length, epochs=options.epochs
        )
        scores.append(score)
        ceilings.append(ceiling)
        seconds = time.monotonic() - started
        print(f"seed {seed:3d}: balanced accuracy {score:.3f}, Bayes {ceiling:.3f} ({seconds:.0f} s)", flush=True)
    mean, ceiling = statistics.fmean(scores), statistics.fmean(ceilings)
    spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
    share = (mean - 0.5) / (ceiling - 0.5)
    print(f"mean {mean:.3f} (SD {spread:.3f}); Bayes {ceiling:.3f}; {share:.1%} of Bayes' excess over chance")
    published = PUBLISHED.get(options.eps) if options.variant == "full" and options.length == 128 else None
    if published is not None:
        print(f"published {published:.3f}; difference {mean - published:+.3f}")
    if options.json is not None:
        result = {"eps": options.eps, "length": options.length, "epochs": options.epochs, "variant": options.variant}
        result |= {"seeds": options.seeds, "scores": scores, "bayes": ceilings, "mean": mean}
        options.json.write_text(json.dumps(result, indent=2) + "\n")


def _progress(seed: int, epochs: int) -> Callable[[int, float], None] | None:
    if not sys.stderr.isatty():
        return None
    return lambda epoch, loss: print(
        f"\rseed {seed:3d}: epoch {epoch + 1}/{epochs}, loss {loss:.3f}", end="\n" if epoch + 1 == epochs else "",
        file=sys.stderr, flush=True,
    )  # fmt: skip


if __name__ == "__main__":
    main()
