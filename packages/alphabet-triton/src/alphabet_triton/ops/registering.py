"""How launches become torch operators: one function serves real tensors and fake ones, which are only shapes."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from alphabet_triton.launching import recording


def operator(name: str) -> Callable[[Callable[..., Any]], Any]:
    """A decorator that registers a function as `alphabet::name`, with a fake kernel that launches nothing."""

    def register(function: Callable[..., Any]) -> Any:
        defined = torch.library.custom_op(f"alphabet::{name}", function, mutates_args=())

        def run_fake(*arguments: Any) -> Any:
            with recording():
                return function(*arguments)

        defined.register_fake(run_fake)
        return defined

    return register


def gradient_of(gradient: Tensor | None, *shape: int, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """The gradient of an output as kernels read it: contiguous, and zeros of this shape if nothing used the output.

    Autograd would fill zeros for every such output, also for those that are only kept for a backward pass; operators
    say `ctx.set_materialize_grads(False)`, and only what a kernel reads is filled.
    """
    return like.new_zeros(shape, dtype=dtype) if gradient is None else gradient.contiguous()
