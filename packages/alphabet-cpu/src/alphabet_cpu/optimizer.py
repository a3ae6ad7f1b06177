"""What a step does with its gradients: global-norm clipping and AdamW in one pass each, and the frames' constraint."""

import numpy as np
from alphabet_core.fused import CLIP_EPSILON

from alphabet_cpu.arithmetic import accumulate_outer, allocate, multiply_rows
from alphabet_cpu.compiling import kernel
from alphabet_cpu.lanes import LANES
from alphabet_cpu.memory import view_floats

# The series of degree 6 leaves out less than 0.1**7 / 7! = 2e-11 of an argument whose 1-norm is at most this.
SERIES_REACH = 0.1


@kernel
def clip_and_move(table, clip_norm, rate, beta_1, beta_2, epsilon, decay):
    """AdamW with gradients clipped to a global norm, as `torch.optim.AdamW` does it; the gradients stay clipped.

    A row of `table` is a parameter: the addresses of its values, gradient, both moments and step count, and its size.
    """
    squares = 0.0
    for i in range(len(table)):
        for g in view_floats(table[i, 1], table[i, 5]):
            squares += np.float64(g) * np.float64(g)
    share = clip_norm / (np.sqrt(squares) + CLIP_EPSILON)
    share = np.float32(1.0 if share > 1.0 else share)  # what is not a number stays so, as in torch
    kept, first, second = np.float32(1.0 - rate * decay), np.float32(1.0 - beta_1), np.float32(1.0 - beta_2)
    least = np.float32(epsilon)
    for i in range(len(table)):
        count, steps = table[i, 5], view_floats(table[i, 4], 1)
        steps[0] += np.float32(1.0)
        step = np.float64(steps[0])
        size, root = np.float32(rate / (1.0 - beta_1**step)), np.float32(np.sqrt(1.0 - beta_2**step))
        values, gradient = view_floats(table[i, 0], count), view_floats(table[i, 1], count)
        mean, square = view_floats(table[i, 2], count), view_floats(table[i, 3], count)
        for j in range(count):
            g = gradient[j] * share
            gradient[j] = g
            mean[j] += first * (g - mean[j])
            square[j] += second * (g * g - square[j])
            values[j] = values[j] * kept - size * mean[j] / (np.sqrt(square[j]) / root + least)


@kernel
def rebase(base, tangent, scale):
    """`alphabet_core.frame.Frame.rebase`: base (D, D) <- base exp(skew(tangent)), one Newton-Schulz step, tangent <- 0.

    The exponential takes as many squarings as its argument needs, after a training step none.
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
        norm = max(norm, np.abs(x[i * n : i * n + width]).sum())
    squarings = 0
    while norm > SERIES_REACH and np.isfinite(norm):
        norm, squarings = norm / 2.0, squarings + 1
    x *= np.float32(0.5**squarings)

    x2, x3, rotation = allocate(n * n), allocate(n * n), allocate(n * n)
    multiply_rows(x, 0, n, x, n, x2, 0, n)
    multiply_rows(x2, 0, n, x, n, x3, 0, n)
    high = x * np.float32(1 / 24) + x2 * np.float32(1 / 120) + x3 * np.float32(1 / 720)
    multiply_rows(x3, 0, n, high, n, rotation, 0, n)
    rotation += x + x2 * np.float32(0.5) + x3 * np.float32(1 / 6)  # less the identity, so that small angles keep digits
    for _ in range(squarings):
        multiply_rows(rotation, 0, n, rotation, n, x2, 0, n)
        rotation = x2 + rotation * np.float32(2.0)

    moved, gram = allocate(n * n), allocate(n * n)
    old = allocate(n * n)
    old.reshape(n, n)[:width, :width] = base
    multiply_rows(old, 0, n, rotation, n, moved, 0, n)
    moved += old
    accumulate_outer(moved, 0, n, moved, 0, n, n, gram)
    multiply_rows(moved, 0, n, gram, n, old, 0, n)
    straight = moved * np.float32(1.5) - old * np.float32(0.5)
    base[:] = straight.reshape(n, n)[:width, :width]
    tangent[:] = 0.0
