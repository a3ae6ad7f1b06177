"""The fits of one call of the trained method: validation folds, the nominal budget, progress, and interrupts."""

import math
from contextlib import nullcontext

import numpy as np
from alphabet_core import DivergedError

from alphabet_learn.problem import Problem
from alphabet_learn.progress import Progress
from alphabet_learn.trained_fitting import Flags, Member, Plan, fit_member, one_thread

FEWEST_TO_SPLIT = 5  # of fewer series none is set aside for validation
UNVALIDATED_EPOCHS = 50  # how long a model is then trained
FEWEST_EPOCHS = 10  # a size that the budget allows less is left out
# Nominal speed, measured on two cores with AVX2: the time of a training step, of a token in it, and of each of the
# products that a token takes; and how much longer a token takes by the reference, which runs irregular times.
SECONDS_PER_STEP = 4e-3
SECONDS_PER_TOKEN = 2.5e-7
SECONDS_PER_PRODUCT = 6e-11
REFERENCE_FACTOR = 70.0
THREADS_FROM_SECONDS = 0.02  # a step shorter than this runs on one thread


class Session:
    """Fits one model after the other: `session.fit(size, held_out, seed=...)`, which shows its progress in one line.

    The budget is nominal seconds, or None. It is shared by the planned number of fits, and what one leaves, the next
    may use. After an interrupt, `interrupted` is True and no further model is fitted.
    """

    def __init__(self, plan: Plan, *, epochs: int, budget: float | None, fits: int, verbose: bool) -> None:
        self.interrupted = False
        self._plan = plan
        self._epochs = epochs
        self._seconds_left = math.inf if budget is None else budget
        self._fits, self._fits_left = fits, fits
        self._progress = Progress(verbose)

    def fit(
        self, size: tuple[int, int], held_out: Flags | None, *, seed: int, dispensable: bool = False
    ) -> Member | None:
        """A fitted model; None if it diverged, if an interrupt came first, or if it is dispensable beyond the budget.

        One that is not dispensable gets at least one epoch.
        """
        seconds = epoch_seconds(self._plan, size)
        wanted = self._epochs if held_out is not None else min(self._epochs, UNVALIDATED_EPOCHS)
        epochs = int(min(wanted, self._seconds_left / self._fits_left // seconds))
        number = self._fits - self._fits_left + 1
        self._fits_left -= 1
        if self.interrupted or (dispensable and epochs < min(FEWEST_EPOCHS, wanted)):
            return None
        epochs = max(epochs, 1)
        begin = f"ALPHABET, model {number} of {self._fits} ({size[0]} wide, {size[1]} modes)"
        lowest, run = math.inf, 0

        def report(epoch: int, loss: float) -> None:
            nonlocal lowest, run
            lowest, run = min(lowest, loss), epoch
            self._progress.show(f"{begin}: epoch {epoch} of at most {epochs}, loss {loss:.4f}, lowest {lowest:.4f}")

        member = None
        try:
            with nullcontext() if gains_from_threads(self._plan, size) else one_thread():
                member = fit_member(self._plan, size, held_out, seed=seed, epochs=epochs, on_epoch=report)
            self.interrupted = member.interrupted
        except DivergedError:
            pass
        except KeyboardInterrupt:
            self.interrupted = True
        self._seconds_left = max(0.0, self._seconds_left - run * seconds)
        return member

    def end(self, best: Member) -> None:
        """Leave a line that says which model was kept."""
        width, modes = best.size
        loss = "" if math.isnan(best.validation_loss) else f", validation loss {best.validation_loss:.4f}"
        self._progress.end(f"ALPHABET, {width} wide, {modes} modes: {best.epochs} of {best.run} epochs{loss}")


def choose_validation(problem: Problem, share: float, seed: int) -> Flags | None:
    """The mask (N,) of a validation fold, or None where there are too few series for one.

    Classification: this share of each class, rounded, at least one series of it and never all; a class with a single
    series stays in training. At least two classes must be in the fold. Else: a random share of all series.
    """
    count = len(problem.targets)
    if count < FEWEST_TO_SPLIT:
        return None
    draw = np.random.default_rng(seed)
    groups = np.zeros(count, np.intp)
    if problem.kind == "classification":
        groups = (problem.targets[:, 0] > 0).astype(np.intp) if problem.outputs == 1 else problem.targets.argmax(axis=1)
    held_out = np.zeros(count, np.bool_)
    divided = 0
    for group in np.unique(groups):
        rows = draw.permutation(np.flatnonzero(groups == group))
        if len(rows) > 1:
            divided += 1
            held_out[rows[: min(len(rows) - 1, max(1, round(share * len(rows))))]] = True
    return held_out if divided >= (2 if problem.kind == "classification" else 1) else None


def epoch_seconds(plan: Plan, size: tuple[int, int]) -> float:
    """The nominal time of an epoch over all series: arithmetic on counts, so that it is the same on every machine."""
    series, length, _ = plan.examples.values.shape
    steps: int = -(-series // plan.recipe.batch_size)
    return series * length * token_seconds(plan, size) + steps * SECONDS_PER_STEP


def token_seconds(plan: Plan, size: tuple[int, int]) -> float:
    """The nominal time that a token takes in a training step."""
    width, modes = size
    # The projection, two lifts of five taps, two frames and a synthesis, two scans with their moments.
    products = width * (plan.examples.values.shape[2] + 10 + 6 * modes) + 60 * modes
    return (SECONDS_PER_TOKEN + products * SECONDS_PER_PRODUCT) * (1.0 if plan.fused else REFERENCE_FACTOR)


def gains_from_threads(plan: Plan, size: tuple[int, int]) -> bool:
    """Whether threads are worth their waiting for each other; the reference's sums would depend on their number."""
    series, length, _ = plan.examples.values.shape
    batch = min(series, plan.recipe.batch_size)
    return plan.fused and batch * length * token_seconds(plan, size) > THREADS_FROM_SECONDS
