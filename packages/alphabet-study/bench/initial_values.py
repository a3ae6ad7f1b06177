"""How initial values compare on validation folds, never on TEST: the evidence of docs/initial-values.md, again.

    python packages/alphabet-study/bench/initial_values.py OUT.csv --data ROOT --start torch --start adapted --seed 7

One line per task, start and seed at (64, 16), recipe B, the protocol's own folds and early stopping. Lines that OUT.csv
has already are not computed again, so a run can be interrupted and goes on. `--table` shows what OUT.csv has.
"""

import argparse
import csv
import math
import statistics
from collections.abc import Callable
from pathlib import Path

import torch
from alphabet_core import RECIPES, Alphabet, AlphabetConfig, Examples, adapt, fit_validated, predict_examples
from alphabet_cpu import CpuRuntime, CpuTrainer
from alphabet_study.campaign.choices import is_available
from alphabet_study.data_root import find_root
from alphabet_study.protocol.fitting import one_thread
from alphabet_study.protocol.folds import Folds, make_folds
from alphabet_study.protocol.metrics import measure
from alphabet_study.protocol.sealing import load_train
from alphabet_study.protocol.settings import PAPER
from alphabet_study.registry import TASKS
from alphabet_study.registry.task import Task
from torch import Tensor

Start = Callable[[Alphabet, Examples, int], None]
# ruff: noqa: ARG001  every start has the same arguments
CENTRE = torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0])
HEADER = ("task", "start", "seed", "balanced_accuracy", "validation_loss", "best_epoch", "epochs")


def draw_lifts(
    model: Alphabet, *, centre: float, kernel: float, bias: float, bias_spread: float, project: float
) -> None:
    """Draw W_X with deviation project / sqrt(C), kernels about centre times the identity, biases about `bias`."""
    model.project.weight.normal_(0.0, project * model.config.channels**-0.5)
    for bank in model.banks():
        bank.lift.kernel.normal_(0.0, kernel).add_(centre * CENTRE)
        bank.lift.bias.normal_(bias, bias_spread)


def spread_poles(model: Alphabet, length: int) -> None:
    """Decays and frequencies logarithmic from 1 / length up, paired at random."""
    modes = model.config.modes
    for bank in model.banks():
        decay = torch.exp(torch.linspace(math.log(max(1 / length, 1.1e-3)), math.log(1.5), modes))
        share = (decay - 1e-3) / (2.0 - 1e-3)
        turn = torch.exp(torch.linspace(math.log(1 / length), math.log(0.95), modes))[torch.randperm(modes)]
        bank.poles.raw_decay.copy_(share.logit())
        bank.poles.raw_frequency.copy_(turn.atanh())


def start_former(model: Alphabet, examples: Examples, seed: int) -> None:
    """The values until November 2026: near the identity with positive biases."""
    draw_lifts(model, centre=1.0, kernel=0.1, bias=1.0, bias_spread=0.5, project=0.6)


def start_torch(model: Alphabet, examples: Examples, seed: int) -> None:
    """What torch would draw for a linear layer and a depthwise convolution, as normal numbers."""
    draw_lifts(model, centre=0.0, kernel=0.26, bias=0.0, bias_spread=0.26, project=0.58)


def start_torch_with_centre(model: Alphabet, examples: Examples, seed: int) -> None:
    """The same with a third of the identity."""
    draw_lifts(model, centre=0.3, kernel=0.26, bias=0.0, bias_spread=0.26, project=0.58)


def start_torch_with_spread_poles(model: Alphabet, examples: Examples, seed: int) -> None:
    """Torch's values, and poles from the length of the data."""
    start_torch(model, examples, seed)
    spread_poles(model, examples.values.shape[1])


def start_adapted(model: Alphabet, examples: Examples, seed: int) -> None:
    """Lifts started on eight training series by `alphabet_core.adapt`."""
    adapt(model, examples.values, seed=seed, **examples.side_inputs())


def keep_default(model: Alphabet, examples: Examples, seed: int) -> None:
    """What the package draws."""


STARTS: dict[str, Start] = {
    "default": keep_default,
    "former": start_former,
    "torch": start_torch,
    "torch-centre": start_torch_with_centre,
    "torch-poles": start_torch_with_spread_poles,
    "adapted": start_adapted,
}


