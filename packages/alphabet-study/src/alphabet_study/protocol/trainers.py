"""How a candidate is built and trained here: the fused trainer for ALPHABET, plain torch for the nine families."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from alphabet_baselines import Candidate
from alphabet_core import Alphabet, Examples, TrainingStep, adapt
from alphabet_core.fused import FusedTrainer
from alphabet_cpu import CpuRuntime, CpuTrainer
from torch import Tensor

from alphabet_study.protocol.folds import Folds
from alphabet_study.protocol.settings import ADAPTED


@dataclass(frozen=True)
class Trainer:
    """A training step with what predicts for its model; path says how the steps are computed, device where."""

    step: TrainingStep
    predict: Callable[..., Tensor]
    path: str
    device: str

    @property
    def parameters(self) -> int:
        """The number of trainable parameters."""
        return sum(parameter.numel() for parameter in self.step.parameters)


def make_trainer(family: str, candidate: Candidate, loss: str, folds: Folds, *, seed: int) -> Trainer:
    """A fresh model of a candidate, drawn by the seed, on the device that this machine has."""
    examples = folds.optimization
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(seed)
    model = candidate.build(channels=folds.channels, outputs=folds.outputs, metadata=read_metadata(examples))
    if family == ADAPTED:
        assert isinstance(model, Alphabet)
        adapt(model, examples.values, seed=seed, **examples.side_inputs())
    model = model.to(device)
    if isinstance(model, Alphabet):
        fused, predict = _fuse(model, candidate, loss, device)
        return Trainer(fused, predict, fused.path(examples.values, **examples.side_inputs()), device)
    step = TrainingStep(model, candidate.recipe, loss=loss, microbatch=candidate.microbatch)
    return Trainer(step, model, "torch", device)


def read_metadata(examples: Examples) -> tuple[str, ...]:
    """The side inputs that a family takes as channels; ALPHABET reads them as they are."""
    return tuple(name for name in ("observed", "time_delta") if name in examples.side_inputs())


def _fuse(model: Alphabet, candidate: Candidate, loss: str, device: str) -> tuple[FusedTrainer, Callable[..., Tensor]]:
    """The fused trainer and runtime of a device. The GPU's have not been run on one yet."""
    if device == "cuda":
        from alphabet_triton import TritonRuntime, TritonTrainer

        trainer = TritonTrainer(model, candidate.recipe, loss=loss, microbatch=candidate.microbatch)
        return trainer, TritonRuntime(model)
    return CpuTrainer(model, candidate.recipe, loss=loss, microbatch=candidate.microbatch), CpuRuntime(model)
