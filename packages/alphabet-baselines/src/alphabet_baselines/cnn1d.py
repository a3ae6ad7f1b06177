"""CNN1D: centred convolutions with ReLU, the fully convolutional network of time-series classification."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alphabet_baselines.convolution import ALGORITHMS, Convolution

__all__ = ["ALGORITHMS", "CNN1D"]


class CNN1D(nn.Module):
    """A stack of `depth` convolutions of odd size `kernel`; a token sees as many neighbours on either side."""

    def __init__(self, inputs: int, width: int, depth: int, kernel: int, *, algorithm: str) -> None:
        super().__init__()
        sizes = [inputs, *[width] * depth]
        self.layers = nn.ModuleList(
            Convolution(fan_in, fan_out, kernel, causal=False, algorithm=algorithm)
            for fan_in, fan_out in pairwise(sizes)
        )

    def forward(self, features: Tensor, present: Tensor | None) -> Tensor:
        for layer in self.layers:
            features = F.relu(layer(features))
            if present is not None:  # the next layer looks ahead, and past the end there has to be nothing
                features = torch.where(present.unsqueeze(-1), features, 0.0)
        return features
