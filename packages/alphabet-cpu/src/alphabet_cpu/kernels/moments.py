"""Moments of states, the descriptor and the logits, forward and backward (Algorithm 1, lines 10, 15 and the head).

Everything after the sums is `alphabet_core.moments.condition` and the head, in float64.
"""

import numpy as np
from alphabet_core.fused import LAGS

from alphabet_cpu.compiling import kernel
from alphabet_cpu.kernels.lanes import LANES, add_doubles, load, splat
from alphabet_cpu.kernels.layout import is_masked
from alphabet_cpu.kernels.scan import HISTORY

LAG_COUNT = len(LAGS)
assert LAGS == (1, 2, 4)  # `correlate` writes them out


@kernel
def correlate(states, tokens, columns, valid, sums):
    """Add energies and lag products of some tokens' states, which come after four rows, to sums (7, modes) in float64.

    The sum over these tokens is one of float32.
    """
    modes, token, time = columns // 2, tokens.first, tokens.time
    for column in range(0, columns, 2 * LANES):
        energy = re_1 = im_1 = re_2 = im_2 = re_4 = im_4 = splat(0.0)
        for i in range(tokens.count):
            if is_masked(valid, token + i):
                continue
            o = (HISTORY + i) * columns + column
            z_re, z_im = load(states, o), load(states, o + LANES)
            energy = energy + z_re * z_re + z_im * z_im
            # Without a mask the states in front of the sequence are zero, and so is their product.
            if not valid.given or (time + i >= 1 and not is_masked(valid, token + i - 1)):
                q_re, q_im = load(states, o - columns), load(states, o - columns + LANES)
                re_1 = re_1 + z_re * q_re + z_im * q_im
                im_1 = im_1 + z_im * q_re - z_re * q_im
            if not valid.given or (time + i >= 2 and not is_masked(valid, token + i - 2)):
                q_re, q_im = load(states, o - 2 * columns), load(states, o - 2 * columns + LANES)
                re_2 = re_2 + z_re * q_re + z_im * q_im
                im_2 = im_2 + z_im * q_re - z_re * q_im
            if not valid.given or (time + i >= 4 and not is_masked(valid, token + i - 4)):
                q_re, q_im = load(states, o - 4 * columns), load(states, o - 4 * columns + LANES)
                re_4 = re_4 + z_re * q_re + z_im * q_im
                im_4 = im_4 + z_im * q_re - z_re * q_im
        at = column // 2
        add_doubles(sums, at, energy)
        add_doubles(sums, at + modes, re_1)
        add_doubles(sums, at + 2 * modes, im_1)
        add_doubles(sums, at + 3 * modes, re_2)
        add_doubles(sums, at + 4 * modes, im_2)
        add_doubles(sums, at + 5 * modes, re_4)
        add_doubles(sums, at + 6 * modes, im_4)


@kernel
def condition_sums(sums, pairs, descriptor):
    """Write the descriptor (2, M, 7), log energy and rlog of each lag, of sums (2, 7, modes) over pairs (4,)."""
    banks, modes, _ = descriptor.shape
    for bank in range(banks):
        for mode in range(modes):
            descriptor[bank, mode, 0] = np.log1p(sums[bank, 0, mode] / pairs[0])
            for lag in range(LAG_COUNT):
                re = sums[bank, 1 + 2 * lag, mode] / pairs[1 + lag]
                im = sums[bank, 2 + 2 * lag, mode] / pairs[1 + lag]
                radius = np.sqrt(re * re + im * im)
                ratio = np.log1p(radius) / radius if radius != 0.0 else 1.0
                descriptor[bank, mode, 1 + 2 * lag] = re * ratio
                descriptor[bank, mode, 2 + 2 * lag] = im * ratio


@kernel
def read_head(descriptor, weight, bias, logits):
    """Write the logits (K,) of a descriptor (2, M, 7) by the affine head, in float64."""
    features = descriptor.reshape(-1)
    for k in range(len(logits)):
        logits[k] = bias[k]
        for j in range(len(features)):
            logits[k] += weight[k, j] * features[j]


@kernel
def descriptor_bwd(sums, pairs, d_descriptor, d_sums):
    """Write the gradients of the sums (2, 7, modes), in float32, given the descriptor's (2, M, 7).

    With u = r e, rlog(u) = log(1 + r) e stretches along e by 1 / (1 + r), and across by log(1 + r) / r.
    """
    banks, modes, _ = d_descriptor.shape
    for bank in range(banks):
        for mode in range(modes):
            d_sums[bank, 0, mode] = d_descriptor[bank, mode, 0] / (pairs[0] + sums[bank, 0, mode])
            for lag in range(LAG_COUNT):
                re = sums[bank, 1 + 2 * lag, mode] / pairs[1 + lag]
                im = sums[bank, 2 + 2 * lag, mode] / pairs[1 + lag]
                d_re = d_descriptor[bank, mode, 1 + 2 * lag]
                d_im = d_descriptor[bank, mode, 2 + 2 * lag]
                radius = np.sqrt(re * re + im * im)
                if radius != 0.0:
                    across = np.log1p(radius) / radius
                    along = (1.0 / (1.0 + radius) - across) * (re * d_re + im * d_im) / (radius * radius)
                    d_re, d_im = across * d_re + along * re, across * d_im + along * im
                d_sums[bank, 1 + 2 * lag, mode] = d_re / pairs[1 + lag]
                d_sums[bank, 2 + 2 * lag, mode] = d_im / pairs[1 + lag]
