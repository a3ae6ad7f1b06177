"""How a structural variant is trained on a task: the study's own folds, checkpoint and early stopping, never TEST."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from alphabet_core import RECIPES, VARIANTS, Alphabet, AlphabetConfig, DivergedError
from alphabet_cpu import CpuRuntime, CpuTrainer

from alphabet_study.diagnostics.rows import FitName
from alphabet_study.errors import StudyError
from alphabet_study.protocol.fitting import fit_to_checkpoint
from alphabet_study.protocol.folds import Folds, make_folds
from alphabet_study.protocol.records import Outcome
from alphabet_study.protocol.sealing import load_train
from alphabet_study.protocol.settings import PAPER
from alphabet_study.protocol.trainers import Trainer
from alphabet_study.registry import find_task

WIDTH, MODES = 64, 16
# One bank of twice the modes reads as many coordinates; at this width it has as many parameters, for any task.
ONE_SCAN_WIDTH, ONE_SCAN_MODES = 72, 32
RECIPE = RECIPES["B"]


@dataclass(frozen=True)
class VariantFit(FitName):
    """A variant trained on a task; split_seed draws its validation fold, seed all else."""

    task: str
    variant: str
    seed: int
    split_seed: int
    epochs: int
    patience: int


@dataclass(frozen=True)
class FittedVariant:
    """A model at its checkpoint, with the folds that it was trained and validated on, and how the fit went."""

    model: Alphabet
    folds: Folds
    outcome: Outcome


def plan_fits(
    tasks: Sequence[str], variants: Sequence[str], seeds: Sequence[int], *, epochs: int, patience: int, resplit: bool
) -> list[VariantFit]:
    """The fits of all variants and seeds, task by task; with `resplit` every seed draws its own validation fold."""
    if min(epochs, patience) < 1:
        raise StudyError(f"epochs and patience must be at least 1; got {epochs} and {patience}")
    unfit = [task for task in tasks if find_task(task).objective != "classification"]
    if unfit:
        raise StudyError(f"variants are compared by the classes that they predict; {', '.join(unfit)} has none")
    return [
        VariantFit(task, variant, seed, seed if resplit else PAPER.split_seed, epochs, patience)
        for task in tasks
        for variant in variants
        for seed in seeds
    ]


def fit_variant(fit: VariantFit, root: Path | None) -> FittedVariant:
    """Train a variant on the optimization fold to the checkpoint of the lowest validation loss."""
    task = find_task(fit.task)
    settings = replace(PAPER, epochs=fit.epochs, patience=fit.patience, split_seed=fit.split_seed)
    folds = make_folds(task, load_train(task, root), settings)
    torch.manual_seed(fit.seed)
    model = Alphabet(variant_config(fit.variant, channels=folds.channels, outputs=folds.outputs))
    trainer = make_trainer(model, folds, task.loss)
    try:
        outcome, _ = fit_to_checkpoint(trainer, task, settings, folds, fit.seed)
    except DivergedError as error:
        raise StudyError(f"{fit}: {error}; leave the task out by naming the others") from error
    return FittedVariant(model, folds, outcome)


def variant_config(variant: str, *, channels: int, outputs: int) -> AlphabetConfig:
    """The configuration of a variant at the full model's size: (64, 16), or what gives it as many parameters."""
    if variant not in VARIANTS:
        raise StudyError(f"variant must be one of {', '.join(VARIANTS)}; got {variant!r}")
    sizes = {"width": WIDTH, "modes": MODES}
    if variant == "one-scan":
        sizes = {"width": ONE_SCAN_WIDTH, "modes": ONE_SCAN_MODES}
    if variant == "energy-only":
        sizes["energy_hidden"] = match_hidden(outputs)
    return AlphabetConfig.variant(variant, channels=channels, outputs=outputs, **sizes)


def match_hidden(outputs: int) -> int:
    """The hidden units with which the energy-only head comes closest to the affine head's parameters.

    The affine head has (14 M + 1) K of them, the other (2 M + 1) h + (h + 1) K: 13 units for two classes.
    """
    return max(1, round(14 * MODES * outputs / (2 * MODES + 1 + outputs)))


def make_trainer(model: Alphabet, folds: Folds, loss: str) -> Trainer:
    """A trainer with recipe B on the CPU: fused where the kernels cover the variant, else the reference."""
    step = CpuTrainer(model, RECIPE, loss=loss)
    examples = folds.optimization
    return Trainer(step, CpuRuntime(model), step.path(examples.values, **examples.side_inputs()), "cpu")
