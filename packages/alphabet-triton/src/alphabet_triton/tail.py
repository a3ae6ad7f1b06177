"""The end of a training step over all parameters at once, on state that torch's optimizer sees too."""

import torch
from torch import Tensor, nn

from alphabet_triton.ops.adamw.launch import launch_adamw

STATE = {"exp_avg": "average", "exp_avg_sq": "square"}


class Tail:
    """Clip the gradients and move the parameters: one launch, and what gathers and scatters around it.

    Averages and step counts are one tensor each, of which the optimizer's state holds views: its `state_dict` is what
    it would be without us, and a loaded one is read in.
    """

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters: list[Tensor] = [*parameters]
        count, like = sum(p.numel() for p in parameters), parameters[0].detach()
        self.moved, self.grads, self.clipped = (like.new_empty(count) for _ in range(3))
        self.average, self.square = like.new_zeros(count), like.new_zeros(count)
        self.steps = like.new_zeros(len(parameters))
        self.settings = like.new_zeros(6, dtype=torch.float64)
        self._set: tuple[float, ...] = ()
        self._in_step: bool | None = None

    @property
    def changed(self) -> list[Tensor]:
        """What a step changes, besides the parameters."""
        return [self.average, self.square, self.steps]

    def prepare(self, optimizer: torch.optim.Optimizer, *settings: float) -> bool:
        """Take over the optimizer's state and settings; False if parameters have done different numbers of steps."""
        views = {name: self._split(getattr(self, mine)) for name, mine in STATE.items()}
        views["step"] = list(self.steps.unbind())
        for index, parameter in enumerate(self.parameters):
            state = optimizer.state[parameter]
            for name, mine in views.items():
                view, found = mine[index], state.get(name)
                if found is None or found.data_ptr() != view.data_ptr():
                    view.zero_() if found is None else view.copy_(found)
                    state[name] = view
                    self._in_step = None
        if self._in_step is None:  # only what was just taken over has to be looked at, which the host waits for
            self._in_step = bool((self.steps == self.steps[0]).all())
        if settings != self._set:
            self.settings.copy_(torch.tensor(settings, dtype=torch.float64))
            self._set = settings
        return self._in_step

    @torch.no_grad()
    def run(self) -> None:
        """From the parameters' gradients to the next parameters; nothing here depends on what the host could know."""
        torch.cat([p.detach().reshape(-1) for p in self.parameters], out=self.moved)
        torch.cat([p.grad.reshape(-1) for p in self.parameters if p.grad is not None], out=self.grads)
        self.steps.add_(1.0)
        launch_adamw(self.moved, self.grads, self.clipped, self.average, self.square, self.steps, self.settings)
        torch._foreach_copy_(self.parameters, self._split(self.moved))

    def show_gradients(self) -> None:
        """`.grad` is the clipped gradient after a step, as after the reference's."""
        for parameter, gradient in zip(self.parameters, self._split(self.clipped), strict=True):
            parameter.grad = gradient

    def _split(self, flat: Tensor) -> list[Tensor]:
        parts = flat.split([p.numel() for p in self.parameters])
        return [part.view(p.shape) for part, p in zip(parts, self.parameters, strict=True)]
