"""What a fused runtime must know of a model and an optimizer at every call, found out in a few microseconds."""

from itertools import chain, repeat
from operator import attrgetter, contains, is_, itemgetter, not_
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from alphabet_core.fused.adamw import STEP_HOOKS, AdamWSettings, read_adamw_settings
from alphabet_core.fused.dispatch import GLOBAL_HOOKS, list_modules, list_tensors
from alphabet_core.fused.layout import is_plain
from alphabet_core.model import Alphabet

_read_stores = itemgetter(
    "_modules", "_parameters", "_buffers",
    "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks",
)  # fmt: skip
_read_settings = attrgetter("config", "scan")
_read_shape, _read_dtype, _read_version = attrgetter("shape"), attrgetter("dtype"), attrgetter("_version")


class ModelWatch:
    """Notices whether all that dispatch looks at, and where tensors lie, is as it was when the watch was made.

    A look at every module's types, hooks and tensors one by one takes longer than a small call's kernels. This keeps
    the dictionaries in which modules hold them, and compares what they contain, without a step of Python per entry.

    tensors: the parameters and buffers, as `list_tensors` lists them
    places: their addresses, which nothing else can have while the watch lives
    """

    def __init__(self, model: Alphabet) -> None:
        self.model, self._settings = model, (model.config, model.scan)
        self._modules = list_modules(model)
        attributes = list(map(vars, self._modules))
        self._types = list(map(type, self._modules))
        self._stores = list(chain.from_iterable(map(_read_stores, attributes)))
        self._full = [store.values() for store in self._stores if store]  # views, which show what is there now
        self._empty = [store for store in self._stores if not store]
        self._entries = list(chain.from_iterable(self._full))
        self._counts = list(map(len, attributes))  # one more may hide a method or a parameter
        self.tensors = list_tensors(self._modules)
        odd = not all(map(is_plain, self.tensors))  # a subclass or a sparse tensor may have no memory to look at
        # Each tensor and its memory are kept, so that no other can have their identity.
        self._memory = [] if odd else [tensor.detach() for tensor in self.tensors]
        self.places = list(map(Tensor.data_ptr, self._memory))
        self._strides = list(map(Tensor.stride, self._memory))
        self._shapes, self._dtypes = list(map(_read_shape, self._memory)), list(map(_read_dtype, self._memory))
        self._bypassed = odd or is_bypassed(attributes)

    def unchanged(self) -> bool:
        """Whether everything is where it was, parameters in the same memory; their values may be others."""
        attributes = list(map(vars, self._modules))
        if self._bypassed or any(chain(self._empty, map(Tensor.is_neg, self.tensors))) or is_bypassed(attributes):
            return False
        entries = list(chain.from_iterable(self._full))
        return (
            len(entries) == len(self._entries)
            and all(map(is_, entries, self._entries))
            and all(map(is_, chain.from_iterable(map(_read_stores, attributes)), self._stores))
            and all(map(is_, map(type, self._modules), self._types))
            and all(map(is_, _read_settings(self.model), self._settings))
            and list(map(len, attributes)) == self._counts
            and list(map(Tensor.data_ptr, self.tensors)) == self.places
            and list(map(Tensor.stride, self.tensors)) == self._strides
            and list(map(_read_shape, self.tensors)) == self._shapes
            and all(map(is_, map(_read_dtype, self.tensors), self._dtypes))
        )

    def versions(self) -> list[int]:
        """How often each tensor was written to, as far as torch counts it."""
        return list(map(_read_version, self.tensors))


def is_bypassed(attributes: list[dict[str, Any]]) -> bool:
    """Whether something that no module holds makes calls do something else, in whichever way: look every time."""
    return any(GLOBAL_HOOKS) or any(map(contains, attributes, repeat("forward")))


class SettingsMemo:
    """The settings of an optimizer, read again only when one of them is another object than it was."""

    def __init__(self) -> None:
        self._seen: list[object] = []  # which are kept, so that no other can have their identity
        self._settings: AdamWSettings | None = None

    def read(self, optimizer: Optimizer, parameters: list[nn.Parameter]) -> AdamWSettings | None:
        """The settings of a plain AdamW over just these parameters, or None where a step would be something else."""
        groups, own = optimizer.param_groups, optimizer.__dict__
        step = own["step"] if "step" in own else None  # noqa: SIM401  a call per replay
        hooks = not optimizer._optimizer_step_pre_hooks, not optimizer._optimizer_step_post_hooks
        seen = [optimizer, type(optimizer), step, len(groups), *hooks, *map(not_, STEP_HOOKS)]
        seen += [*groups[0].values(), *groups[0].get("betas", ()), *groups[0]["params"]]
        if len(seen) != len(self._seen) or not all(map(is_, seen, self._seen)):
            self._seen, self._settings = seen, read_adamw_settings(optimizer, parameters)
        return self._settings
