"""`alphabet_core.folding` and its derivative by hand, for frames at their base, as after every step; in float64.

A gradient of complex z is dL/dRe + i dL/dIm; through w = a z it becomes conj(a) dw.
"""

import numpy as np
from alphabet_core.fused import DECAY_MAX, DECAY_MIN, FREQUENCY_MAX, TANGENT_SCALE

from alphabet_cpu.compiling import kernel
from alphabet_cpu.lanes import LANES
from alphabet_cpu.layout import TAPS, unpack


@kernel
def read(re, im):
    """Two float32 numbers as a complex one in float64."""
    return complex(np.float64(re), np.float64(im))


@kernel
def place(mode):
    """The column of a mode's real part, sixteen before that of its imaginary part."""
    return mode // LANES * 2 * LANES + mode % LANES


@kernel
def hold(raw_decay, raw_frequency):
    """A pole, its transition p over one token and its gain (p - 1) / pole, without cancellation."""
    decay = DECAY_MIN + (DECAY_MAX - DECAY_MIN) / (1.0 + np.exp(-np.float64(raw_decay)))
    turn = FREQUENCY_MAX * np.tanh(np.float64(raw_frequency))
    pole, radius = complex(-decay, turn), np.exp(-decay)
    transition = complex(radius * np.cos(turn), radius * np.sin(turn))
    change = complex(np.expm1(-decay) * np.cos(turn) - 2.0 * np.sin(0.5 * turn) ** 2, transition.imag)
    return pole, transition, change / pole


@kernel
def fold_bank(bank, sizes, taps, drive, transition):
    """A bank's taps, drive matrix and transition."""
    lift_kernel, lift_bias, norm, raw_decay, raw_frequency, base, _ = bank
    _, features, width, columns = sizes
    modes = raw_decay.size
    for d in range(features):
        for k in range(TAPS):
            taps[k * width + d] = lift_kernel[d, k]
        taps[TAPS * width + d] = lift_bias[d]
    for m in range(modes):
        _, step, gain = hold(raw_decay[m], raw_frequency[m])
        c = place(m)
        transition[c], transition[c + LANES] = step.real, step.imag
        for d in range(features):
            weight = norm[d] * read(base[d, m], base[d, modes + m]) * gain
            drive[d * columns + c], drive[d * columns + c + LANES] = weight.real, weight.imag


@kernel
def fold_at_base(project, direct, cascaded, scale, feedthrough, sizes, packed):
    """Fill the packed weights, which are zero where nothing belongs.

    A bank is a tuple: lift kernel (D, 5) and bias (D,), norm gain (D,), raw decay and frequency (M,), the frame's base
    (D, D) and its tangent.
    """
    channels, features, width, _ = sizes
    matrix, taps_1, drive_1, transition_1, synthesis, through, taps_2, drive_2, transition_2 = unpack(packed, sizes)
    fold_bank(direct, sizes, taps_1, drive_1, transition_1)
    fold_bank(cascaded, sizes, taps_2, drive_2, transition_2)
    norm, base, modes = direct[2], direct[5], direct[3].size
    for d in range(features):
        for c in range(channels):
            matrix[c * width + d] = project[d, c]
        through[d] = np.float64(scale[d]) * feedthrough[d] * norm[d]
        for m in range(modes):
            synthesis[place(m) * width + d] = np.float64(scale[d]) * base[d, m]
            synthesis[(place(m) + LANES) * width + d] = np.float64(scale[d]) * base[d, modes + m]


@kernel
def return_bank(bank, sizes, d_taps, d_drive, d_transition, d_frame, d_norm, d_bank):
    """Gradients of a bank's parameters, in its order; d_frame (D, M) and d_norm (D,) hold what the synthesis adds."""
    _, _, norm, raw_decay, raw_frequency, base, _ = bank
    d_kernel, d_bias, d_gain_norm, d_decay, d_frequency, _, d_tangent = d_bank
    _, features, width, columns = sizes
    modes = raw_decay.size
    for d in range(features):
        for k in range(TAPS):
            d_kernel[d, k] = d_taps[k * width + d]
        d_bias[d] = d_taps[TAPS * width + d]
    for m in range(modes):
        pole, step, gain = hold(raw_decay[m], raw_frequency[m])
        c = place(m)
        d_gain = 0.0j
        for d in range(features):
            frame = read(base[d, m], base[d, modes + m])
            d_weight = read(d_drive[d * columns + c], d_drive[d * columns + c + LANES])
            turned = d_weight * gain.conjugate()
            d_norm[d] += (turned.conjugate() * frame).real
            d_gain += norm[d] * frame.conjugate() * d_weight
            d_frame[d, m] += norm[d] * turned
        # Through p = exp(pole) and (p - 1) / pole, whose derivatives are p and (p - gain) / pole.
        d_step = read(d_transition[c], d_transition[c + LANES])
        d_pole = d_step * step.conjugate() + d_gain * ((step - gain) / pole).conjugate()
        share, turn = (-pole.real - DECAY_MIN) / (DECAY_MAX - DECAY_MIN), pole.imag / FREQUENCY_MAX
        d_decay[m] = -d_pole.real * (DECAY_MAX - DECAY_MIN) * share * (1.0 - share)
        d_frequency[m] = d_pole.imag * FREQUENCY_MAX * (1.0 - turn * turn)
    d_gain_norm[:] = d_norm
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
            d_tangent[i, j] = TANGENT_SCALE * (moved[i, j] - across)


@kernel
def return_fold(
    direct, cascaded, scale, feedthrough, sizes, d_packed, d_project, d_direct, d_cascaded, d_scale, d_feedthrough
):  # fmt: skip
    """Gradients of the parameters, in arrays like them, from that of the packed weights."""
    channels, features, width, _ = sizes
    d_matrix, d_taps_1, d_drive_1, d_transition_1, d_synthesis, d_through, d_taps_2, d_drive_2, d_transition_2 = unpack(
        d_packed, sizes
    )
    norm, base, modes = direct[2], direct[5], direct[3].size
    d_frame, d_norm = np.zeros((features, modes), np.complex128), np.zeros(features)
    for d in range(features):
        for c in range(channels):
            d_project[d, c] = d_matrix[c * width + d]
        through = np.float64(d_through[d])
        d_of_scale = through * feedthrough[d] * norm[d]
        for m in range(modes):
            o = place(m) * width + d
            back = read(d_synthesis[o], d_synthesis[o + LANES * width])
            d_of_scale += back.real * base[d, m] + back.imag * base[d, modes + m]
            d_frame[d, m] = scale[d] * back
        d_scale[d] = d_of_scale
        d_feedthrough[d] = through * scale[d] * norm[d]
        d_norm[d] = through * scale[d] * feedthrough[d]
    return_bank(direct, sizes, d_taps_1, d_drive_1, d_transition_1, d_frame, d_norm, d_direct)
    d_frame[:], d_norm[:] = 0.0, 0.0
    return_bank(cascaded, sizes, d_taps_2, d_drive_2, d_transition_2, d_frame, d_norm, d_cascaded)