def compare(task: Task, folds: Folds, start: str, seed: int) -> tuple[float, float, int, int]:
    """Validation score and loss at the checkpoint, its epoch, and the number of epochs."""
    assert folds.validation is not None
    torch.manual_seed(seed)
    model = Alphabet(AlphabetConfig(channels=folds.channels, width=64, modes=16, outputs=folds.outputs))
    with torch.no_grad():
        STARTS[start](model, folds.optimization, seed)
    runtime: Callable[..., Tensor] = CpuRuntime(model)
    trainer = CpuTrainer(model, RECIPES["B"], loss=task.loss)
    fitted = fit_validated(
        trainer, folds.optimization, folds.validation, epochs=PAPER.epochs, patience=PAPER.patience, seed=seed,
        predict=runtime,
    )  # fmt: skip
    score = measure(task.selection_metric, predict_examples(runtime, folds.validation), folds.validation.targets)
    return score, fitted.validation_loss, fitted.best_epoch, fitted.epochs


def tabulate(rows: list[dict[str, str]]) -> str:
    """A Markdown table of the starts, paired by task and seed with the first; only of what every start has."""
    found = {(row["start"], row["task"], row["seed"]): row for row in rows}
    starts = list(dict.fromkeys(row["start"] for row in rows))
    pairs = [pair for pair in dict.fromkeys((row["task"], row["seed"]) for row in rows)
             if all((start, *pair) in found for start in starts)]  # fmt: skip
    lines = [
        f"| start, {len(pairs)} fits each | accuracy | difference | loss | difference | better : worse |",
        "|---|---|---|---|---|---|",
    ]
    columns = ("balanced_accuracy", "validation_loss")
    first = {name: [float(found[(starts[0], *pair)][name]) for pair in pairs] for name in columns}
    for start in starts:
        cells, losses = [start], []
        for name in columns:
            values = [float(found[(start, *pair)][name]) for pair in pairs]
            losses = [value - other for value, other in zip(values, first[name], strict=True)]
            cells += [f"{statistics.mean(values):.3f}", f"{statistics.mean(losses):+.3f}" if start != starts[0] else ""]
        better, worse = sum(loss < 0 for loss in losses), sum(loss > 0 for loss in losses)
        cells.append(f"{better} : {worse}" if start != starts[0] else "")
        lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("  ", " "))
    return "\n".join(lines)


def main() -> None:
    """Append the missing lines to OUT.csv, smallest tasks first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--task", action="append", help="by default every UCR and UEA task that is there")
    parser.add_argument("--start", action="append", choices=list(STARTS))
    parser.add_argument("--seed", action="append", type=int)
    parser.add_argument("--table", action="store_true", help="show what OUT has, and compute nothing")
    options = parser.parse_args()
    if options.table:
        with options.out.open(newline="") as file:
            print(tabulate(list(csv.DictReader(file))))
        return
    root = find_root(options.data)
    tasks = [task for task in TASKS.values() if task.reader == "ucr" and is_available(task, root)]
    if options.task:
        tasks = [task for task in tasks if task.name in options.task]
    tasks.sort(key=lambda task: (task.train_size or 0) * (task.length or 0))
    done = set()
    if options.out.exists():
        with options.out.open(newline="") as file:
            done = {(row["task"], row["start"], int(row["seed"])) for row in csv.DictReader(file)}
    with options.out.open("a", newline="") as file, one_thread():
        rows = csv.writer(file)
        if not done:
            rows.writerow(HEADER)
        for task in tasks:
            folds = make_folds(task, load_train(task, root), PAPER)
            for seed in options.seed or [7]:
                for start in options.start or list(STARTS):
                    if (task.name, start, seed) in done:
                        continue
                    score, loss, best, epochs = compare(task, folds, start, seed)
                    rows.writerow((task.name, start, seed, f"{score:.6f}", f"{loss:.6f}", best, epochs))
                    file.flush()
                    print(f"{task.name:28} {start:13} seed {seed:2d}: {score:.3f}, loss {loss:.3f}", flush=True)


if __name__ == "__main__":
    main()
