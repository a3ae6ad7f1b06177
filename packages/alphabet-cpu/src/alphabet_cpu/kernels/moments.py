"""Moments of states, the descriptor and the logits, forward and backward (Algorithm 1, lines 10, 15 and the head).

A moment is the sum over tokens of z[t] conj(q[t]), where q[t] is the state one lag earlier; the energy is lag zero.
Three lags are one pass over the states, so that any lags run through the same loops. Everything after the sums is
`alphabet_core.moments.condition` and the head, in float64.
"""

import numpy as np

from alphabet_cpu.compiling import inlined, kernel
from alphabet_cpu.kernels.clock import HERE, count_supported, sample_modes, sample_rows, scatter_modes
from alphabet_cpu.kernels.lanes import add_doubles, load, splat
from alphabet_cpu.kernels.layout import TAPS, is_masked
from alphabet_cpu.kernels.modes import add_modes, count_sums, group_columns, load_modes, store_modes

GROUP = 3  # lags in one pass: with the energy, seven sums and what they read are in registers


@inlined
def is_pair(valid, tokens, i, lag):
    """Whether token i and the one a lag earlier both are tokens of the sequence and valid."""
    token = tokens.first + i
    return tokens.time + i >= lag and not is_masked(valid, token) and not is_masked(valid, token - lag)


@kernel
def count_pairs(lookups, tokens, lags, valid, pairs):
    """Write how many pairs a sequence's energy and lags are sums over, (1 + L,), at least one each."""
    for k in range(1 + lags.size):
        if lookups is None:
            lag = lags[k - 1] if k > 0 else 0
            found = max(0, tokens.count - lag)
            if valid.given:
                found = 0
                for i in range(tokens.count):
                    found += is_pair(valid, tokens, i, lag)
        else:
            found = count_supported(lookups, TAPS + k - 1 if k > 0 else HERE, tokens.count)
        pairs[k] = max(1, found)


@kernel
def pick(lags, k):
    """The k-th lag, or zero if there are not so many."""
    return lags[k] if k < lags.size else 0


@inlined
def add_parts(sums, k, lags, at, modes, re, im):
    """Add the k-th lag's products to its two rows of sums, if there is such a lag."""
    if k < lags.size:
        add_doubles(sums, (1 + 2 * k) * modes + at, re)
        add_doubles(sums, (2 + 2 * k) * modes + at, im)


@kernel
def correlate_tokens(states, tokens, sizes, valid, sums):
    """Add energies and lag products of some tokens' states, which come after `history` rows, to sums (1 + 2 L, modes).

    The sum over these tokens is one of float32. Three lags at a time; those that are missing count as lag zero.
    """
    columns, modes, lags = sizes.columns, count_sums(sizes.columns), sizes.lags
    for k in range(0, max(1, lags.size), GROUP):
        lag_0, lag_1, lag_2 = pick(lags, k), pick(lags, k + 1), pick(lags, k + 2)
        for column in range(0, columns, group_columns(columns)):
            energy = re_0 = im_0 = re_1 = im_1 = re_2 = im_2 = splat(0.0)
            for i in range(tokens.count):
                if is_masked(valid, tokens.first + i):
                    continue
                o = (sizes.history + i) * columns + column
                z_re, z_im = load_modes(states, o, sizes.narrow)
                energy = energy + z_re * z_re + z_im * z_im
                # Without a mask the states in front of the sequence are zero, and so is their product.
                if not valid.given or is_pair(valid, tokens, i, lag_0):
                    q_re, q_im = load_modes(states, o - lag_0 * columns, sizes.narrow)
                    re_0 = re_0 + z_re * q_re + z_im * q_im
                    im_0 = im_0 + z_im * q_re - z_re * q_im
                if not valid.given or is_pair(valid, tokens, i, lag_1):
                    q_re, q_im = load_modes(states, o - lag_1 * columns, sizes.narrow)
                    re_1 = re_1 + z_re * q_re + z_im * q_im
                    im_1 = im_1 + z_im * q_re - z_re * q_im
                if not valid.given or is_pair(valid, tokens, i, lag_2):
                    q_re, q_im = load_modes(states, o - lag_2 * columns, sizes.narrow)
                    re_2 = re_2 + z_re * q_re + z_im * q_im
                    im_2 = im_2 + z_im * q_re - z_re * q_im
            at = column // 2
            if k == 0:
                add_doubles(sums, at, energy)
            add_parts(sums, k, lags, at, modes, re_0, im_0)
            add_parts(sums, k + 1, lags, at, modes, re_1, im_1)
            add_parts(sums, k + 2, lags, at, modes, re_2, im_2)


