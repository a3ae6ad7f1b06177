"""LSTM: long short-term memory, torch's fused kernel."""

import torch
from torch import Tensor, nn

from alphabet_baselines.recurrent import ALGORITHMS, Recurrent

__all__ = ["ALGORITHMS", "LSTM"]


class LSTM(Recurrent):
    """An LSTM of `depth` layers. Output and memory are of size `width` each: the table's state size sets nothing."""

    states = 2

    def __init__(self, inputs: int, width: int, depth: int, _state: int, *, algorithm: str) -> None:
        super().__init__(nn.LSTM(inputs, width, depth, batch_first=True), algorithm=algorithm)

    def cell(self, from_input: Tensor, from_state: Tensor, state: list[Tensor]) -> list[Tensor]:
        enter, forget, candidate, leave = (from_input + from_state).chunk(4, dim=-1)
        memory = torch.sigmoid(forget) * state[1] + torch.sigmoid(enter) * torch.tanh(candidate)
        return [torch.sigmoid(leave) * torch.tanh(memory), memory]
