"""How launches become torch operators: one function serves tensors that exist and those that are only shapes."""

from collections.abc import Callable
from typing import Any

import torch

from alphabet_triton.launching import recording


def operator(name: str) -> Callable[[Callable[..., Any]], Any]:
    """Register a function as `alphabet::name`; its fake kernel allocates as it does and launches nothing."""

    def register(function: Callable[..., Any]) -> Any:
        defined = torch.library.custom_op(f"alphabet::{name}", function, mutates_args=())

        def pretend(*arguments: Any) -> Any:
            with recording():
                return function(*arguments)

        defined.register_fake(pretend)
        return defined

    return register
