"""Probabilities from scores, fitted on leave-one-out scores, so that no series is held out for them.

    binary, multilabel   sigmoid(scale * score), a scale per column
    multiclass           softmax(scale * scores), one scale

The scale maximizes the weighted likelihood of Platt's smoothed targets: (n + 1) / (n + classes) in place of 1 for a
class of n series, which keeps it finite when scores separate the classes. There are no offsets: with them the most
probable class could differ from the one with the highest score, and `predict` from `predict_proba`; the ridge head's
intercept has centred the scores already. So the most probable class is always the first of those with the highest
score, and a probability exceeds 1/2 exactly where its score exceeds 0, also where rounding would tie. With class
weights the probabilities are those of classes as frequent as the weights make them.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from alphabet_learn.errors import LearnError
from alphabet_learn.problem import Problem

Doubles = NDArray[np.float64]
Form = Literal["binary", "multiclass", "multilabel"]

# Targets of -1 and 1 make (1 + score) / 2 an estimate of the probability, whose logit has the slope 2 at 0.
START = 2.0
BOUNDS = (1e-4 * START, 1e6 * START)
# How firmly log(scale) is held at log(START), in units of one series' likelihood: decides only where data do not.
HOLD = 0.01


@dataclass(frozen=True)
class Calibration:
    """Scales (K,) for binary or multilabel scores, (1,) for multiclass ones."""

    form: Form
    scale: Doubles

    def probabilities(self, scores: Doubles) -> Doubles:
        """Probabilities (N, 2) for binary scores (N, 1), else (N, K) for scores (N, K)."""
        scores = np.asarray(scores, np.float64)
        if self.form == "multiclass":
            return _softmax(scores, float(self.scale[0]))
        positive = _sigmoid(scores, self.scale)
        if self.form == "multilabel":
            return positive
        negative = np.minimum(_sigmoid(-scores, self.scale), np.where(scores > 0, np.nextafter(0.5, 0), 1))
        return np.hstack((negative, positive))


def fit_calibration(scores: Doubles, problem: Problem) -> Calibration:
    """The calibration of leave-one-out scores (N, K) for a classification or multilabel problem of N series."""
    if problem.kind == "regression":
        raise LearnError("A regression has no probabilities to calibrate; use predict in place of predict_proba.")
    scores = np.asarray(scores, np.float64)
    if problem.kind == "classification" and problem.outputs > 1:
        return Calibration("multiclass", np.array([_fit_scale(scores, problem.targets, problem.weights)]))
    # A sigmoid is the softmax over the scores 0 and s.
    scales = [
        _fit_scale(
            np.stack((np.zeros(len(scores)), scores[:, k]), axis=1),
            np.stack((1 - problem.targets[:, k], problem.targets[:, k]), axis=1),
            problem.weights,
        )
        for k in range(problem.outputs)
    ]
    return Calibration("binary" if problem.kind == "classification" else "multilabel", np.array(scales))


def _fit_scale(scores: Doubles, indicators: Doubles, weights: Doubles) -> float:
    """The scale of the softmax over scores (N, K) for true classes marked by 1 in indicators (N, K)."""
    counts = weights @ indicators  # (K,)
    own = indicators @ counts  # (N,) weight of each row's class
    smoothed = (indicators * own[:, None] + 1) / (own + indicators.shape[1])[:, None]
    with np.errstate(over="ignore"):  # differences beyond the largest double are as good as that
        spread = np.nan_to_num(scores - scores.max(1, keepdims=True))  # (N, K), none positive
    expected = smoothed * spread  # the part of the slope that no scale changes

    def slope(log_scale: float) -> float:
        """The derivative of the negative log likelihood and the hold by log(scale)."""
        scale = math.exp(log_scale)
        with np.errstate(over="ignore"):
            share = np.exp(scale * spread)
        share /= share.sum(1, keepdims=True)
        with np.errstate(over="ignore"):
            difference = (share * spread - expected).sum(1)
            gain = float(np.nan_to_num(scale * (weights @ difference)))
        return gain + HOLD * (log_scale - math.log(START))

    low, high = math.log(BOUNDS[0]), math.log(BOUNDS[1])
    if slope(low) >= 0:
        return BOUNDS[0]
    if slope(high) <= 0:
        return BOUNDS[1]
    return math.exp(brentq(slope, low, high, xtol=1e-10))


def _sigmoid(scores: Doubles, scale: Doubles) -> Doubles:
    """sigmoid(scale * scores), above 1/2 for every positive score."""
    with np.errstate(over="ignore"):
        share: Doubles = expit(scale * scores)
    return np.where(scores > 0, np.maximum(share, np.nextafter(0.5, 1)), share)


def _softmax(scores: Doubles, scale: float) -> Doubles:
    """softmax(scale * scores) by row; only the highest score has the highest probability."""
    highest = scores.max(1, keepdims=True)
    with np.errstate(over="ignore"):
        share = np.exp(scale * (scores - highest))
    share /= share.sum(1, keepdims=True)
    top = share.max(1, keepdims=True)
    return np.where((scores < highest) & (share >= top), np.nextafter(top, 0), share)
