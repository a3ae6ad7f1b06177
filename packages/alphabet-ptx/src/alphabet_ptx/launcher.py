"""A launch as Triton's own launcher does it: arguments flattened as the compiled kernel expects them, then executed.

Triton specializes and compiles a call as on a GPU; what reaches a launcher are the bound arguments and the signature.
Tensors are seen where they lie, by their address and the bytes that their shape and strides span.
"""

import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from alphabet_ptx.arguments import SCRATCH, SCRATCH_POINTERS
from alphabet_ptx.datatypes import Array
from alphabet_ptx.descriptors import Mapped, expand
from alphabet_ptx.errors import PtxError
from alphabet_ptx.execution import run
from alphabet_ptx.launches import Launch
from alphabet_ptx.limits import check_grid
from alphabet_ptx.parse import parse
from alphabet_ptx.reruns import compare_orders
from alphabet_ptx.tables import list_tables
from alphabet_ptx.unwritten import view_bytes
from alphabet_ptx.writable import may_write

if TYPE_CHECKING:
    from alphabet_ptx.driver import PtxDevice


class Launcher:
    """Launches one compiled kernel on the device that is active at the time. Triton makes it and calls it."""

    def __init__(self, src: Any, metadata: Any) -> None:
        if metadata.target.backend != "cuda":
            raise PtxError(f"kernel {metadata.name} was compiled for {metadata.target.backend}; this device runs PTX")
        self.signature = src.signature
        self.metadata = metadata
        self.ptx = read_ptx(src, metadata)
        self.file = inspect.getsourcefile(src.fn.fn) or "" if hasattr(src, "fn") else ""

    def __call__(
        self,
        x: int,
        y: int,
        z: int,
        stream: int,
        _function: object,
        _packed: object,
        launch_metadata: Any,
        enter_hook: Any,
        exit_hook: Any,
        *arguments: object,
    ) -> None:
        """Launch; hooks are called around it, as a GPU's launcher does, also for an empty grid."""
        device = active_device()
        if device.dry:
            return
        if enter_hook is not None:
            enter_hook(launch_metadata)
        if 0 not in (x, y, z):
            self._launch(device, (x, y, z), stream, arguments)
        if exit_hook is not None:
            exit_hook(launch_metadata)

    def _launch(
        self, device: "PtxDevice", grid: tuple[int, int, int], stream: int, arguments: tuple[object, ...]
    ) -> None:
        meta = self.metadata
        launch = Launch(meta.name, grid, meta.num_warps, meta.num_stages, meta.shared, self.ptx, self.file)
        device.report.launches.append(launch)
        began = time.perf_counter()
        try:
            check_grid(meta.name, grid, device.limit)
            values, kinds = self._bind(arguments)
            arrays = {name: as_bytes(name, value) for name, value in values.items() if kinds[name].startswith("*")}
            arrays |= device.addresses.reach(list_tables(kinds, values, arrays))
            if device.bounds == "storage":
                arrays |= {
                    f"the storage of {name}": view_storage(values[name]) for name in list(arrays) if name in values
                }
            scratch = self._allocate_scratch(grid, stream)  # kept until the launch has ended
            if scratch is not None:
                arrays[SCRATCH] = as_bytes(SCRATCH, scratch)
            for array in arrays.values():
                if array is not None:
                    array.flags.writeable = may_write(array)
            execute = partial(run, self.ptx, grid, values, arrays, kinds, shared=meta.shared, limit=device.limit)
            found = {name: array for name, array in arrays.items() if array is not None and array.flags.writeable}
            before = {name: array.copy() for name, array in found.items()}
            launch.report = execute(strict=device.strict, mode=device.mode)
            if launch.races and device.rerun:
                try:
                    launch.changed = find_changes(
                        found, before, lambda order: execute(mode=replace(device.mode, order=order))
                    )
                except PtxError as fault:
                    launch.changed_fault = fault
        except PtxError as error:
            launch.fault = error
            raise
        finally:
            launch.seconds = time.perf_counter() - began

    def _bind(self, arguments: tuple[object, ...]) -> tuple[dict[str, object], dict[str, str]]:
        """The parameters of the kernel by name, tensors as they are, and Triton's types of them."""
        values: dict[str, object] = {}
        kinds: dict[str, str] = {}
        for (name, kind), argument in zip(self.signature.items(), arguments, strict=True):
            for label, its_kind, value in flatten(name, kind, argument):
                values[label], kinds[label] = value, its_kind
        maps = getattr(self.metadata, "tensordesc_meta", None) or ()
        return expand(values, kinds, maps, len(parse(self.ptx).parameters) - SCRATCH_POINTERS)

    def _allocate_scratch(self, grid: tuple[int, int, int], stream: int) -> Any:
        """Memory that Triton asks its user's allocator for, once for all programs; None if it asks for none."""
        from triton.runtime import _allocation

        size = self.metadata.global_scratch_size * int(np.prod(grid)) * getattr(self.metadata, "num_ctas", 1)
        if self.metadata.profile_scratch_size:
            raise PtxError(f"kernel {self.metadata.name} was compiled for a profiler, which needs a GPU")
        return _allocation._allocator.get()(size, self.metadata.global_scratch_align, stream) if size else None


