"""Clipping and AdamW over all parameters at once, on state that torch's optimizer shares."""

import torch
from alphabet_core.fused import AdamWSettings
from torch import Tensor, nn

from alphabet_triton.ops.adamw.launch import launch_adamw

STATE = {"exp_avg": "average", "exp_avg_sq": "square"}


class FusedAdamW:
    """Clips gradients and updates parameters in one launch, with a gather before it and a scatter behind it.

    Averages and step counts are one tensor each, of which the optimizer's state holds views: its `state_dict` is what
    torch's own step would leave, and a state that was loaded is read in.
    """

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters: list[Tensor] = [*parameters]
        count, like = sum(p.numel() for p in parameters), parameters[0].detach()
        self.moved, self.grads, self.clipped = (like.new_empty(count) for _ in range(3))
        self.average, self.square = like.new_zeros(count), like.new_zeros(count)
        self.steps = like.new_zeros(len(parameters))
        self.settings = like.new_zeros(len(AdamWSettings._fields) + 1, dtype=torch.float64)
        self._numbers: tuple[float, ...] = ()
        self._steps_agree: bool | None = None

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors that a step reads or writes besides the parameters."""
        return [self.moved, self.grads, self.clipped, self.average, self.square, self.steps, self.settings]

    @property
    def changed(self) -> list[Tensor]:
        """The tensors that a step changes besides the parameters."""
        return [self.average, self.square, self.steps]

    def prepare(self, optimizer: torch.optim.Optimizer, settings: AdamWSettings, clip_norm: float) -> bool:
        """Read in the optimizer's state and settings; False if its parameters have done different numbers of steps."""
        views = {name: self._split(getattr(self, mine)) for name, mine in STATE.items()}
        views["step"] = list(self.steps.unbind())
        for index, parameter in enumerate(self.parameters):
            state = optimizer.state[parameter]
            for name, mine in views.items():
                view, found = mine[index], state.get(name)
                if found is None or found.data_ptr() != view.data_ptr():
                    view.zero_() if found is None else view.copy_(found)
                    state[name] = view
                    self._steps_agree = None
        if self._steps_agree is None:  # the host waits for this, so it is asked only of a state that was just read in
            self._steps_agree = bool((self.steps == self.steps[0]).all())
        numbers = (*settings, clip_norm)
        if numbers != self._numbers:
            self.settings.copy_(torch.tensor(numbers, dtype=torch.float64))
            self._numbers = numbers
        return self._steps_agree

    @torch.no_grad()
    def run(self) -> None:
        """Clip the parameters' gradients and do a step; no value is asked of the device, so a graph can record it."""
        torch.cat([p.detach().reshape(-1) for p in self.parameters], out=self.moved)
        torch.cat([p.grad.reshape(-1) for p in self.parameters if p.grad is not None], out=self.grads)
        self.steps.add_(1.0)
        launch_adamw(
            moved=self.moved,
            grads=self.grads,
            clipped=self.clipped,
            average=self.average,
            square=self.square,
            step=self.steps,
            settings=self.settings,
        )
        torch._foreach_copy_(self.parameters, self._split(self.moved))

    def expose_gradients(self) -> None:
        """Let `.grad` of every parameter be its clipped gradient, as it is after a step of the reference."""
        for parameter, gradient in zip(self.parameters, self._split(self.clipped), strict=True):
            parameter.grad = gradient

    def _split(self, flat: Tensor) -> list[Tensor]:
        parts = flat.split([p.numel() for p in self.parameters])
        return [part.view(p.shape) for part, p in zip(parts, self.parameters, strict=True)]
