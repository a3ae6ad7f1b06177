"""What a call must know of a model before it may replay a recording, found out in a few microseconds."""

from itertools import chain
from operator import attrgetter, is_

from alphabet_core.fused import AdamWSettings, read_adamw_settings
from torch import Tensor, nn
from torch.optim import Optimizer

_read_version = attrgetter("_version")


class ModelWatch:
    """Notices whether a model's modules, hooks and tensors are those that were there when it was looked at.

    A look at every module's types, hooks and tensors one by one takes longer than a GPU takes for a call. This keeps
    the dictionaries in which modules hold them, and compares what they contain, without a step of Python per entry.
    """

    def __init__(self, modules: list[nn.Module], tensors: list[Tensor]) -> None:
        self.tensors = tensors  # which are kept, so that no other can have their identity
        self._modules, self._types = modules, [type(module) for module in modules]
        stores = [store for m in modules for store in (m._modules, m._parameters, m._buffers)]
        hooks = [
            hooks
            for m in modules
            for hooks in (m._forward_hooks, m._forward_pre_hooks, m._backward_hooks, m._backward_pre_hooks)
        ]
        self._full = [store.values() for store in (*stores, *hooks) if store]  # views, which show what is there now
        self._empty = [store for store in (*stores, *hooks) if not store]
        self._entries = list(chain.from_iterable(self._full))
        self._places = [tensor.data_ptr() for tensor in tensors]

    def unchanged(self) -> bool:
        """Whether everything is where it was, parameters in the same memory; their values may be others."""
        entries = list(chain.from_iterable(self._full))
        return (
            not any(self._empty)
            and len(entries) == len(self._entries)
            and all(map(is_, entries, self._entries))
            and list(map(Tensor.data_ptr, self.tensors)) == self._places
            and list(map(type, self._modules)) == self._types
        )

    def versions(self) -> list[int]:
        """How often each tensor was written to, as far as torch counts it."""
        return list(map(_read_version, self.tensors))


class SettingsMemo:
    """The settings of an optimizer, read again only when one of them is another object than it was."""

    def __init__(self) -> None:
        self._seen: list[object] = []  # which are kept, so that no other can have their identity
        self._settings: AdamWSettings | None = None

    def read(self, optimizer: Optimizer) -> AdamWSettings | None:
        """The settings of a plain AdamW, or None where a step of this optimizer would be something else."""
        groups = optimizer.param_groups
        hooks = not optimizer._optimizer_step_pre_hooks, not optimizer._optimizer_step_post_hooks
        seen = [optimizer, type(optimizer), len(groups), *hooks, *groups[0].values(), *groups[0].get("betas", ())]
        if len(seen) != len(self._seen) or not all(map(is_, seen, self._seen)):
            self._seen, self._settings = seen, read_adamw_settings(optimizer)
        return self._settings
