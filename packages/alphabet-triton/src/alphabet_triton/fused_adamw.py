"""Clipping and AdamW over all parameters at once, on state that torch's optimizer shares."""

from itertools import accumulate, chain
from operator import attrgetter, is_

import torch
from alphabet_core.fused import AdamWSettings
from torch import Tensor, nn

from alphabet_triton.launching import MOST_PARAMETERS
from alphabet_triton.ops.adamw.launch import launch_adamw

_read_gradient = attrgetter("grad")


class FusedAdamW:
    """Clips gradients and updates parameters in one launch.

    Gradients, averages and step counts are one tensor each, of which the optimizer's state holds views: its
    `state_dict` is what torch's own step would leave, and a state that was loaded is read in. Parameters stay where
    they are, unless one is not contiguous: then all are gathered before the launch and scattered behind it.
    """

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters: list[Tensor] = [*parameters]
        sizes, like = [p.numel() for p in parameters], parameters[0].detach()
        count = sum(sizes)
        self.in_place = all(p.is_contiguous() for p in parameters) and len(parameters) <= MOST_PARAMETERS
        self.moved = [p.detach() for p in parameters] if self.in_place else [like.new_empty(count)]
        ends = list(accumulate(sizes)) if self.in_place else [count]
        self.starts = torch.tensor([0, *ends, *(MOST_PARAMETERS - len(ends)) * [count]], dtype=torch.int32)
        self.starts = self.starts.to(like.device)
        self.grads, self.clipped = (like.new_empty(count) for _ in range(2))
        self.average, self.square = like.new_zeros(count), like.new_zeros(count)
        self.steps = like.new_zeros(len(parameters))
        self.settings = like.new_zeros(len(AdamWSettings._fields) + 1, dtype=torch.float64)
        # Views are made once: for a call, making them would take longer than everything else that it does.
        self._gradients, self._clipped = self._split(self.grads), self._split(self.clipped)
        rows = zip(self._split(self.average), self._split(self.square), self.steps.unbind(), strict=True)
        self._views = [{"exp_avg": average, "exp_avg_sq": square, "step": step} for average, square, step in rows]
        self._numbers: tuple[float, ...] = ()
        self._steps_agree: bool | None = None
        self._shared: list[object] | None = None

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors that a step reads or writes besides the parameters."""
        state = [self.average, self.square, self.steps, self.settings]
        return [*self.moved, self.starts, self.grads, self.clipped, *state]

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
        held, shared = _list_state(optimizer), self._shared
        return shared is not None and len(held) == len(shared) and all(map(is_, held, shared))

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
        self._shared = _list_state(optimizer)

    @torch.no_grad()
    def run(self) -> None:
        """Clip the parameters' gradients and do a step; no value is asked of the device, so a graph can record it."""
        torch.cat([p.grad.reshape(-1) for p in self.parameters if p.grad is not None], out=self.grads)
        self.steps.add_(1.0)
        if not self.in_place:
            torch.cat([p.detach().reshape(-1) for p in self.parameters], out=self.moved[0])
        self.launch()
        if not self.in_place:
            torch._foreach_copy_(self.parameters, self._split(self.moved[0]))

    def launch(self) -> None:
        """Clip and apply the gradients that were written to `gradient_of(parameter)`, as the step counted last."""
        launch_adamw(
            self.moved,
            starts=self.starts,
            grads=self.grads,
            clipped=self.clipped,
            average=self.average,
            square=self.square,
            steps=self.steps,
            settings=self.settings,
        )

    def gradient_of(self, parameter: Tensor) -> Tensor:
        """Where `launch` reads the gradient of a parameter."""
        number = next(i for i, mine in enumerate(self.parameters) if mine is parameter)
        return self._gradients[number]

    def expose_gradients(self) -> None:
        """Let `.grad` of every parameter be its clipped gradient, as it is after a step of the reference."""
        if not all(map(is_, map(_read_gradient, self.parameters), self._clipped)):
            for parameter, gradient in zip(self.parameters, self._clipped, strict=True):
                parameter.grad = gradient

    def _split(self, flat: Tensor) -> list[Tensor]:
        parts = flat.split([p.numel() for p in self.parameters])
        return [part.view(p.shape) for part, p in zip(parts, self.parameters, strict=True)]


def _list_state(optimizer: torch.optim.Optimizer) -> list[object]:
    """The parameters that an optimizer has states of, and everything in these states."""
    states = optimizer.state
    return [*states, *chain.from_iterable(map(dict.values, states.values()))]
