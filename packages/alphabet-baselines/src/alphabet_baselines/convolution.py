"""A convolution along time, by two exact algorithms: the library's kernel, or one matrix product over the taps."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ALGORITHMS = ("conv1d", "gemm")


class Convolution(nn.Conv1d):
    """A convolution (B, T, inputs) -> (B, T, outputs), zero outside the sequence; `causal` never reads the future."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, *, dilation: int = 1, causal: bool, algorithm: str
    ) -> None:
        super().__init__(inputs, outputs, kernel, dilation=dilation)
        reach = dilation * (kernel - 1)
        self.before = reach if causal else reach // 2
        self.after = reach - self.before
        self.algorithm = algorithm

    def forward(self, features: Tensor) -> Tensor:
        if self.algorithm == "conv1d":
            padded = F.pad(features.mT, (self.before, self.after))
            return F.conv1d(padded, self.weight, self.bias, dilation=self.dilation).mT
        length = features.shape[1]
        padded = F.pad(features, (0, 0, self.before, self.after))
        starts = range(0, self.before + self.after + 1, self.dilation[0])
        windows = torch.cat([padded[:, start : start + length] for start in starts], dim=-1)  # (B, T, kernel * inputs)
        taps = self.weight.permute(0, 2, 1).flatten(1)  # (outputs, kernel * inputs)
        return F.linear(windows, taps, self.bias)

    def extra_repr(self) -> str:
        kernel, dilation = self.kernel_size[0], self.dilation[0]
        sizes = f"{self.in_channels}, {self.out_channels}, kernel={kernel}, dilation={dilation}"
        return f"{sizes}, causal={self.after == 0}, algorithm={self.algorithm}"