def find_changes(
    arrays: Mapping[str, Array], before: Mapping[str, Array], launch: Callable[[str | int], object]
) -> list[str]:
    """The arrays that a launch leaves different in another order; they hold its results, and keep them."""
    results = {name: array.copy() for name, array in arrays.items()}
    try:
        for name, array in arrays.items():
            array[:] = before[name]
        return compare_orders(arrays, launch)
    finally:
        for name, array in arrays.items():
            array[:] = results[name]


def active_device() -> "PtxDevice":
    """The device whose block is running."""
    from triton.runtime import driver

    device = getattr(driver._active, "device", None)  # asking for the active driver would look for a GPU
    if device is None:
        raise PtxError("a kernel that was compiled in a ptx_device block was launched outside of it; launch it inside")
    found: PtxDevice = device
    return found


def read_ptx(src: Any, metadata: Any) -> str:
    """The PTX of a kernel, from the folder where Triton keeps what it compiled."""
    from triton.runtime.cache import get_cache_manager

    name = src.name[:150]  # as Triton cuts it
    group = get_cache_manager(metadata.hash).get_group(f"{name}.json") or {}
    if f"{name}.ptx" not in group:
        raise PtxError(
            f"Triton has not kept the PTX of {metadata.name}; unset TRITON_STORE_BINARY_ONLY and TRITON_ALWAYS_COMPILE"
        )
    return Path(group[f"{name}.ptx"]).read_text(encoding="utf-8")


def flatten(name: str, kind: Any, argument: Any) -> Iterator[tuple[str, str, Any]]:
    """What one argument becomes, with names and types: a tuple its items, a constant of the compilation nothing."""
    if isinstance(kind, tuple):
        for number, (its_kind, item) in enumerate(zip(kind, argument, strict=True)):
            yield from flatten(f"{name}[{number}]", its_kind, item)
    elif kind != "constexpr":
        yield name, kind, argument


def as_bytes(name: str, value: Any) -> Array | None:
    """The bytes behind a tensor, from its first element to its last; they are the tensor's own, not a copy."""
    if value is None:
        return None
    tensor = find_tensor(value)
    if not hasattr(tensor, "data_ptr") or not hasattr(tensor, "stride"):
        raise PtxError(f"argument {name} must be a tensor on the CPU; got {type(value).__name__}")
    place = tensor.untyped_storage().device.type
    if place != "cpu":
        raise PtxError(f"argument {name} lies on {place}; this device runs on tensors of the CPU: pass {name}.cpu()")
    reach = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    count = tensor.element_size() * (1 + reach) if tensor.numel() else 0
    return view_bytes(tensor.data_ptr(), count)


def find_tensor(value: Any) -> Any:
    """The tensor behind an argument: behind a descriptor, or what `triton.reinterpret` made."""
    if isinstance(value, Mapped):
        value = value.descriptor.base
    return value if hasattr(value, "untyped_storage") else getattr(value, "base", value)


def view_storage(value: Any) -> Array | None:
    """The bytes of all memory that an argument is a part of."""
    if value is None:
        return None
    storage = find_tensor(value).untyped_storage()
    return view_bytes(storage.data_ptr(), storage.nbytes())
