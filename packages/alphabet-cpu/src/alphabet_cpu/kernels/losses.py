"""The losses of a training step with their gradients, and the affine head's, in float64.

A loss of outputs (B, K) is the mean of `LOSSES` in alphabet_core times the batch's share. Targets that the loss is not
written for end it: then the result is not `covered`, and what torch says of them holds.
"""

import math

import numpy as np

from alphabet_cpu.compiling import array_kernel, kernel


@kernel
def cross_entropy(outputs, targets, share, d_outputs):
    """Whether all targets (B,) are classes, and the loss, whose gradient (B, K) is written."""
    batch, classes = outputs.shape
    loss, each = 0.0, share / batch
    for b in range(batch):
        target = targets[b]
        if target < 0 or target >= classes:
            return False, 0.0
        largest = outputs[b, 0]
        for k in range(classes):
            largest = max(largest, outputs[b, k])
        total = 0.0
        for k in range(classes):
            d_outputs[b, k] = math.exp(outputs[b, k] - largest)
            total += d_outputs[b, k]
        for k in range(classes):
            d_outputs[b, k] *= each / total
        d_outputs[b, target] -= each
        loss += math.log(total) + (largest - outputs[b, target])  # where both are large, their difference comes first
    return True, loss * each


@kernel
def multilabel(outputs, targets, share, d_outputs):
    """Whether all targets (B, K) lie in 0 ... 1, and the loss, whose gradient (B, K) is written."""
    batch, classes = outputs.shape
    loss, each = 0.0, share / (batch * classes)
    for b in range(batch):
        for k in range(classes):
            output, target = outputs[b, k], np.float64(targets[b, k])
            if not 0.0 <= target <= 1.0:
                return False, 0.0
            small = math.exp(-abs(output))
            probability = (1.0 if output >= 0.0 else small) / (1.0 + small)
            loss += max(output, 0.0) - output * target + math.log1p(small)
            d_outputs[b, k] = (probability - target) * each
    return True, loss * each


@kernel
def mse(outputs, targets, share, d_outputs):
    """Whether all targets (B, K) are finite, and the loss, whose gradient (B, K) is written."""
    batch, classes = outputs.shape
    loss, each = 0.0, share / (batch * classes)
    for b in range(batch):
        for k in range(classes):
            target = np.float64(targets[b, k])
            if not math.isfinite(target):
                return False, 0.0
            error = outputs[b, k] - target
            loss += error * error
            d_outputs[b, k] = 2.0 * error * each
    return True, loss * each


@array_kernel
def head_bwd(d_outputs, descriptor, head, d_head, d_bias, d_descriptor):
    """Write the gradients of the affine head (K, F), its bias (K,) and descriptor (B, F), given the outputs' (B, K).

    Those of the head are float32, summed up in float64.
    """
    (batch, classes), features = d_outputs.shape, descriptor.shape[1]
    row = np.empty(features)
    for k in range(classes):
        row[:] = 0.0
        bias = 0.0
        for b in range(batch):
            d = d_outputs[b, k]
            bias += d
            for f in range(features):
                row[f] += d * descriptor[b, f]
        d_bias[k] = bias
        for f in range(features):
            d_head[k, f] = row[f]
    for b in range(batch):
        for f in range(features):
            row[f] = 0.0
        for k in range(classes):
            d = d_outputs[b, k]
            for f in range(features):
                row[f] += d * head[k, f]
        for f in range(features):
            d_descriptor[b, f] = row[f]
