"""From moment sums to descriptor and logits, and back: `alphabet_core.moments.condition` and the head, in float64."""

import numpy as np

from alphabet_cpu.compiling import kernel

MOMENTS = 7  # energy, and the real and imaginary parts of three lags
LAG_COUNT = (MOMENTS - 1) // 2


@kernel
def condition_sums(sums, counts, descriptor):
    """Sums (2, 7, padded modes) over so many pairs (4,) to descriptor (2, M, 7): log energy, rlog of each lag."""
    banks, modes, _ = descriptor.shape
    for bank in range(banks):
        for mode in range(modes):
            descriptor[bank, mode, 0] = np.log1p(sums[bank, 0, mode] / counts[0])
            for lag in range(LAG_COUNT):
                re = sums[bank, 1 + 2 * lag, mode] / counts[1 + lag]
                im = sums[bank, 2 + 2 * lag, mode] / counts[1 + lag]
                radius = np.sqrt(re * re + im * im)
                ratio = np.log1p(radius) / radius if radius != 0.0 else 1.0
                descriptor[bank, mode, 1 + 2 * lag] = re * ratio
                descriptor[bank, mode, 2 + 2 * lag] = im * ratio


@kernel
def read_head(descriptor, weight, bias, logits):
    """The affine head: logits (K,) of a descriptor (2, M, 7), in float64."""
    features = descriptor.reshape(-1)
    for k in range(len(logits)):
        logits[k] = bias[k]
        for j in range(len(features)):
            logits[k] += weight[k, j] * features[j]


@kernel
def return_sums(sums, counts, d_descriptor, d_sums):
    """The gradients of the sums, float32; with u = r e, rlog(u) = log(1 + r) e stretches along e by 1 / (1 + r)."""
    banks, modes, _ = d_descriptor.shape
    for bank in range(banks):
        for mode in range(modes):
            d_sums[bank, 0, mode] = d_descriptor[bank, mode, 0] / (counts[0] + sums[bank, 0, mode])
            for lag in range(LAG_COUNT):
                re = sums[bank, 1 + 2 * lag, mode] / counts[1 + lag]
                im = sums[bank, 2 + 2 * lag, mode] / counts[1 + lag]
                d_re = d_descriptor[bank, mode, 1 + 2 * lag]
                d_im = d_descriptor[bank, mode, 2 + 2 * lag]
                radius = np.sqrt(re * re + im * im)
                if radius != 0.0:
                    across = np.log1p(radius) / radius
                    along = (1.0 / (1.0 + radius) - across) * (re * d_re + im * d_im) / (radius * radius)
                    d_re, d_im = across * d_re + along * re, across * d_im + along * im
                d_sums[bank, 1 + 2 * lag, mode] = d_re / counts[1 + lag]
                d_sums[bank, 2 + 2 * lag, mode] = d_im / counts[1 + lag]
