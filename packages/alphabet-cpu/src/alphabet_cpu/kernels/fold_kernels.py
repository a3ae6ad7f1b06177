"""The fold of parameters into weights, and its derivative, by hand: for frames at their base, as after every step.

It computes what the core's `fold` does, in float64. A gradient of complex z is dL/dRe + i dL/dIm; through w = a z it
becomes conj(a) dw.
"""

from typing import NamedTuple

import numpy as np
from alphabet_core.fused import DECAY_MAX, DECAY_MIN, FREQUENCY_MAX, TANGENT_SCALE

from alphabet_cpu.compiling import array_kernel, kernel
from alphabet_cpu.kernels.hold import read_pole
from alphabet_cpu.kernels.layout import TAPS, Floats, Sizes, unpack
from alphabet_cpu.kernels.modes import imaginary, real_column


class BankParameters(NamedTuple):
    """One bank's parameters, or their gradients.

    lift_kernel (D, 5), lift_bias (D,), norm_gain (D,), raw_decay and raw_frequency (M,), base (D, D), tangent (D, 2M)
    """

    lift_kernel: Floats
    lift_bias: Floats
    norm_gain: Floats
    raw_decay: Floats
    raw_frequency: Floats
    base: Floats
    tangent: Floats


class Parameters(NamedTuple):
    """The parameters of a model but for its head, or their gradients: project (D, C), scale (D,), feedthrough (D,).

    Where the model has no cascaded bank the direct one stands in for it, where it has no synthesis scale and
    feedthrough are empty; neither is read.
    """

    project: Floats
    direct: BankParameters
    cascaded: BankParameters
    scale: Floats
    feedthrough: Floats


@array_kernel
def name_parameters(parameters):
    """Parameters with their names, from the plain tuples that the host passes."""
    project, direct, cascaded, scale, feedthrough = parameters
    return Parameters(project, BankParameters(*direct), BankParameters(*cascaded), scale, feedthrough)


@kernel
def join(re, im):
    """The complex128 number of two float32 parts."""
    return complex(np.float64(re), np.float64(im))


@array_kernel
def hold(raw_decay, raw_frequency):
    """A pole, its transition p over one token and its gain (p - 1) / pole, without cancellation."""
    pole, transition, change = read_pole(raw_decay, raw_frequency)
    return pole, transition, change / pole


@array_kernel
def fold_bank(bank, sizes, weights):
    """Write a bank's weights, given its parameters."""
    taps, drive, transition, base, norm = weights.taps, weights.drive, weights.transition, bank.base, bank.norm_gain
    features, width, columns, modes = sizes.features, sizes.width, sizes.columns, bank.raw_decay.size
    for d in range(features):
        for k in range(TAPS):
            taps[k * width + d] = bank.lift_kernel[d, k]
        taps[TAPS * width + d] = bank.lift_bias[d]
    for m in range(modes):
        _, step, gain = hold(bank.raw_decay[m], bank.raw_frequency[m])
        c, apart = real_column(m, columns), imaginary(columns)
        transition[c], transition[c + apart] = step.real, step.imag
        for d in range(features):
            weight = norm[d] * join(base[d, m], base[d, modes + m]) * gain
            drive[d * columns + c], drive[d * columns + c + apart] = weight.real, weight.imag


@array_kernel
def fold_at_base(parameters, sizes, packed):
    """Write the packed weights, which must be zero at first, for lanes where nothing belongs stay as they are."""
    parameters, sizes = name_parameters(parameters), Sizes(*sizes)
    scale, feedthrough, direct = parameters.scale, parameters.feedthrough, parameters.direct
    width, weights = sizes.width, unpack(packed, sizes)
    fold_bank(direct, sizes, weights.direct)
    if sizes.cascaded:
        fold_bank(parameters.cascaded, sizes, weights.cascaded)
    base, modes, apart = direct.base, direct.raw_decay.size, imaginary(sizes.columns)
    for d in range(sizes.features):
        for c in range(sizes.channels):
            weights.project[c * width + d] = parameters.project[d, c]
        if sizes.synthesis:
            weights.through[d] = np.float64(scale[d]) * feedthrough[d] * direct.norm_gain[d]
            for m in range(modes):
                c = real_column(m, sizes.columns)
                weights.synthesis[c * width + d] = np.float64(scale[d]) * base[d, m]
                weights.synthesis[(c + apart) * width + d] = np.float64(scale[d]) * base[d, modes + m]


@array_kernel
def fold_if_at_base(parameters, sizes, packed):
    """The same if all tangents are zero; whether they are."""
    _, direct, cascaded, _, _ = parameters
    for bank in (direct, cascaded):
        for x in BankParameters(*bank).tangent.flat:
            if x != 0.0:
                return False
    fold_at_base(parameters, sizes, packed)
    return True