@kernel
def correlate_at(lookups, states, tokens, sizes, partners, sums):
    """The same on an irregular grid; partners: a buffer of as many rows as there are tokens."""
    columns, modes, start = sizes.columns, count_sums(sizes.columns), sizes.history * sizes.columns
    for k in range(1 + sizes.lags.size):
        sample_rows(lookups, TAPS + k - 1 if k > 0 else HERE, states, start, tokens.count, columns, partners)
        for column in range(0, columns, group_columns(columns)):
            re = im = splat(0.0)
            for i in range(tokens.count):
                p = i * columns + column
                z_re, z_im = load_modes(states, start + p, sizes.narrow)
                q_re, q_im = load_modes(partners, p, sizes.narrow)
                re, im = re + z_re * q_re + z_im * q_im, im + z_im * q_re - z_re * q_im
            at = column // 2
            if k == 0:
                add_doubles(sums, at, re)
            else:
                add_parts(sums, k - 1, sizes.lags, at, modes, re, im)


@kernel
def correlate(lookups, states, tokens, sizes, valid, partners, sums):
    """Add energies and lag products of some tokens' states to sums, on either grid."""
    if lookups is None:
        correlate_tokens(states, tokens, sizes, valid, sums)
    else:
        correlate_at(lookups, states, tokens, sizes, partners, sums)


@kernel
def correlate_bwd(lookups, states, tokens, end, sizes, valid, d_sums, adjoint):
    """Add the gradients of some tokens' states to adjoint (n, columns), given those of sums (1 + 2 L, modes).

    The states have `history` rows before and behind them, zero outside of the sequence, which has `end` tokens.
    """
    if lookups is None:
        for k in range(0, max(1, sizes.lags.size), GROUP):
            products_bwd(states, tokens, end, sizes, valid, d_sums, k, adjoint)
    else:
        for k in range(1 + sizes.lags.size):
            product_at_bwd(lookups, TAPS + k - 1 if k > 0 else HERE, states, tokens, sizes, d_sums, k, adjoint)


@inlined
def read_parts(d_sums, k, lags, at, modes):
    """The gradients of the k-th lag's two sums; zero if there is no such lag."""
    a = b = splat(0.0)
    if k < lags.size:
        a, b = load(d_sums, (1 + 2 * k) * modes + at), load(d_sums, (2 + 2 * k) * modes + at)
    return a, b


@kernel
def products_bwd(states, tokens, end, sizes, valid, d_sums, k, adjoint):
    """Add what three lags from the k-th on and, with the first, the energy give: a state has partners on both sides."""
    columns, modes, lags = sizes.columns, count_sums(sizes.columns), sizes.lags
    shift, narrow = sizes.history * columns, sizes.narrow
    lag_0, lag_1, lag_2 = pick(lags, k), pick(lags, k + 1), pick(lags, k + 2)
    for column in range(0, columns, group_columns(columns)):
        at = column // 2
        energy = load(d_sums, at) * (2.0 if k == 0 else 0.0)
        a_0, b_0 = read_parts(d_sums, k, lags, at, modes)
        a_1, b_1 = read_parts(d_sums, k + 1, lags, at, modes)
        a_2, b_2 = read_parts(d_sums, k + 2, lags, at, modes)
        for i in range(tokens.count):
            if is_masked(valid, tokens.first + i):
                continue
            here = i * columns + column
            o = here + shift
            d_re, d_im = load_modes(adjoint, here, narrow)
            z_re, z_im = load_modes(states, o, narrow)
            d_re, d_im = d_re + energy * z_re, d_im + energy * z_im
            for j in range(GROUP):
                lag = lag_0 if j == 0 else (lag_1 if j == 1 else lag_2)
                a, b = (a_0, b_0) if j == 0 else ((a_1, b_1) if j == 1 else (a_2, b_2))
                if not valid.given or is_pair(valid, tokens, i, lag):
                    q_re, q_im = load_modes(states, o - lag * columns, sizes.narrow)
                    d_re, d_im = d_re + a * q_re - b * q_im, d_im + a * q_im + b * q_re
                if not valid.given or (tokens.time + i + lag < end and is_pair(valid, tokens, i + lag, lag)):
                    q_re, q_im = load_modes(states, o + lag * columns, sizes.narrow)
                    d_re, d_im = d_re + a * q_re + b * q_im, d_im + a * q_im - b * q_re
            store_modes(adjoint, here, narrow, d_re, d_im)


