"""The zero-order hold of poles over irregular steps (`alphabet_core.poles.zero_order_hold`), mode by mode on lanes.

The packed weights hold what one unit step does: its transition p(1) and, in the drive, its gain. A step h has the
transition p(h) = exp(pole h) and a gain that is (p(h) - 1) / (p(1) - 1) times that of a unit step, so that the weights
are the same on every grid.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from alphabet_core.fused import DECAY_MAX, DECAY_MIN, FREQUENCY_MAX

from alphabet_cpu.compiling import array_kernel, kernel
from alphabet_cpu.kernels.arithmetic import allocate
from alphabet_cpu.kernels.lanes import (
    ROUNDING,
    minimum,
    rest_of_product,
    scale_by_power,
    splat,
    whole_of_product,
)
from alphabet_cpu.kernels.modes import count_sums, group_columns, imaginary, load_modes, real_column, store_modes

# The series of 2**r - 1, sin(pi f / 2) / f and cos(pi f / 2) for r and f in -1/2 ... 1/2, each to less than 1e-8.
POWER = tuple(math.log(2.0) ** k / math.factorial(k) for k in range(1, 9))
SINE = tuple((-1.0) ** (k // 2) * (math.pi / 2.0) ** k / math.factorial(k) for k in range(1, 10, 2))
COSINE = tuple((-1.0) ** (k // 2) * (math.pi / 2.0) ** k / math.factorial(k) for k in range(0, 11, 2))
MOST_HALVINGS = 120.0  # a state that was halved as often is zero beside any other


class PoleTable(NamedTuple):
    """What the hold needs of a bank's poles, of modes in whole lanes.

    decay, frequency (modes,): float64, in halvings and in half turns per unit of time
    shrink (columns,): 1 / (p(1) - 1); undo (columns,): 1 / conj(p(1))
    """

    decay: Any
    frequency: Any
    shrink: Any
    undo: Any


class Holds(NamedTuple):
    """Transition and relative gain of each step, (n, columns) both."""

    transition: Any
    gain: Any


@kernel
def read_pole(raw_decay, raw_frequency):
    """A pole, its transition p over one unit of time, and p - 1 without cancellation, in complex128."""
    decay = DECAY_MIN + (DECAY_MAX - DECAY_MIN) / (1.0 + np.exp(-np.float64(raw_decay)))
    turn = FREQUENCY_MAX * np.tanh(np.float64(raw_frequency))
    radius = np.exp(-decay)
    transition = complex(radius * np.cos(turn), radius * np.sin(turn))
    change = complex(np.expm1(-decay) * np.cos(turn) - 2.0 * np.sin(0.5 * turn) ** 2, transition.imag)
    return complex(-decay, turn), transition, change


@array_kernel
def tabulate_poles(raw, columns):
    """The table of a bank's poles, given their parameters raw (2, M)."""
    modes, apart = count_sums(columns), imaginary(columns)
    table = PoleTable(np.zeros(modes), np.zeros(modes), allocate(columns), allocate(columns))
    for m in range(raw.shape[1]):
        pole, transition, change = read_pole(raw[0, m], raw[1, m])
        table.decay[m] = -pole.real / np.log(2.0)
        table.frequency[m] = pole.imag / np.pi
        c = real_column(m, columns)
        shrink, undo = 1.0 / change, 1.0 / transition.conjugate()
        table.shrink[c], table.shrink[c + apart] = shrink.real, shrink.imag
        table.undo[c], table.undo[c + apart] = undo.real, undo.imag
    return table


@kernel
def hold_steps(steps, first, count, sizes, table, holds):
    """Write transitions and relative gains of the steps before `count` tokens, from the first one's index on."""
    columns, narrow = sizes.columns, sizes.narrow
    for column in range(0, columns, group_columns(columns)):
        shrink_re, shrink_im = load_modes(table.shrink, column, narrow)
        for i in range(count):
            h, o = np.float64(steps[first + i]), i * columns + column
            if i > 0 and steps[first + i] == steps[first + i - 1]:
                p_re, p_im = load_modes(holds.transition, o - columns, narrow)
                g_re, g_im = load_modes(holds.gain, o - columns, narrow)
                store_modes(holds.transition, o, narrow, p_re, p_im)
                store_modes(holds.gain, o, narrow, g_re, g_im)
                continue
            halvings = minimum(whole_of_product(table.decay, column // 2, h), splat(MOST_HALVINGS))
            r = 0.0 - rest_of_product(table.decay, column // 2, h)
            power = r * POWER[7] + POWER[6]
            for k in range(6):
                power = power * r + POWER[5 - k]
            power = power * r
            scale = scale_by_power(splat(1.0), ROUNDING - halvings)
            radius, shrinkage = scale * power + scale, scale * power + (scale - 1.0)  # exp(-decay h), and less 1
            # An angle is some half turns, which change the sign if they are odd, and pi f, by sines of half of that.
            turns = whole_of_product(table.frequency, column // 2, h)
            f = rest_of_product(table.frequency, column // 2, h)
            odd = turns - 2.0 * (turns * 0.5 + ROUNDING - ROUNDING)
            odd = odd * odd
            sign, square = 1.0 - 2.0 * odd, f * f
            sine, cosine = square * SINE[4] + SINE[3], square * COSINE[5] + COSINE[4]
            for k in range(3):
                sine = sine * square + SINE[2 - k]
            for k in range(4):
                cosine = cosine * square + COSINE[3 - k]
            sine = sine * f
            less = odd * 2.0 + sine * sine * 2.0 * sign  # 1 - cos of the angle
            re, im = radius - radius * less, radius * sign * (2.0 * sine * cosine)
            store_modes(holds.transition, o, narrow, re, im)
            change = shrinkage - shrinkage * less - less
            gain_re, gain_im = change * shrink_re - im * shrink_im, change * shrink_im + im * shrink_re
            store_modes(holds.gain, o, narrow, gain_re, gain_im)
