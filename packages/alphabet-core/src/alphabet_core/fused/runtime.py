"""The bases of fused runtimes: what a call does before and after the kernels, once for every device."""

from abc import abstractmethod

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from alphabet_core.frame import Frame
from alphabet_core.fused.dispatch import FusedDispatch, gradient_fallback_reason
from alphabet_core.model import Alphabet, require_alphabet
from alphabet_core.training import RECIPES, Recipe, TrainingStep


class FusedRuntime(FusedDispatch):
    """`runtime(values, time_delta=..., observed=..., valid=...)` gives the logits of `model`, without gradients.

    `path(...)` says whether a call runs the fused kernels or the reference, and why.
    """

    def __init__(self, model: Alphabet) -> None:
        self.alphabet = require_alphabet(model)

    @property
    def model(self) -> Alphabet:
        """The model, which may be changed but not exchanged."""
        return self.alphabet

    @torch.no_grad()
    def __call__(
        self,
        values: Tensor,
        *,
        time_delta: Tensor | None = None,
        observed: Tensor | None = None,
        valid: Tensor | None = None,
    ) -> Tensor:
        """Logits (B, K) of values (B, T, C)."""
        if self.fallback_reason(values, time_delta) is not None:
            logits: Tensor = self.model(values, time_delta=time_delta, observed=observed, valid=valid)
            return logits
        return self.infer(values, observed=observed, valid=valid)

    @abstractmethod
    def infer(self, values: Tensor, *, observed: Tensor | None, valid: Tensor | None) -> Tensor:
        """Logits (B, K) by the fused kernels, for a call that they cover."""


class FusedTrainer(FusedDispatch, TrainingStep):
    """`loss = trainer.step(values, targets)`: the reference's `TrainingStep`, by fused kernels where they apply.

    `path(...)` says whether a call runs the fused kernels or the reference, and why.
    """

    def __init__(
        self,
        model: Alphabet,
        recipe: Recipe = RECIPES["B"],
        *,
        loss: str = "cross_entropy",
        microbatch: int | None = None,
    ) -> None:
        super().__init__(require_alphabet(model), recipe, loss=loss, microbatch=microbatch)
        self.alphabet = model

    @abstractmethod
    def fallback_reason(self, values: Tensor | None = None, time_delta: Tensor | None = None) -> str | None:
        """Why the reference runs a call, or None; a trainer adds what holds for gradients alone."""
        if not torch.is_grad_enabled():
            return "gradients are switched off, as by torch.no_grad()"
        return gradient_fallback_reason(self.parameters)

    def trainable_frames(self) -> list[Frame]:
        """The frames that the model's constraint moves back onto their manifold."""
        return [bank.frame for bank in self.alphabet.banks() if isinstance(bank.frame, Frame)]

    def announce_step(self) -> None:
        """Let observers of tensor versions see what compiled code changed, and a scheduler that there was a step."""
        increment_version([*self.parameters, *(frame.base for frame in self.trainable_frames())])
        self.optimizer._opt_called = True  # type: ignore[attr-defined]