@kernel
def product_at_bwd(lookups, lookup, states, tokens, sizes, d_sums, k, adjoint):
    """Add what the k-th lag's products give on an irregular grid, where partners are interpolated; 0 is the energy."""
    columns, modes, narrow = sizes.columns, count_sums(sizes.columns), sizes.narrow
    shift = sizes.history * columns
    for column in range(0, columns, group_columns(columns)):
        a = load(d_sums, max(0, 2 * k - 1) * modes + column // 2)
        b = load(d_sums, 2 * k * modes + column // 2)
        if k == 0:
            b = splat(0.0)
        for i in range(tokens.count):
            o, at = i * columns + column, lookup * lookups.capacity + i
            if lookups.near[at] == 0.0 and lookups.far[at] == 0.0:
                continue
            z_re, z_im = load_modes(states, o + shift, sizes.narrow)
            q_re, q_im = sample_modes(lookups, at, states, shift + column, columns, narrow)
            add_modes(adjoint, o, narrow, a * q_re - b * q_im, a * q_im + b * q_re)
            scatter_modes(lookups, at, a * z_re + b * z_im, a * z_im - b * z_re, adjoint, column, columns, narrow)


@kernel
def condition_sums(sums, pairs, descriptor):
    """Write the descriptor (banks, M, 1 + 2 L), log energy and rlog of each lag, of sums over pairs (1 + L,)."""
    banks, modes, moments = descriptor.shape
    for bank in range(banks):
        for mode in range(modes):
            descriptor[bank, mode, 0] = np.log1p(sums[bank, 0, mode] / pairs[0])
            for lag in range(moments // 2):
                re = sums[bank, 1 + 2 * lag, mode] / pairs[1 + lag]
                im = sums[bank, 2 + 2 * lag, mode] / pairs[1 + lag]
                radius = np.sqrt(re * re + im * im)
                ratio = np.log1p(radius) / radius if radius != 0.0 else 1.0
                descriptor[bank, mode, 1 + 2 * lag] = re * ratio
                descriptor[bank, mode, 2 + 2 * lag] = im * ratio


@kernel
def read_head(descriptor, weight, bias, logits):
    """Write the logits (K,) of a descriptor (banks, M, 1 + 2 L) by the affine head, in float64."""
    features = descriptor.reshape(-1)
    for k in range(len(logits)):
        logits[k] = bias[k]
    for j in range(len(features)):
        for k in range(len(logits)):  # inside, so that the sums do not wait for each other
            logits[k] += weight[k, j] * features[j]


@kernel
def descriptor_bwd(sums, pairs, d_descriptor, d_sums):
    """Write the gradients of the sums (banks, 1 + 2 L, modes), in float32, given the descriptor's (banks, M, 1 + 2 L).

    With u = r e, rlog(u) = log(1 + r) e stretches along e by 1 / (1 + r), and across by log(1 + r) / r.
    """
    banks, modes, moments = d_descriptor.shape
    for bank in range(banks):
        for mode in range(modes):
            d_sums[bank, 0, mode] = d_descriptor[bank, mode, 0] / (pairs[0] + sums[bank, 0, mode])
            for lag in range(moments // 2):
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
