"""The optimizer's kernels: clipping and AdamW in one pass each, and the constraint that keeps frames orthonormal."""

import numpy as np
from alphabet_core.fused import CLIP_EPSILON, AdamWSettings

from alphabet_cpu.compiling import array_kernel
from alphabet_cpu.kernels.arithmetic import allocate
from alphabet_cpu.kernels.lanes import LANES
from alphabet_cpu.kernels.memory import view_floats
from alphabet_cpu.kernels.products import Rows, accumulate_outer, multiply_rows

# The series of degree 6 leaves out less than 0.1**7 / 7! = 2e-11 of an argument whose 1-norm is at most this.
SERIES_REACH = 0.1
# Columns of the table that `clip_and_move` takes: addresses of float32 tensors, and how many numbers they have.
VALUES, GRADIENT, MEAN, SQUARE, STEPS, COUNT = range(6)


@array_kernel
def clip_and_move(table, clip_norm, settings):
    """Clip gradients to a global norm, and then move parameters as `torch.optim.AdamW` does; gradients stay clipped.

    table (parameters, 6): int64, where each parameter's values and AdamW's state are, by columns VALUES ... COUNT
    settings: those of `AdamWSettings`
    """
    settings = AdamWSettings(*settings)
    rate, beta_1, beta_2 = settings.learning_rate, settings.beta_1, settings.beta_2
    squares = 0.0
    for i in range(len(table)):
        for g in view_floats(table[i, GRADIENT], table[i, COUNT]):
            squares += np.float64(g) * np.float64(g)
    share = clip_norm / (np.sqrt(squares) + CLIP_EPSILON)
    share = np.float32(1.0 if share > 1.0 else share)  # what is not a number stays so, as in torch
    kept, least = np.float32(1.0 - rate * settings.weight_decay), np.float32(settings.epsilon)
    first, second = np.float32(1.0 - beta_1), np.float32(1.0 - beta_2)
    for i in range(len(table)):
        count, steps = table[i, COUNT], view_floats(table[i, STEPS], 1)
        steps[0] += np.float32(1.0)
        step = np.float64(steps[0])
        size, root = np.float32(rate / (1.0 - beta_1**step)), np.float32(np.sqrt(1.0 - beta_2**step))
        values, gradient = view_floats(table[i, VALUES], count), view_floats(table[i, GRADIENT], count)
        mean, square = view_floats(table[i, MEAN], count), view_floats(table[i, SQUARE], count)
        for j in range(count):
            g = gradient[j] * share
            gradient[j] = g
            mean[j] += first * (g - mean[j])
            square[j] += second * (g * g - square[j])
            values[j] = values[j] * kept - size * mean[j] / (np.sqrt(square[j]) / root + least)


@array_kernel
def multiply_square(left, right, n, out):
    """Set the flat matrix out (n, n) to left (n, n) times right (n, n)."""
    multiply_rows(Rows(left, 0, n), right, Rows(out, 0, n), n)


@array_kernel
def rebase(base, tangent, scale):
    """Move a frame's base as `alphabet_core.frame.Frame.rebase` does, and set its tangent to zero.

    base (D, D) becomes base exp(skew(scale tangent)), followed by one Newton-Schulz step. The exponential takes as many
    squarings as its argument needs; after a training step that is none.
    """
    width, columns = tangent.shape
    n = width + -width % LANES
    x = allocate(n * n)
    for i in range(width):
        for j in range(columns):
            x[i * n + j] += scale * tangent[i, j]
            x[j * n + i] -= scale * tangent[i, j]
    norm = 0.0
    for i in range(width):
        size = 0.0
        for j in range(width):
            size += abs(x[i * n + j])
        norm = max(norm, size)
    squarings = 0
    while norm > SERIES_REACH and np.isfinite(norm):
        norm, squarings = norm / 2.0, squarings + 1
    share = np.float32(0.5**squarings)
    for i in range(n * n):
        x[i] *= share

    x2, x3, high, rotation = allocate(n * n), allocate(n * n), allocate(n * n), allocate(n * n)
    multiply_square(x, x, n, x2)
    multiply_square(x2, x, n, x3)
    for i in range(n * n):
        high[i] = x[i] * np.float32(1 / 24) + x2[i] * np.float32(1 / 120) + x3[i] * np.float32(1 / 720)
    multiply_square(x3, high, n, rotation)
    for i in range(n * n):  # less the identity, so that small angles keep digits
        rotation[i] += x[i] + x2[i] * np.float32(0.5) + x3[i] * np.float32(1 / 6)
    for _ in range(squarings):
        multiply_square(rotation, rotation, n, x2)
        for i in range(n * n):
            rotation[i] = x2[i] + rotation[i] * np.float32(2.0)

    moved, gram, old = allocate(n * n), allocate(n * n), allocate(n * n)
    for i in range(width):
        for j in range(width):
            old[i * n + j] = base[i, j]
    multiply_square(old, rotation, n, moved)
    for i in range(n * n):
        moved[i] += old[i]
    accumulate_outer(Rows(moved, 0, n), Rows(moved, 0, n), n, gram)
    multiply_square(moved, gram, n, old)
    # Loops, not array expressions: numba takes seconds to compile what these would say about shapes that do not fit.
    for i in range(width):
        for j in range(width):
            base[i, j] = moved[i * n + j] * np.float32(1.5) - old[i * n + j] * np.float32(0.5)
        for j in range(columns):
            tangent[i, j] = 0.0
