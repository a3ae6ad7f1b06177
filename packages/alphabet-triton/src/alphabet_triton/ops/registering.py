"""How launches become torch operators: one function serves real tensors and fake ones, which are only shapes."""

from collections.abc import Callable
from typing import Any

import torch

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
