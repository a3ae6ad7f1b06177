"""Ridge regression from the kernel matrix (N, N) of all rows' features; `ridge` defines what is solved.

Centring and removing the intercept are one reflection that maps the root of the weights to the first axis: what
remains are N - 1 rows without an intercept, and a residual left out is coefficient / diagonal of the inverse, a sum of
positive terms. Two ways lead there:

    by eigenvectors   they serve all penalties at once, for some 9 N^3 operations, a good part of them bound by memory
    by a search       from `SEARCH_FROM` rows on: one Cholesky factor and its inverse for each penalty that is tried,
                      2/3 N^3 operations in large blocks. It starts at the best penalty of some of the rows, and goes
                      on to neighbours on the grid until both are worse: three to five are tried. Where the error has
                      one valley over the grid, the penalty is that of the whole grid.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from alphabet_learn.ridge import (
    PENALTIES,
    ROWS_AT_ONCE,
    SAME_ERROR,
    Block,
    Doubles,
    Ridge,
    check_problem,
    check_rows,
    choose,
    eigenvectors,
    select,
    weighted_mean,
)

SEARCH_FROM = 2500  # rows: below, one eigenvalue problem takes no longer than three factors
ROWS_TO_START = 800  # whose best penalty a search starts at


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
    kernel: Doubles,
    targets: Doubles,
    weights: Doubles,
    *,
    penalties: Doubles = PENALTIES,
    per_output: bool = False,
    search_from: int = SEARCH_FROM,
) -> Ridge:
    """Ridge from the kernel matrix (N, N) of all rows' features; coefficients (N, K) sum to zero over the rows.

    search_from: from so many rows with weight on, penalties are searched, unless each output has its own. The kernel is
    kept; memory peaks at about 32 N^2 bytes with it.
    """
    penalties, weights = check_problem(targets, weights, penalties)
    check_rows(len(kernel), len(weights))
    if per_output or np.count_nonzero(weights) < max(search_from, 2):
        return _fit_by_eigenvectors(kernel, targets, weights, penalties, per_output)
    return _fit_by_search(kernel, targets, weights, penalties)


@dataclass(frozen=True)
class _Reflected:
    """A kernel without the rows of no weight, reflected so that the root of the weights is minus the first axis.

    used (N,): which rows have weight; n of them. root (n,): of their weights. mean (K,): of the targets
    average (n,): the kernel of each of these rows with the mean row
    axis (n,), length: the reflection is I - 2 axis axis' / length
    inner (n - 1, n - 1), drive (n - 1, K): kernel and targets behind the first axis
    """

    used: NDArray[np.bool_]
    root: Doubles
    mean: Doubles
    average: Doubles
    axis: Doubles
    length: float
    inner: Doubles
    drive: Doubles

    def back(self, vectors: Doubles) -> Doubles:
        """Vectors (n - 1, k) behind the first axis as vectors (n, k) of the rows."""
        whole = np.empty((len(self.axis), vectors.shape[1]))
        along = (2 / self.length) * (self.axis[1:] @ vectors)
        whole[0] = -self.axis[0] * along
        np.multiply(self.axis[1:, None], -along, out=whole[1:])
        whole[1:] += vectors
        return whole

    def residuals(self, kernel: Doubles, targets: Doubles, dual: Doubles, left_out: Doubles) -> Doubles:
        """Residuals (N, k) of all rows: `left_out` (n, k) where there is weight, of the fit itself elsewhere.

        dual (n, k): the coefficients by the root of the weights, for targets (N, k).
        """
        residuals = np.empty((len(self.used), dual.shape[1]))
        residuals[self.used] = left_out
        if not self.used.all():
            across = kernel[np.ix_(~self.used, self.used)] - self.average  # (rows, n)
            residuals[~self.used] = targets[~self.used] - (across * self.root) @ dual
        return residuals

    def ridge(self, dual: Doubles, predictions: Doubles, penalty: Doubles, errors: Doubles) -> Ridge:
        coefficients = np.zeros(predictions.shape)
        coefficients[self.used] = self.root[:, None] * dual
        intercept = self.mean - self.average @ coefficients[self.used]
        return Ridge(coefficients, intercept, predictions, penalty, errors)


def _reflect(kernel: Doubles, targets: Doubles, weights: Doubles) -> _Reflected:
    used = weights > 0
    root = np.sqrt(weights[used])
    mean = weighted_mean(targets, weights)
    scaled = kernel[np.ix_(used, used)] if not used.all() else kernel.copy()
    average = scaled @ (weights[used] / weights.sum())
    scaled *= root[:, None]
    scaled *= root

    axis = root / np.sqrt(weights.sum())
    axis[0] += 1  # the root is positive, so nothing cancels
    length = float(axis @ axis)
    image = 2 * (scaled @ axis) / length
    image -= (image @ axis) / length * axis
    for start in range(0, len(axis), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        scaled[rows] -= np.outer(axis[rows], image) + np.outer(image[rows], axis)
    # The inner rows move to the front of the same memory, which is then contiguous.
    inner = scaled.reshape(-1)[: (len(axis) - 1) ** 2].reshape(len(axis) - 1, len(axis) - 1)
    for i in range(len(inner)):
        inner[i] = scaled[i + 1, 1:]
    drive = root[:, None] * (targets[used] - mean)
    drive = drive[1:] - np.outer(axis[1:], (2 / length) * (axis @ drive))
    return _Reflected(used, root, mean, average, axis, length, inner, drive)


def _fit_by_eigenvectors(
    kernel: Doubles, targets: Doubles, weights: Doubles, penalties: Doubles, per_output: bool
) -> Ridge:
    part = _reflect(kernel, targets, weights)
    values, inner = eigenvectors(part.inner) if len(part.inner) else (np.zeros(0), np.zeros((0, 0)))
    drive = inner.T @ part.drive  # (n - 1, K)
    vectors = part.back(inner)  # (n, n - 1)
    del inner

    shrink = 1 / (values[:, None] + penalties)  # (n - 1, A)
    shape = (len(penalties), targets.shape[1])
    all_drives = (shrink[:, :, None] * drive[:, None, :]).reshape(len(values), shape[0] * shape[1])  # (n - 1, A K)
    dual, left_out = np.empty((2, len(part.root), shape[0] * shape[1]))
    for start in range(0, len(part.root), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        dual[rows] = vectors[rows] @ all_drives
        diagonal = np.repeat(np.square(vectors[rows]) @ shrink, shape[1], axis=1)
        left_out[rows] = _leave_out(dual[rows], diagonal, part.root[rows])
    centred = np.tile(targets - part.mean, (1, shape[0]))
    residuals = part.residuals(kernel, centred, dual, left_out).reshape(-1, *shape)
    chosen, errors = choose(residuals, weights, per_output)
    return part.ridge(
        dual.reshape(-1, *shape)[:, chosen, np.arange(shape[1])],
        targets - select(residuals, chosen),
        penalties[chosen],
        errors,
    )


def _leave_out(dual: Doubles, diagonal: Doubles, root: Doubles) -> Doubles:
    """Residuals of rows that are left out, one by one.

    A single row leaves nothing to learn from: its diagonal is zero, and its prediction the intercept, its target.
    """
    return np.asarray(dual / np.where(diagonal > 0, diagonal, 1) / root[:, None])


def _fit_by_search(kernel: Doubles, targets: Doubles, weights: Doubles, penalties: Doubles) -> Ridge:
    part = _reflect(kernel, targets, weights)
    centred = targets - part.mean
    share = weights / weights.sum()
    errors = np.full((len(penalties), targets.shape[1]), np.nan)
    best: dict[int, tuple[Doubles, Doubles]] = {}  # what the best penalty so far gives

    def judge(index: int) -> float:
        """The error of a penalty, infinite if rounding drowns it; its solution is kept if it is the best so far."""
        solved = _solve(part, float(penalties[index]))
        if solved is None:
            return np.inf
        dual, diagonal = solved
        residuals = part.residuals(kernel, centred, dual, _leave_out(dual, diagonal[:, None], part.root))
        errors[index] = share @ residuals**2
        found = float(errors[index].mean())
        if not best or found <= float(np.nanmin(errors.mean(axis=1))) * (1 + SAME_ERROR):
            best.clear()
            best[index] = dual, residuals
        return found

    start = _best_of_some(kernel, targets, weights, penalties)
    chosen = find_valley(judge, start, len(penalties))
    if not best:  # rounding drowns all penalties
        return _fit_by_eigenvectors(kernel, targets, weights, penalties, per_output=False)
    if chosen not in best:  # a tie that a smaller penalty won in passing
        judge(chosen)
    dual, residuals = best[chosen]
    penalty = np.full(targets.shape[1], penalties[chosen])
    return part.ridge(dual, targets - residuals, penalty, errors)


def _best_of_some(kernel: Doubles, targets: Doubles, weights: Doubles, penalties: Doubles) -> int:
    """The index of the best penalty for some rows spread over all of those that have weight."""
    rows = np.flatnonzero(weights)
    rows = rows[np.linspace(0, len(rows) - 1, min(ROWS_TO_START, len(rows))).astype(np.intp)]
    few = _fit_by_eigenvectors(kernel[np.ix_(rows, rows)], targets[rows], weights[rows], penalties, per_output=False)
    return int(np.searchsorted(penalties, few.penalty[0]))


def find_valley(judge: Callable[[int], float], start: int, count: int) -> int:
    """The index of a minimum of `judge` over 0 to count - 1: downhill from `start`, the largest of neighbours that tie.

    Every index is judged at most once.
    """
    found: dict[int, float] = {}

    def height(index: int) -> float:
        if index not in found:
            found[index] = judge(index) if 0 <= index < count else np.inf
        return found[index]

    here = start
    while True:
        if here + 1 < count and height(here + 1) <= height(here) * (1 + SAME_ERROR):
            here += 1
        elif here > 0 and height(here - 1) * (1 + SAME_ERROR) < height(here):
            here -= 1
        else:
            return here


def _solve(part: _Reflected, penalty: float) -> tuple[Doubles, Doubles] | None:
    """Coefficients (n, K) by the root of the weights and the diagonal of the inverse (n,), in the rows' own order.

    None if the matrix is not positive definite in float64, which happens where the penalty is below some 1e-15 of the
    largest eigenvalue.
    """
    matrix = part.inner.copy()
    matrix[np.diag_indices(len(matrix))] += penalty
    # A symmetric matrix in C order is its own transpose in Fortran order: LAPACK then works in place.
    factor, failed = lapack.dpotrf(matrix.T, lower=1, clean=1, overwrite_a=1)
    if failed:
        return None
    dual = part.back(lapack.dpotrs(factor, part.drive, lower=1)[0])
    inverse, failed = lapack.dtrtri(factor, lower=1, overwrite_c=1)  # of the factor, whose columns' squares sum up
    assert not failed  # its diagonal is positive
    image = inverse @ ((2 / part.length) * part.axis[1:])  # (n - 1,)
    diagonal = np.empty(len(part.axis))
    diagonal[0] = part.axis[0] ** 2 * (image @ image)
    for start in range(0, len(inverse), ROWS_AT_ONCE):
        columns = slice(start, start + ROWS_AT_ONCE)
        reflected = inverse[:, columns] - np.outer(image, part.axis[1:][columns])
        diagonal[1:][columns] = np.einsum("ij,ij->j", reflected, reflected)
    return dual, diagonal
