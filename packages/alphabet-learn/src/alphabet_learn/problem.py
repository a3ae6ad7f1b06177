"""What is to be learned: targets in the form that every engine takes, whatever the labels look like outside."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Kind = Literal["classification", "multilabel", "regression"]


@dataclass(frozen=True)
class Problem:
    """N targets and how much each counts.

    targets (N, K) float64. Classification: one column of 0 and 1 for two classes, else one column per class with a
    single 1 in each row. Multilabel: 0 or 1 per label. Regression: the values.
    weights (N,) float64, positive or zero, with mean 1: sample weights times class weights.
    """

    kind: Kind
    targets: Doubles
    weights: Doubles

    @property
    def outputs(self) -> int:
        """K: how many scores a series gets."""
        return int(self.targets.shape[1])
