"""Every kernel in every configuration that dispatch can select, to compile or execute them without a GPU."""

from collections.abc import Iterator

import torch
from alphabet_core import Alphabet, AlphabetConfig
from torch import Tensor

from alphabet_triton.blocks import EDGE
from alphabet_triton.forward import forward
from alphabet_triton.fused_adamw import FusedAdamW
from alphabet_triton.inference import infer
from alphabet_triton.inputs import Inputs
from alphabet_triton.launching import Launch, record
from alphabet_triton.ops.loss.launch import LOSS_FLAGS
from alphabet_triton.step import run_step
from alphabet_triton.weights import read_weights

TYPES = {torch.float32: "*fp32", torch.float64: "*fp64", torch.int32: "*i32", torch.int64: "*i64", torch.uint8: "*u8"}


def signature(launch: Launch) -> dict[str, str]:
    """The types of the run-time arguments by name, as Triton's compiler spells them."""
    tensors = {name: TYPES[tensor.dtype] for name, tensor in launch.tensors.items()}
    return {**tensors, **dict.fromkeys(launch.scalars, "i32")}


def configuration(launch: Launch) -> tuple[object, ...]:
    """All that the compiled code of a launch depends on: kernel, flags, block sizes, warps and stages."""
    return launch.name, *sorted(launch.constants.items()), launch.blocks.warps, launch.blocks.stages


def list_inference(model: Alphabet, batch: int, length: int, *, masked: bool) -> list[Launch]:
    """The launches of a forward pass without gradients."""
    values, mask = _make_batch(model, batch, length, masked)
    weights = read_weights(model)
    return record(lambda: infer(values, mask, mask, weights))[0]


def list_training(
    model: Alphabet, batch: int, length: int, *, masked: bool, loss: str = "cross_entropy"
) -> list[Launch]:
    """The launches of a complete training step. None is run."""
    values, mask = _make_batch(model, batch, length, masked)
    adamw, measured = FusedAdamW(list(model.parameters())), torch.zeros(())
    classes = loss == "cross_entropy"
    targets = torch.zeros(batch, dtype=torch.int64) if classes else torch.zeros(batch, model.config.outputs)
    inputs = Inputs(values, mask, mask)
    return record(lambda: run_step(model, inputs, targets, loss=loss, adamw=adamw, measured=measured))[0]


def list_operators(model: Alphabet, batch: int, length: int, *, masked: bool) -> list[Launch]:
    """The launches of a step by operators and autograd, without the loss. Gradients are meaningless."""
    values, mask = _make_batch(model, batch, length, masked)

    def step() -> None:
        forward(model, values, mask, mask).sum().backward()
        FusedAdamW(list(model.parameters())).run()

    return record(step)[0]


def _make_batch(model: Alphabet, batch: int, length: int, masked: bool) -> tuple[Tensor, Tensor | None]:
    mask = torch.ones(batch, length, dtype=torch.uint8) if masked else None
    return torch.zeros(batch, length, model.config.channels), mask


def list_configurations() -> Iterator[Launch]:
    """Yield one launch of each configuration."""
    seen = set()
    for width in EDGE:
        for modes in (1 << power for power in range(width.bit_length() - 1)):
            # Outputs only concern the head, which is the same for all widths.
            for outputs in (1, 2, 4, 8, 16, 32, 64) if width == max(EDGE) else (2,):
                for masked in (False, True):
                    model = Alphabet(AlphabetConfig(2, width, modes, outputs))
                    launches = list_inference(model, 1, 64, masked=masked)
                    launches += list_operators(model, 1, 64, masked=masked)
                    for loss in LOSS_FLAGS if not masked else ("cross_entropy",):  # which knows no masks
                        launches += list_training(model, 1, 64, masked=masked, loss=loss)
                    for launch in launches:
                        key = configuration(launch)
                        if key not in seen:
                            seen.add(key)
                            yield launch
