"""TCN: causal convolutions whose dilation doubles from layer to layer, with residual connections."""

from torch import Tensor, nn
from torch.nn import functional as F

from alphabet_baselines.convolution import ALGORITHMS, Convolution

__all__ = ["ALGORITHMS", "TCN"]


class TCN(nn.Module):
    """A stack of `depth` layers, one convolution each; layer l looks back (kernel - 1) 2**l tokens."""

    def __init__(self, inputs: int, width: int, depth: int, kernel: int, *, algorithm: str) -> None:
        super().__init__()
        self.first = Convolution(inputs, width, kernel, causal=True, algorithm=algorithm)
        self.layers = nn.ModuleList(
            Convolution(width, width, kernel, dilation=2**level, causal=True, algorithm=algorithm)
            for level in range(1, depth)
        )

    def forward(self, features: Tensor, _present: Tensor | None) -> Tensor:
        features = F.relu(self.first(features))
        for layer in self.layers:
            features = features + F.relu(layer(features))
        return features
