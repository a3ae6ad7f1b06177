"""A launch as Triton's own launcher does it: arguments flattened as the compiled kernel expects them, then executed.

Triton specializes and compiles a call as on a GPU; what reaches a launcher are the bound arguments and the signature.
Tensors are seen where they lie, by their address and the bytes that their shape and strides span.
"""

import ctypes
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from alphabet_ptx.datatypes import Array
from alphabet_ptx.errors import PtxError
from alphabet_ptx.execution import run
from alphabet_ptx.launches import Launch

if TYPE_CHECKING:
    from alphabet_ptx.driver import PtxDevice

SCRATCH = ("global", "profile")


class Launcher:
    """Launches one compiled kernel on the device that is active at the time. Triton makes it and calls it."""

    def __init__(self, src: Any, metadata: Any) -> None:
        if metadata.target.backend != "cuda":
            raise PtxError(f"kernel {metadata.name} was compiled for {metadata.target.backend}; this device runs PTX")
        self.signature = src.signature
        self.metadata = metadata
        self.ptx = read_ptx(src, metadata)

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
        if x * y * z:
            self._launch(device, (x, y, z), stream, arguments)
        if exit_hook is not None:
            exit_hook(launch_metadata)

    def _launch(
        self, device: "PtxDevice", grid: tuple[int, int, int], stream: int, arguments: tuple[object, ...]
    ) -> None:
        meta = self.metadata
        launch = Launch(meta.name, grid, meta.num_warps, meta.num_stages, meta.shared, self.ptx)
        device.report.launches.append(launch)
        began = time.perf_counter()
        try:
            values, kinds = self._bind(arguments)
            keep = self._allocate_scratch(grid, stream)
            values |= {name: None if part is None else as_bytes(name, part) for name, part in keep.items()}
            launch.report = run(
                self.ptx, grid, values, kinds, shared=meta.shared, strict=device.strict, limit=device.limit
            )
        except PtxError as error:
            launch.fault = error
            raise
        finally:
            launch.seconds = time.perf_counter() - began

    def _bind(self, arguments: tuple[object, ...]) -> tuple[dict[str, object], dict[str, str]]:
        """The parameters of the kernel by name: bytes for tensors, numbers for the rest; and Triton's types of them."""
        values: dict[str, object] = {}
        kinds: dict[str, str] = {}
        descriptions = iter(getattr(self.metadata, "tensordesc_meta", None) or ())
        for (name, kind), argument in zip(self.signature.items(), arguments, strict=True):
            for part, (its_kind, value) in enumerate(flatten(name, kind, argument, descriptions)):
                label = name if isinstance(kind, str) and part == 0 else f"{name}[{part}]"
                kinds[label] = its_kind
                values[label] = as_bytes(label, value) if its_kind.startswith("*") else value
        return values, kinds

    def _allocate_scratch(self, grid: tuple[int, int, int], stream: int) -> dict[str, Any]:
        """Memory that Triton asks its user's allocator for, once for all programs."""
        from triton.runtime import _allocation

        allocators = (_allocation._allocator, _allocation._profile_allocator)
        programs = int(np.prod(grid)) * getattr(self.metadata, "num_ctas", 1)
        found: dict[str, Any] = {}
        for name, allocator in zip(SCRATCH, allocators, strict=True):
            size = getattr(self.metadata, f"{name}_scratch_size", 0)
            align = getattr(self.metadata, f"{name}_scratch_align", 1)
            found[f"{name} scratch"] = allocator.get()(size * programs, align, stream) if size else None
        return found


def active_device() -> "PtxDevice":
    """The device whose block is running."""
    from triton.runtime import driver

    device = getattr(driver.active, "device", None)
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


def flatten(name: str, kind: Any, argument: Any, descriptions: Iterator[Any]) -> Iterator[tuple[str, Any]]:
    """The parameters that one argument becomes, with their types: tuples by their items, descriptors by their parts."""
    if isinstance(kind, tuple):
        for its_kind, item in zip(kind, argument, strict=True):
            yield from flatten(name, its_kind, item, descriptions)
    elif kind.startswith("tensordesc"):
        yield from _flatten_descriptor(name, kind, argument, next(descriptions, None))
    elif kind != "constexpr":
        yield kind, argument


def _flatten_descriptor(name: str, kind: str, argument: Any, description: Any) -> Iterator[tuple[str, Any]]:
    """A tensor descriptor without hardware support: base, shape, strides, flags, and shape and strides again."""
    if description is not None:
        raise PtxError(f"argument {name} is a descriptor for TMA, which is not covered; compile for sm_80 or sm_89")
    element = re.match(r"tensordesc<([^[>]*)\[", kind)
    assert element is not None
    yield f"*{element[1]}", argument.base
    yield from (("i64", size) for size in (*argument.shape, *argument.strides))
    yield "i1", argument.padding == "nan"
    if hasattr(argument, "round_f32_to_tf32"):  # from Triton 3.6 on
        yield "i1", argument.round_f32_to_tf32
    yield from (("i32", size) for size in argument.shape)
    yield from (("i64", size) for size in argument.strides)


def as_bytes(name: str, value: Any) -> Array | None:
    """The bytes behind a tensor, from its first element to its last; they are the tensor's own, not a copy."""
    if value is None:
        return None
    tensor = getattr(value, "base", value) if not hasattr(value, "untyped_storage") else value  # triton.reinterpret
    if not hasattr(tensor, "data_ptr") or not hasattr(tensor, "stride"):
        raise PtxError(f"argument {name} must be a tensor on the CPU; got {type(value).__name__}")
    place = tensor.untyped_storage().device.type
    if place != "cpu":
        raise PtxError(f"argument {name} lies on {place}; this device runs on tensors of the CPU: pass {name}.cpu()")
    reach = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    count = tensor.element_size() * (1 + reach) if tensor.numel() else 0
    if not count:
        return np.empty(0, np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * count).from_address(tensor.data_ptr()))
