"""Every configuration of every kernel that dispatch can select, for compilers and executors that have no GPU."""

from collections.abc import Iterator

import torch

from alphabet_triton import inference, training
from alphabet_triton.blocks import EDGE, SCAN
from alphabet_triton.launching import Launch
from alphabet_triton.shapes import Masks, Shape, no_masks
from alphabet_triton.weights import BankWeights, Weights

TYPES = {torch.float32: "*fp32", torch.float64: "*fp64", torch.int32: "*i32", torch.uint8: "*u8"}
CPU = torch.device("cpu")


def signature(launch: Launch) -> dict[str, str]:
    """Types of the run-time arguments, as Triton's compiler wants them."""
    tensors = {name: TYPES[tensor.dtype] for name, tensor in launch.tensors.items()}
    return {**tensors, **dict.fromkeys(launch.scalars, "i32")}


def make_weights(shape: Shape, outputs: int) -> Weights:
    """Empty ones of the right sizes."""
    width, states = shape.width, 2 * shape.modes

    def bank() -> BankWeights:
        return BankWeights(torch.empty(width, 5), torch.empty(width), torch.empty(states, width), torch.empty(states))

    return Weights(
        project=torch.empty(width, shape.channels),
        direct=bank(),
        synthesis=torch.empty(width, states),
        through=torch.empty(width),
        cascaded=bank(),
        head=torch.empty(outputs, 7 * states),
        head_bias=torch.empty(outputs),
    )


def list_launches(shape: Shape, outputs: int, masks: Masks) -> list[Launch]:
    """All launches of inference and of a training step, forward and backward."""
    weights, values = make_weights(shape, outputs), torch.empty(shape.batch, shape.length, shape.channels)
    infer = inference.plan_forward(shape, masks, values, weights, inference.allocate(shape, outputs, CPU))
    forward, saved = training.plan_forward(shape, masks, values, weights)
    backward, _ = training.plan_backward(shape, masks, values, weights, saved, torch.empty(shape.sums))
    return [*infer, *forward, *backward]


def list_configurations() -> Iterator[Launch]:
    """One launch of each: kernel, block sizes, flags and warps."""
    seen = set()
    bytes_ = torch.empty(1, 64, dtype=torch.uint8)
    for width in EDGE:
        for modes in (mode for mode in (1, *SCAN, 16, 32, 64) if 2 * mode <= width):
            for outputs in (1, 5, 100):
                for masks in (no_masks(CPU), Masks(bytes_, bytes_)):
                    for launch in list_launches(Shape(1, 64, 2, width, modes), outputs, masks):
                        key = (
                            launch.name,
                            *sorted(launch.constants.items()),
                            launch.blocks.warps,
                            launch.blocks.stages,
                        )
                        if key not in seen:
                            seen.add(key)
                            yield launch
