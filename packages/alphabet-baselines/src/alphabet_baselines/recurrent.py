"""What GRU and LSTM share: torch's fused stack of layers, and the same weights stepped token by token."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

ALGORITHMS = ("fused", "sequential")


class Recurrent(nn.Module, ABC):
    """A recurrent stack, computed by torch's kernel (oneDNN, cuDNN) or by a plain loop over the cell's definition."""

    def __init__(self, layers: nn.GRU | nn.LSTM, *, algorithm: str) -> None:
        super().__init__()
        self.layers = layers
        self.algorithm = algorithm

    def forward(self, features: Tensor, _present: Tensor | None) -> Tensor:
        if self.algorithm == "fused":
            outputs: Tensor = self.layers(features)[0]
            return outputs
        for layer in range(self.layers.num_layers):
            weights = {name: getattr(self.layers, f"{name}_l{layer}") for name in ("weight_ih", "weight_hh")}
            biases = {name: getattr(self.layers, f"{name}_l{layer}") for name in ("bias_ih", "bias_hh")}
            state = [features.new_zeros(features.shape[0], self.layers.hidden_size) for _ in range(self.states)]
            hidden = []
            for t in range(features.shape[1]):
                from_input = nn.functional.linear(features[:, t], weights["weight_ih"], biases["bias_ih"])
                from_state = nn.functional.linear(state[0], weights["weight_hh"], biases["bias_hh"])
                state = self.cell(from_input, from_state, state)
                hidden.append(state[0])
            features = torch.stack(hidden, dim=1)
        return features

    @property
    @abstractmethod
    def states(self) -> int:
        """The number of vectors that a token hands to the next, of which the first is the output."""

    @abstractmethod
    def cell(self, from_input: Tensor, from_state: Tensor, state: list[Tensor]) -> list[Tensor]:
        """The next state from the affine images (B, gates * width) of the input and of the output before."""

    def extra_repr(self) -> str:
        return f"algorithm={self.algorithm}"
