"""accelerated-scan: the first-order recurrence of real and of complex numbers, forward and backward."""

import torch
from case import FP32, Compared, Source, compare, normal
from torch import Tensor

SCAN = Source("accelerated-scan")


def recurrence(forget: Tensor, inputs: Tensor) -> Tensor:
    """x[t] = forget[t] x[t-1] + inputs[t] along the last axis."""
    state, states = torch.zeros_like(inputs[..., 0]), []
    for t in range(inputs.shape[-1]):
        state = forget[..., t] * state + inputs[..., t]
        states.append(state)
    return torch.stack(states, -1)


def complex_recurrence(forget: Tensor, inputs: Tensor) -> Tensor:
    """The same for pairs of a real and an imaginary part in the last axis."""
    return torch.view_as_real(recurrence(torch.view_as_complex(forget), torch.view_as_complex(inputs)))


@SCAN.case("real", FP32)
def real() -> list[Compared]:
    from accelerated_scan.scalar import scan

    return compare(scan, recurrence, normal(1, 2, 2048).sigmoid(), normal(1, 2, 2048, seed=1))


# Backward loads the state before a step where `t > 0`, also where t is behind the end of the sequence.
@SCAN.case("real, T no multiple of the block", FP32, fault="read of global memory out of range")
def real_part() -> list[Compared]:
    from accelerated_scan.scalar import scan

    return compare(scan, recurrence, normal(1, 2, 300).sigmoid(), normal(1, 2, 300, seed=1))


@SCAN.case("complex", FP32)
def complex_numbers() -> list[Compared]:
    from accelerated_scan.complex import scan

    def launch(forget: Tensor, inputs: Tensor) -> Tensor:
        return torch.view_as_real(scan(torch.view_as_complex(forget), torch.view_as_complex(inputs)))

    return compare(launch, complex_recurrence, normal(1, 1, 500, 2, scale=0.5), normal(1, 1, 500, 2, seed=1))