@array_kernel
def fold_bank_bwd(bank, sizes, d_weights, d_frame, d_norm, d_bank):
    """Write the gradients of a bank's parameters, given its weights'.

    d_frame (D, M) and d_norm (D,), in float64, hold what the synthesis adds, and are used up.
    """
    base, norm, modes = bank.base, bank.norm_gain, bank.raw_decay.size
    features, width, columns = sizes.features, sizes.width, sizes.columns
    d_taps, d_drive, d_transition = d_weights.taps, d_weights.drive, d_weights.transition
    for d in range(features):
        for k in range(TAPS):
            d_bank.lift_kernel[d, k] = d_taps[k * width + d]
        d_bank.lift_bias[d] = d_taps[TAPS * width + d]
    for m in range(modes):
        pole, step, gain = hold(bank.raw_decay[m], bank.raw_frequency[m])
        c, apart = real_column(m, columns), imaginary(columns)
        d_gain = 0.0j
        for d in range(features):
            frame = join(base[d, m], base[d, modes + m])
            d_weight = join(d_drive[d * columns + c], d_drive[d * columns + c + apart])
            turned = d_weight * gain.conjugate()
            d_norm[d] += (turned.conjugate() * frame).real
            d_gain += norm[d] * frame.conjugate() * d_weight
            d_frame[d, m] += norm[d] * turned
        # Through p = exp(pole) and (p - 1) / pole, whose derivatives are p and (p - gain) / pole.
        d_step = join(d_transition[c], d_transition[c + apart])
        d_pole = d_step * step.conjugate() + d_gain * ((step - gain) / pole).conjugate()
        share, turn = (-pole.real - DECAY_MIN) / (DECAY_MAX - DECAY_MIN), pole.imag / FREQUENCY_MAX
        d_bank.raw_decay[m] = -d_pole.real * (DECAY_MAX - DECAY_MIN) * share * (1.0 - share)
        d_bank.raw_frequency[m] = d_pole.imag * FREQUENCY_MAX * (1.0 - turn * turn)
    for d in range(features):
        d_bank.norm_gain[d] = d_norm[d]
    # Through base (1 + skew(tangent)) at a zero tangent.
    moved = np.zeros((features, 2 * modes))
    for k in range(features):
        for i in range(features):
            for m in range(modes):
                moved[i, m] += base[k, i] * d_frame[k, m].real
                moved[i, modes + m] += base[k, i] * d_frame[k, m].imag
    for i in range(features):
        for j in range(2 * modes):
            across = moved[j, i] if i < 2 * modes else 0.0
            d_bank.tangent[i, j] = TANGENT_SCALE * (moved[i, j] - across)


@array_kernel
def fold_bwd(parameters, sizes, d_packed, d_parameters):
    """Write the parameters' gradients, given the packed weights'; those of the frames' bases are left as they are."""
    parameters, sizes = name_parameters(parameters), Sizes(*sizes)
    d_parameters, d_weights, width = name_parameters(d_parameters), unpack(d_packed, sizes), sizes.width
    direct, scale, feedthrough = parameters.direct, parameters.scale, parameters.feedthrough
    norm, base, modes, apart = direct.norm_gain, direct.base, direct.raw_decay.size, imaginary(sizes.columns)
    d_frame, d_norm = np.zeros((sizes.features, modes), np.complex128), np.zeros(sizes.features)
    for d in range(sizes.features):
        for c in range(sizes.channels):
            d_parameters.project[d, c] = d_weights.project[c * width + d]
        if sizes.synthesis:
            through = np.float64(d_weights.through[d])
            d_scale = through * feedthrough[d] * norm[d]
            for m in range(modes):
                o = real_column(m, sizes.columns) * width + d
                d_synthesis = join(d_weights.synthesis[o], d_weights.synthesis[o + apart * width])
                d_scale += d_synthesis.real * base[d, m] + d_synthesis.imag * base[d, modes + m]
                d_frame[d, m] = scale[d] * d_synthesis
            d_parameters.scale[d] = d_scale
            d_parameters.feedthrough[d] = through * scale[d] * norm[d]
            d_norm[d] = through * scale[d] * feedthrough[d]
    fold_bank_bwd(direct, sizes, d_weights.direct, d_frame, d_norm, d_parameters.direct)
    if sizes.cascaded:
        d_frame, d_norm = np.zeros((sizes.features, modes), np.complex128), np.zeros(sizes.features)
        fold_bank_bwd(parameters.cascaded, sizes, d_weights.cascaded, d_frame, d_norm, d_parameters.cascaded)
