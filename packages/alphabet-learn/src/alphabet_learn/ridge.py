"""The affine head in closed form: weighted ridge regression whose penalty is chosen by the leave-one-out error.

For features x (N, P), targets y (N, K) and weights w (N,), a penalty a gives the head and the intercept that minimize

    sum over i of  w[i] |y[i] - intercept - x[i] head|^2  +  a |head|^2

and the penalty is the one of a grid for which the weighted squared error of the leave-one-out predictions is least:
row i predicted by the fit to all rows but i. Two forms share this definition and return a `Ridge`; tests hold both to
fits that leave out one row after another:

    fit_kernel   N <= P: from the kernel matrix (N, N), which sums over blocks of coordinates (`kernel_ridge`)
    fit_gram     N > P: from the Gram matrix (P, P), which sums over blocks of rows, never all at once

A row without weight has no influence on anything but its own prediction. The number of BLAS threads changes the order
of sums, hence results by rounding and by no more, unless two penalties are equally good to rounding; of penalties
whose errors agree to 1e-9 the largest is taken, so that exact ties cannot flip.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from alphabet_learn.errors import LearnError

Doubles = NDArray[np.float64]
Block = NDArray[np.floating[Any]]

PENALTIES: Doubles = np.logspace(-3, 5, 17)
# Weights below this share of the largest count as zero: residuals of their rows would be rounding over a small root.
SMALLEST_WEIGHT = 1e-14
# Penalties whose errors differ by less than this share of the error are equally good.
SAME_ERROR = 1e-9
# A leverage of one means that nothing else predicts the row; rounding may exceed it.
SMALLEST_REMAINDER = 1e-12
ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class Ridge:
    """A fitted head.

    coefficients  (P, K) of the coordinates; of a kernel (N, K) of the rows, from which `head_of` makes a block's
    intercept     (K,)
    predictions   (N, K) leave-one-out, at the chosen penalty
    penalty       (K,) the chosen one; the same for all outputs unless asked for one per output
    errors        (penalties, K) weighted mean squared leave-one-out error, for the penalties in ascending order;
                  NaN for those that a search did not try
    """

    coefficients: Doubles
    intercept: Doubles
    predictions: Doubles
    penalty: Doubles
    errors: Doubles


def standardize(block: Block, weights: Doubles, *, floor: float = 1e-9) -> tuple[Doubles, Doubles]:
    """The weighted mean of each coordinate of a block (N, P) and the inverse of its deviation, both (P,).

    A coordinate counts as constant, and gets the factor 0, if its deviation is at most `floor` times the larger of 1
    and its mean's magnitude.
    """
    return standardize_rows([block], weights, floor=floor)


def standardize_rows(blocks: Iterable[Block], weights: Doubles, *, floor: float = 1e-9) -> tuple[Doubles, Doubles]:
    """The same from consecutive blocks of rows, read once: deviations from each block's mean, merged pairwise."""
    total, start = 0.0, 0
    mean = squares = np.zeros(0)
    for block in blocks:
        weight = np.asarray(weights[start : start + len(block)], np.float64)
        start += len(block)
        here = float(weight.sum())
        if here == 0:
            continue
        centre = weight @ np.asarray(block, np.float64) / here
        deviation = block - centre  # (rows, P) float64
        correction = weight @ deviation / here  # what rounding left of the mean
        centre += correction
        np.square(deviation, out=deviation)
        spread = np.maximum(weight @ deviation - here * correction**2, 0)
        if total == 0:
            total, mean, squares = here, centre, spread
            continue
        difference, before, total = centre - mean, total, total + here
        mean = mean + difference * (here / total)
        squares = squares + spread + difference**2 * (before * here / total)
    check_rows(start, len(weights))
    if total == 0:
        raise LearnError("All sample weights are zero; at least one series needs a positive weight.")
    deviations = np.sqrt(squares / total)
    varies = deviations > floor * np.maximum(1, np.abs(mean))
    return mean, np.where(varies, 1 / np.where(varies, deviations, 1), 0.0)


