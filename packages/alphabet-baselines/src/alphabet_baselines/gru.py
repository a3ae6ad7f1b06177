"""GRU: gated recurrent units, torch's fused kernel."""

import torch
from torch import Tensor, nn

from alphabet_baselines.recurrent import ALGORITHMS, Recurrent

__all__ = ["ALGORITHMS", "GRU"]


class GRU(Recurrent):
    """A GRU of `depth` layers. Its state is its output, of size `width`: the table's state size sets nothing."""

    states = 1

    def __init__(self, inputs: int, width: int, depth: int, _state: int, *, algorithm: str) -> None:
        super().__init__(nn.GRU(inputs, width, depth, batch_first=True), algorithm=algorithm)

    def cell(self, from_input: Tensor, from_state: Tensor, state: list[Tensor]) -> list[Tensor]:
        reset_in, update_in, new_in = from_input.chunk(3, dim=-1)
        reset_state, update_state, new_state = from_state.chunk(3, dim=-1)
        update = torch.sigmoid(update_in + update_state)
        new = torch.tanh(new_in + torch.sigmoid(reset_in + reset_state) * new_state)
        return [new + update * (state[0] - new)]
