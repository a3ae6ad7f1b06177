"""Frames: from lifted features to what drives the modes, and from their states back (Algorithm 1, lines 7, 9 and 13).

A frame is a matrix, and to apply it a product. Where every mode has two features of its own, it selects: the features
lie in the order of the states, and each part of a drive takes two of them.
"""

from alphabet_cpu.compiling import kernel
from alphabet_cpu.kernels.lanes import LANES, load, store
from alphabet_cpu.kernels.products import Rows, multiply_rows


@kernel
def drive_modes(features, weights, drive, count, sizes):
    """Write the drives (count, columns) of lifted features (count, width), still without the norm's scale."""
    if sizes.paired:
        select_drive(features, weights, drive, count, sizes.columns)
    else:
        multiply_rows(Rows(features, 0, sizes.width), weights, Rows(drive, 0, sizes.columns), count)


@kernel
def select_drive(features, weights, drive, count, columns):
    """Write the drives of paired features, which lie as the drives do, by weights (2, columns)."""
    for column in range(0, columns, 2 * LANES):
        own_re, own_im = load(weights, column), load(weights, column + LANES)
        other_re, other_im = load(weights, columns + column), load(weights, columns + column + LANES)
        for i in range(count):
            o = i * columns + column
            re, im = load(features, o), load(features, o + LANES)
            store(drive, o, re * own_re + im * other_re)
            store(drive, o + LANES, im * own_im + re * other_im)


@kernel
def return_modes(states, start, weights, stream, at, count, sizes):
    """Write what the states (count, columns) from `start` on give to the features (count, width) from `at` on."""
    width = sizes.width
    if sizes.paired:
        for v in range(0, width, LANES):
            weight = load(weights, v)
            for i in range(count):
                store(stream, at + i * width + v, load(states, start + i * width + v) * weight)
    else:
        multiply_rows(Rows(states, start, sizes.columns), weights, Rows(stream, at, width), count)
