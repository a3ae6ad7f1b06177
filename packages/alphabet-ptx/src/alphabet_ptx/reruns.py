"""Whether a race matters: the same launch again in another order."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from alphabet_ptx.arguments import as_array
from alphabet_ptx.compiling import CompiledKernel
from alphabet_ptx.datatypes import Array
from alphabet_ptx.execution import execute
from alphabet_ptx.parse import parse

# The opposite of the usual order, and one in which the lanes of each warp run apart as well.
OTHER_ORDERS: tuple[str | int, ...] = ("descending", 0)


def outputs_differ(
    kernel: CompiledKernel | str,
    grid: int | Sequence[int],
    arguments: Mapping[str, object] | Sequence[object],
    *,
    orders: Sequence[str | int] = OTHER_ORDERS,
    **options: Any,
) -> list[str]:
    """The names of the arrays that get other bytes if the launch runs in one of `orders` instead of the usual one.

    `options` are those of `execute`. All arrays are left as they were before. Sums of floating-point numbers by atomics
    differ without a race, in their last places.
    """
    arrays = _name_arrays(kernel, arguments)
    return compare_orders(arrays, lambda order: execute(kernel, grid, arguments, order=order, **options), orders)


def compare_orders(
    arrays: Mapping[str, Array], launch: Callable[[str | int], object], orders: Sequence[str | int] = OTHER_ORDERS
) -> list[str]:
    """The names of the `arrays` in which `launch` leaves other bytes in one of `orders` than in the usual one.

    Each launch finds the arrays as they are now, and that is how they are left.
    """
    before = {name: array.copy() for name, array in arrays.items()}

    def find_results(order: str | int) -> dict[str, bytes]:
        try:
            launch(order)
            return {name: array.tobytes() for name, array in arrays.items()}
        finally:
            for name, array in arrays.items():
                np.copyto(array, before[name])

    usual = find_results("ascending")
    others = [find_results(order) for order in orders]
    return [name for name in arrays if any(other[name] != usual[name] for other in others)]


def _name_arrays(kernel: CompiledKernel | str, arguments: Mapping[str, object] | Sequence[object]) -> dict[str, Array]:
    """The arrays among the arguments that a kernel may change."""
    if isinstance(arguments, Mapping):
        named = dict(arguments)
    else:
        if isinstance(kernel, str):
            names = [parameter.name for parameter in parse(kernel).parameters]
        else:
            names = [name for name, kind in kernel.signature.items() if kind != "constexpr"]
        named = dict(zip(names, arguments, strict=False))
    arrays = {name: as_array(name, value, None) for name, value in named.items()}
    return {name: array for name, array in arrays.items() if array is not None and array.flags.writeable}
