"""Clipping and AdamW over all parameters at once, on state that torch's optimizer shares."""

import torch
from alphabet_core.fused import AdamWSettings
from torch import Tensor, nn

from alphabet_triton.ops.adamw.launch import launch_adamw


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
        # Views are made once: for a call, making them would take longer than everything else that it does.
        self._moved, self._clipped = self._split(self.moved), self._split(self.clipped)
        rows = zip(self._split(self.average), self._split(self.square), self.steps.unbind(), strict=True)
        self._views = [{"exp_avg": average, "exp_avg_sq": square, "step": step} for average, square, step in rows]
        self._numbers: tuple[float, ...] = ()
        self._steps_agree: bool | None = None
        self._shared: list[int] | None = None

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
        if not self._shares_state(optimizer):
            self._read_state(optimizer)
        if self._steps_agree is None:  # the host waits for this, so it is asked only of a state that was just read in
            self._steps_agree = bool((self.steps == self.steps[0]).all())
        numbers = (*settings, clip_norm)
        if numbers != self._numbers:
            self.settings.copy_(torch.tensor(numbers, dtype=torch.float64))
            self._numbers = numbers
        return self._steps_agree

    def _shares_state(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether the optimizer's state is as it was when it was read in: the same parameters, and these views."""
        return _list_identities(optimizer) == self._shared

    def _read_state(self, optimizer: torch.optim.Optimizer) -> None:
        """Copy the optimizer's state into the views, which it holds from now on."""
        for parameter, views in zip(self.parameters, self._views, strict=True):
            state = optimizer.state[parameter]
            for name, view in views.items():
                found = state.get(name)
                if found is not view:
                    view.zero_() if found is None else view.copy_(found)
                    state[name] = view
                    self._steps_agree = None
        self._shared = _list_identities(optimizer)

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
        torch._foreach_copy_(self.parameters, self._moved)

    def expose_gradients(self) -> None:
        """Let `.grad` of every parameter be its clipped gradient, as it is after a step of the reference."""
        for parameter, gradient in zip(self.parameters, self._clipped, strict=True):
            if parameter.grad is not gradient:
                parameter.grad = gradient

    def _split(self, flat: Tensor) -> list[Tensor]:
        parts = flat.split([p.numel() for p in self.parameters])
        return [part.view(p.shape) for part, p in zip(parts, self.parameters, strict=True)]


def _list_identities(optimizer: torch.optim.Optimizer) -> list[int]:
    """The identities of the parameters that an optimizer has states of, and of everything in these states."""
    states = optimizer.state
    return [*map(id, states), *(id(entry) for state in states.values() for entry in state.values())]
