"""From moment sums to the descriptor and back, in float64: what `alphabet_core.moments.condition` does, per row."""

import numpy as np

from alphabet_cpu.arithmetic import kernel
from alphabet_cpu.inference import MOMENTS

LAG_COUNT = (MOMENTS - 1) // 2


@kernel
def condition_sums(sums, pairs, descriptor):
    """Sums (B, 2, 7, padded modes) over pairs (B or 1, 4) to descriptor (B, 2, M, 7): log energy, rlog of each lag."""
    batch, banks, modes, _ = descriptor.shape
    for row in range(batch):
        counts = pairs[row if pairs.shape[0] > 1 else 0]
        for bank in range(banks):
            for mode in range(modes):
                descriptor[row, bank, mode, 0] = np.log1p(sums[row, bank, 0, mode] / counts[0])
                for lag in range(LAG_COUNT):
                    re = sums[row, bank, 1 + 2 * lag, mode] / counts[1 + lag]
                    im = sums[row, bank, 2 + 2 * lag, mode] / counts[1 + lag]
                    radius = np.sqrt(re * re + im * im)
                    ratio = np.log1p(radius) / radius if radius != 0.0 else 1.0
                    descriptor[row, bank, mode, 1 + 2 * lag] = re * ratio
                    descriptor[row, bank, mode, 2 + 2 * lag] = im * ratio


@kernel
def return_sums(sums, pairs, d_descriptor, d_sums):
    """The gradients of the sums; with u = r e, rlog(u) = log(1 + r) e stretches along e by 1 / (1 + r)."""
    batch, banks, modes, _ = d_descriptor.shape
    for row in range(batch):
        counts = pairs[row if pairs.shape[0] > 1 else 0]
        for bank in range(banks):
            for mode in range(modes):
                d_energy = d_descriptor[row, bank, mode, 0]
                d_sums[row, bank, 0, mode] = d_energy / (counts[0] + sums[row, bank, 0, mode])
                for lag in range(LAG_COUNT):
                    re = sums[row, bank, 1 + 2 * lag, mode] / counts[1 + lag]
                    im = sums[row, bank, 2 + 2 * lag, mode] / counts[1 + lag]
                    d_re = d_descriptor[row, bank, mode, 1 + 2 * lag]
                    d_im = d_descriptor[row, bank, mode, 2 + 2 * lag]
                    radius = np.sqrt(re * re + im * im)
                    if radius != 0.0:
                        across = np.log1p(radius) / radius
                        along = (1.0 / (1.0 + radius) - across) * (re * d_re + im * d_im) / (radius * radius)
                        d_re, d_im = across * d_re + along * re, across * d_im + along * im
                    d_sums[row, bank, 1 + 2 * lag, mode] = d_re / counts[1 + lag]
                    d_sums[row, bank, 2 + 2 * lag, mode] = d_im / counts[1 + lag]
