"""What a call must know of a model before it may replay a recording, found out in a few microseconds."""

from torch import Tensor, nn


class ModelWatch:
    """Notices whether a model's modules, hooks and tensors are those that were there when it was looked at.

    A look at every module's types, hooks and tensors one by one takes longer than a GPU takes for a call. This keeps
    the dictionaries in which modules hold them, and compares what they contain.
    """

    def __init__(self, modules: list[nn.Module], tensors: list[Tensor]) -> None:
        self.tensors = tensors  # which are kept, so that no other can have their identity
        self._modules = modules
        self._stores = [store for m in modules for store in (m._modules, m._parameters, m._buffers)]
        self._hooks = [
            hooks
            for m in modules
            for hooks in (m._forward_hooks, m._forward_pre_hooks, m._backward_hooks, m._backward_pre_hooks)
        ]
        self._seen = self._look()

    def _look(self) -> tuple[object, ...]:
        return (
            [id(entry) for store in self._stores for entry in store.values()],
            [tensor.data_ptr() for tensor in self.tensors],
            [type(module) for module in self._modules],
            [len(hooks) for hooks in self._hooks if hooks],
        )

    def unchanged(self) -> bool:
        """Whether everything is where it was, parameters in the same memory; their values may be others."""
        return self._look() == self._seen

    def versions(self) -> list[int]:
        """How often each tensor was written to, as far as torch counts it."""
        return [tensor._version for tensor in self.tensors]