def fit_gram(
    blocks: Callable[[], Iterable[Block]],
    targets: Doubles,
    weights: Doubles,
    *,
    penalties: Doubles = PENALTIES,
    per_output: bool = False,
    dtype: type[np.floating[Any]] = np.float64,
) -> Ridge:
    """Ridge from the Gram matrix (P, P); `blocks()` gives the rows' features in consecutive blocks (rows, P), twice.

    The first pass sums the Gram matrix, the second one measures each row's leverage. `dtype` is that of the large
    products, with the error that `add_to_kernel` states. Columns are centred here; that they are roughly centred
    and scaled before keeps the sums accurate. Memory peaks at about 24 P^2 bytes, one block in float64 and
    8 N K bytes per penalty; blocks of a thousand rows or more keep the additions of (P, P) cheap.
    """
    penalties, weights = check_problem(targets, weights, penalties)
    total = weights.sum()
    root = np.sqrt(weights)
    centred = targets - weighted_mean(targets, weights)

    gram = sums = moments = np.zeros(0)
    for rows, block in _with_rows(blocks(), len(weights)):
        if rows.start == 0:
            width = block.shape[1]
            gram, sums, moments = np.zeros((width, width)), np.zeros(width), np.zeros((width, targets.shape[1]))
        weighted = root[rows, None] * block  # float64
        sums += root[rows] @ weighted
        moments += weighted.T @ (root[rows, None] * centred[rows])
        weighted = np.asarray(weighted, dtype)
        gram += weighted.T @ weighted
    mean = sums / total
    for start in range(0, len(gram), ROWS_AT_ONCE):
        gram[start : start + ROWS_AT_ONCE] -= np.outer(sums[start : start + ROWS_AT_ONCE], mean)
    values, vectors = eigenvectors(gram)
    del gram

    drive = vectors.T @ moments  # (P, K)
    shrink = 1 / (values[:, None] + penalties)  # (P, A)
    heads = vectors @ (shrink[:, :, None] * drive[:, None, :]).reshape(len(values), -1)  # (P, A K)
    directions = np.asarray(vectors, dtype)
    residuals = np.empty((len(weights), len(penalties), targets.shape[1]))
    for rows, block in _with_rows(blocks(), len(weights)):
        deviation = block - mean  # float64
        fitted = (deviation @ heads).reshape(-1, *residuals.shape[1:])
        spectrum = np.square(np.asarray(deviation, dtype) @ directions)
        leverage = weights[rows, None] * (1 / total + spectrum @ shrink)
        remainder = np.maximum(1 - leverage, SMALLEST_REMAINDER)
        residuals[rows] = (centred[rows, None, :] - fitted) / remainder[:, :, None]

    chosen, errors = choose(residuals, weights, per_output)
    head = vectors @ (drive * shrink[:, chosen])
    return Ridge(
        coefficients=head,
        intercept=weighted_mean(targets, weights) - mean @ head,
        predictions=targets - select(residuals, chosen),
        penalty=penalties[chosen],
        errors=errors,
    )


def eigenvectors(matrix: Doubles) -> tuple[Doubles, Doubles]:
    """Eigenvalues, none negative, and eigenvectors of a positive semidefinite matrix, which is overwritten."""
    # A symmetric matrix in C order is its own transpose in Fortran order: LAPACK then works in place.
    values, vectors = scipy.linalg.eigh(matrix.T, driver="evd", overwrite_a=True, check_finite=False)
    return np.maximum(values, 0), vectors


def choose(residuals: Doubles, weights: Doubles, per_output: bool) -> tuple[NDArray[np.intp], Doubles]:
    """The index (K,) of the largest of the best penalties, and the errors (A, K), from residuals (N, A, K)."""
    errors = np.einsum("i,iak->ak", weights / weights.sum(), residuals**2)
    judged = errors if per_output else np.broadcast_to(errors.mean(1, keepdims=True), errors.shape)
    best = judged <= judged.min(0) * (1 + SAME_ERROR)
    return len(errors) - 1 - np.argmax(best[::-1], axis=0), errors


def select(residuals: Doubles, chosen: NDArray[np.intp]) -> Doubles:
    """Each output's residuals (N, K) at its chosen penalty."""
    return residuals[:, chosen, np.arange(len(chosen))]


def weighted_mean(targets: Doubles, weights: Doubles) -> Doubles:
    """The weighted mean (K,) of the targets."""
    mean: Doubles = (weights / weights.sum()) @ targets
    return mean


def _with_rows(blocks: Iterable[Block], count: int) -> Iterable[tuple[slice, Block]]:
    """Each block with the rows that it holds; all blocks together must hold `count` rows."""
    stop = 0
    for block in blocks:
        start, stop = stop, stop + len(block)
        yield slice(start, stop), block
    check_rows(stop, count)


def check_rows(found: int, count: int) -> None:
    """Raise unless there are as many rows of features as weights."""
    if found != count:
        raise LearnError(f"The features have {found} rows, the weights {count}; give one row of features per weight.")


def check_problem(targets: Doubles, weights: Doubles, penalties: Doubles) -> tuple[Doubles, Doubles]:
    """Penalties in ascending order, and weights whose vanishing ones are zero."""
    penalties = np.sort(np.asarray(penalties, np.float64))
    if not len(penalties) or not penalties[0] > 0 or not np.isfinite(penalties[-1]):
        raise LearnError(
            f"The penalties {penalties.tolist()} must be positive and finite; give at least one such value."
        )
    weights = np.asarray(weights, np.float64)
    if len(targets) != len(weights):
        raise LearnError(f"There are {len(targets)} targets and {len(weights)} weights; give one weight per series.")
    if not len(weights) or weights.min() < 0 or not 0 < weights.sum() < np.inf:
        raise LearnError("Sample weights must be finite, none negative and at least one positive.")
    return penalties, np.where(weights > SMALLEST_WEIGHT * weights.max(), weights, 0.0)
