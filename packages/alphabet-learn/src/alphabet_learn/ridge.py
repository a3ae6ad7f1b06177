"""The affine head in closed form: weighted ridge regression whose penalty is chosen by the leave-one-out error.

For features x (N, P), targets y (N, K) and weights w (N,), a penalty a gives the head and the intercept that minimize

    sum over i of  w[i] |y[i] - intercept - x[i] head|^2  +  a |head|^2

and the penalty is the one of a grid for which the weighted squared error of the leave-one-out predictions is least:
row i predicted by the fit to all rows but i. Two forms share this definition and return a `Ridge`; tests hold both to
fits that leave out one row after another:

    fit_kernel   N <= P: from the kernel matrix (N, N), which sums over blocks of coordinates
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

    coefficients  (P, K) of the coordinates; from `fit_kernel` (N, K) of the rows, from which `head_of` makes a block's
    intercept     (K,)
    predictions   (N, K) leave-one-out, at the chosen penalty
    penalty       (K,) the chosen one; the same for all outputs unless asked for one per output
    errors        (penalties, K) weighted mean squared leave-one-out error, for the penalties in ascending order
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
    _check_rows(start, len(weights))
    if total == 0:
        raise LearnError("All sample weights are zero; at least one series needs a positive weight.")
    deviations = np.sqrt(squares / total)
    varies = deviations > floor * np.maximum(1, np.abs(mean))
    return mean, np.where(varies, 1 / np.where(varies, deviations, 1), 0.0)


def add_to_kernel(kernel: Doubles, block: Block, *, dtype: type[np.floating[Any]] = np.float64) -> None:
    """Add a block's products of rows (N, f) (f, N) to a kernel matrix (N, N), in place.

    In float32 the products take about 60 % of the time, and err by up to 1e-8 of the largest eigenvalue: with
    standardized coordinates up to 1e-8 N P. Penalties below that then see noise, which matters where series
    are nearly alike (few eigenvalues carry everything); hence float64.
    """
    block = np.ascontiguousarray(block, dtype)
    kernel += block @ block.T


def head_of(block: Block, fit: Ridge) -> Doubles:
    """The head (f, K) of one block (N, f) of the coordinates whose kernel was fitted."""
    head: Doubles = np.asarray(block, np.float64).T @ fit.coefficients
    return head


def fit_kernel(
    kernel: Doubles, targets: Doubles, weights: Doubles, *, penalties: Doubles = PENALTIES, per_output: bool = False
) -> Ridge:
    """Ridge from the kernel matrix (N, N) of all rows' features; coefficients (N, K) sum to zero over the rows.

    Centring and removing the intercept are one reflection that maps the root of the weights to the first axis: what
    remains are N - 1 rows without an intercept, and a residual left out is coefficient / diagonal of the inverse,
    a sum of positive terms. The kernel is kept; memory peaks at about 32 N^2 bytes with it.
    """
    penalties, weights = _check(targets, weights, penalties)
    _check_rows(len(kernel), len(weights))
    used = weights > 0
    root = np.sqrt(weights[used])
    mean = _mean(targets, weights)
    scaled = kernel[np.ix_(used, used)] if not used.all() else kernel.copy()
    average = scaled @ (weights[used] / weights.sum())  # (n,) kernel of each row with the mean row
    scaled *= root[:, None]
    scaled *= root
    values, vectors = _reflected_eigenvectors(scaled, root / np.sqrt(weights.sum()))
    del scaled

    drive = vectors.T @ (root[:, None] * (targets[used] - mean))  # (n - 1, K)
    shrink = 1 / (values[:, None] + penalties)  # (n - 1, A)
    shape = (len(penalties), targets.shape[1])
    all_drives = (shrink[:, :, None] * drive[:, None, :]).reshape(len(values), shape[0] * shape[1])  # (n - 1, A K)
    inner = np.empty((len(root), *shape))
    for start in range(0, len(root), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        part = vectors[rows]
        dual = (part @ all_drives).reshape(-1, *shape)
        diagonal = (part * part) @ shrink
        # A single row leaves nothing to learn from: its diagonal is zero, and its prediction the intercept, its target.
        inner[rows] = dual / np.where(diagonal > 0, diagonal, 1)[:, :, None] / root[rows, None, None]
    residuals = np.empty((len(weights), *shape))
    residuals[used] = inner
    if not used.all():  # rows outside the fit: plain predictions, whatever is left out
        across = kernel[np.ix_(~used, used)] - average  # (rows, n)
        outside = (across * root) @ vectors @ all_drives
        residuals[~used] = (targets[~used] - mean)[:, None, :] - outside.reshape(-1, *shape)

    chosen, errors = _choose(residuals, weights, per_output)
    coefficients = np.zeros(targets.shape)
    coefficients[used] = root[:, None] * (vectors @ (drive * shrink[:, chosen]))
    return Ridge(
        coefficients=coefficients,
        intercept=mean - average @ coefficients[used],
        predictions=targets - _select(residuals, chosen),
        penalty=penalties[chosen],
        errors=errors,
    )


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
    penalties, weights = _check(targets, weights, penalties)
    total = weights.sum()
    root = np.sqrt(weights)
    centred = targets - _mean(targets, weights)

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
    values, vectors = _eigenvectors(gram)
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

    chosen, errors = _choose(residuals, weights, per_output)
    head = vectors @ (drive * shrink[:, chosen])
    return Ridge(
        coefficients=head,
        intercept=_mean(targets, weights) - mean @ head,
        predictions=targets - _select(residuals, chosen),
        penalty=penalties[chosen],
        errors=errors,
    )


def _reflected_eigenvectors(matrix: Doubles, axis: Doubles) -> tuple[Doubles, Doubles]:
    """Eigenvalues (n - 1,) and eigenvectors (n, n - 1) of a symmetric matrix on the complement of a unit axis.

    The reflection I - 2 v v' / |v|^2 with v = axis + e0 maps the axis to -e0; the matrix is overwritten.
    """
    v = axis.copy()
    v[0] += 1  # the axis is positive, so nothing cancels
    length = v @ v
    image = 2 * (matrix @ v) / length
    image -= (image @ v) / length * v
    for start in range(0, len(v), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        matrix[rows] -= np.outer(v[rows], image) + np.outer(image[rows], v)
    if len(v) == 1:
        return np.zeros(0), np.zeros((1, 0))
    # The inner rows move to the front of the same memory, which is then contiguous.
    inner = matrix.reshape(-1)[: (len(v) - 1) ** 2].reshape(len(v) - 1, len(v) - 1)
    for i in range(len(inner)):
        inner[i] = matrix[i + 1, 1:]
    values, inner = _eigenvectors(inner)
    vectors = np.empty((len(v), len(values)))
    along = (2 / length) * (v[1:] @ inner)
    vectors[0] = -v[0] * along
    np.multiply(v[1:, None], -along, out=vectors[1:])
    vectors[1:] += inner
    return values, vectors


def _eigenvectors(matrix: Doubles) -> tuple[Doubles, Doubles]:
    """Eigenvalues, none negative, and eigenvectors of a positive semidefinite matrix, which is overwritten."""
    # A symmetric matrix in C order is its own transpose in Fortran order: LAPACK then works in place.
    values, vectors = scipy.linalg.eigh(matrix.T, driver="evd", overwrite_a=True, check_finite=False)
    return np.maximum(values, 0), vectors


def _choose(residuals: Doubles, weights: Doubles, per_output: bool) -> tuple[NDArray[np.intp], Doubles]:
    """The index (K,) of the largest of the best penalties, and the errors (A, K), from residuals (N, A, K)."""
    errors = np.einsum("i,iak->ak", weights / weights.sum(), residuals**2)
    judged = errors if per_output else np.broadcast_to(errors.mean(1, keepdims=True), errors.shape)
    best = judged <= judged.min(0) * (1 + SAME_ERROR)
    return len(errors) - 1 - np.argmax(best[::-1], axis=0), errors


def _select(residuals: Doubles, chosen: NDArray[np.intp]) -> Doubles:
    """Each output's residuals (N, K) at its chosen penalty."""
    return residuals[:, chosen, np.arange(len(chosen))]


def _mean(targets: Doubles, weights: Doubles) -> Doubles:
    """The weighted mean (K,) of the targets."""
    mean: Doubles = (weights / weights.sum()) @ targets
    return mean


def _with_rows(blocks: Iterable[Block], count: int) -> Iterable[tuple[slice, Block]]:
    """Each block with the rows that it holds; all blocks together must hold `count` rows."""
    stop = 0
    for block in blocks:
        start, stop = stop, stop + len(block)
        yield slice(start, stop), block
    _check_rows(stop, count)


def _check_rows(found: int, count: int) -> None:
    if found != count:
        raise LearnError(f"The features have {found} rows, the weights {count}; give one row of features per weight.")


def _check(targets: Doubles, weights: Doubles, penalties: Doubles) -> tuple[Doubles, Doubles]:
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
