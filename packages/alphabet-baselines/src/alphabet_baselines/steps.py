"""Initial time steps of the continuous-time families."""

import math

import torch
from torch import Tensor

STEP_MIN, STEP_MAX = 1e-3, 1e-1


def draw_log_steps(count: int) -> Tensor:
    """The logarithms (count,) of steps that are log-uniform over the range that S4, S5 and Mamba share."""
    return torch.empty(count).uniform_(math.log(STEP_MIN), math.log(STEP_MAX))
