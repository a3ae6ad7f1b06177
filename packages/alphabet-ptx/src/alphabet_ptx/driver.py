"""A Triton driver without a GPU: inside its block `kernel[grid](...)` runs on CPU tensors, as compiled PTX.

Triton itself does everything up to the launch: heuristics, specialization by alignment and divisibility, compilation
for the named architecture. Kernels and tuning results that are made inside a block are not used outside of it, nor by
another architecture.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from threading import RLock
from typing import Any
from unittest.mock import patch

from alphabet_ptx.compiling import import_triton
from alphabet_ptx.errors import PtxError
from alphabet_ptx.execution import STEP_LIMIT
from alphabet_ptx.launcher import Launcher
from alphabet_ptx.launches import DeviceReport
from alphabet_ptx.limits import SHARED_MEMORY
from alphabet_ptx.modes import Mode
from alphabet_ptx.resources import read_usage
from alphabet_ptx.tables import Addresses
from alphabet_ptx.torch_cuda import answer_as_cuda

ARCHITECTURES = (80, 86, 87, 89, 90)
AUTOTUNE = ("first", "all")
BOUNDS = ("view", "storage")


class PtxDevice:
    """A device of one architecture, and what happened on it.

    report: every launch. strict: races raise. limit: steps after which a launch counts as endless. autotune: "first"
    takes the first configuration that compiles and fits, "all" executes every one, and then takes the first. rerun: a
    launch with races is repeated in other orders, to see whether they matter. bounds: a tensor that is a view has the
    bounds of the "view", or of its "storage", as on a GPU. mode: order and rounding.
    """

    def __init__(
        self, arch: str, *, strict: bool, limit: int, autotune: str, rerun: bool, bounds: str, mode: Mode
    ) -> None:
        found = re.fullmatch(r"sm_(\d+)a?", arch)
        if found is None or int(found[1]) not in ARCHITECTURES:
            known = ", ".join(f"sm_{number}" for number in ARCHITECTURES)
            raise PtxError(f"arch must be one of {known}; got {arch!r}")
        if autotune not in AUTOTUNE:
            raise PtxError(f"autotune must be one of {', '.join(AUTOTUNE)}; got {autotune!r}")
        if bounds not in BOUNDS:
            raise PtxError(f"bounds must be one of {', '.join(BOUNDS)}; got {bounds!r}")
        self.arch = arch
        self.capability = int(found[1])
        self.strict = strict
        self.limit = limit
        self.autotune = autotune
        self.rerun = rerun
        self.bounds = bounds
        self.mode = mode
        self.report = DeviceReport()
        self.addresses = Addresses()
        self.open = True  # its block has not ended
        self.dry = False  # launches are compiled but not executed
        self.tuned = False  # the autotuner that is running has found a configuration
        self.tuned_for: Any = None  # the arguments for which it is looking for one
        self.tuning: dict[int, Any] = {}
        self.properties = {
            "max_shared_mem": SHARED_MEMORY[self.capability],
            "max_num_regs": 65_536,
            "multiprocessor_count": 4,
            "warpSize": 32,
            "sm_clock_rate": 1_000_000,
            "mem_clock_rate": 1_000_000,
            "mem_bus_width": 256,
        }

    def __repr__(self) -> str:
        return f"PtxDevice({self.arch!r}, launches={len(self.report)})"


@contextmanager
def ptx_device(
    arch: str = "sm_89",
    *,
    strict: bool = False,
    limit: int = STEP_LIMIT,
    autotune: str = "first",
    rerun: bool = True,
    bounds: str = "view",
    order: str | int = "ascending",
    rounding: str = "ideal",
    seed: int = 0,
) -> Iterator[PtxDevice]:
    """A block in which Triton kernels run on CPU tensors as on a GPU of that architecture.

    strict, limit, order, rounding and seed are those of `execute`; the others those of `PtxDevice`.
    """
    mode = Mode(order, rounding, seed)
    device = PtxDevice(arch, strict=strict, limit=limit, autotune=autotune, rerun=rerun, bounds=bounds, mode=mode)
    if import_triton().knobs.runtime.interpret:
        raise PtxError("TRITON_INTERPRET is set, so kernels would be interpreted, not compiled; unset it")
    from triton.runtime import driver
    from triton.runtime.autotuner import Autotuner

    with ExitStack() as stack:
        stack.enter_context(in_one_thread(device))
        # The attribute itself: asking for the active driver would look for a GPU.
        stack.enter_context(patch.object(driver, "_active", make_driver(device)))
        stack.enter_context(patch.object(Autotuner, "run", tune_apart(Autotuner.run)))
        stack.enter_context(patch.object(Autotuner, "_bench", try_apart(Autotuner._bench)))
        stack.enter_context(answer_as_cuda(device))
        yield device


_blocks = RLock()
_open: list[PtxDevice] = []
_activated = ExitStack()
_active: list[PtxDevice] = []  # what `activate` began, if it has not ended


@contextmanager
def in_one_thread(device: PtxDevice) -> Iterator[None]:
    """A block that may be nested in others of its thread, and is refused while another thread has one.

    Triton has one active driver for all threads, so two of them would run each other's kernels.
    """
    if not _blocks.acquire(blocking=False):
        raise PtxError("a ptx_device block is open in another thread, and Triton has one device at a time; let it end")
    _open.append(device)
    try:
        yield
    finally:
        device.open = False
        _open.remove(device)
        _blocks.release()


def activate(arch: str = "sm_89", **options: Any) -> PtxDevice:
    """The same until the process ends or `deactivate` is called; for a notebook or the head of a script."""
    deactivate()
    if _open:
        raise PtxError("activate was called inside a ptx_device block, which would end before it; nest a block instead")
    _active.append(_activated.enter_context(ptx_device(arch, **options)))
    return _active[0]


def deactivate() -> None:
    """End what `activate` began."""
    if _active and _open[-1:] != _active:
        raise PtxError("deactivate was called inside a ptx_device block; leave the block first")
    _active.clear()
    _activated.close()


def make_driver(device: PtxDevice) -> Any:
    """The object that Triton asks: its own abstract class, which only exists where Triton is installed."""
    from triton.backends.compiler import GPUTarget
    from triton.backends.driver import DriverBase

    class PtxDriver(DriverBase):  # type: ignore[misc]  # Triton has no types
        launcher_cls = Launcher

        def __init__(self) -> None:
            self.device = device
            self.utils = Utilities(device)

        @classmethod
        def is_active(cls) -> bool:
            return True

        def map_python_to_cpp_type(self, ty: str) -> str:
            return ty

        def get_current_target(self) -> Any:
            return GPUTarget("cuda", device.capability, 32)

        def get_current_device(self) -> int:
            # Triton keeps compiled kernels by this number: no GPU has it, and every architecture has its own.
            return 1_000_000 + device.capability

        def set_current_device(self, _: int) -> None:
            pass

        def get_current_stream(self, _: int | None = None) -> int:
            return 0

        def get_device_capability(self, *_: object) -> tuple[int, int]:
            return divmod(device.capability, 10)

        def get_active_torch_device(self) -> Any:
            import torch

            return torch.device("cuda", 0)  # as the tensors of the block say

        def get_device_interface(self) -> Any:
            import torch

            return torch.cuda

        def get_benchmarker(self) -> Callable[..., list[float]]:
            return lambda call, quantiles=None, **_: try_configuration(device, call, quantiles)

        def get_empty_cache_for_benchmark(self) -> Any:
            raise PtxError("there is no GPU here whose time could be taken")

        def clear_cache(self, _: object) -> None:
            pass

    return PtxDriver()


class Utilities:
    """The functions of Triton's driver module."""

    def __init__(self, device: PtxDevice) -> None:
        self.device = device

    def load_binary(self, name: str, binary: bytes, _shared: int, _device: int) -> tuple[str, str, int, int, int]:
        """A module and function, which nobody looks at, registers, spilled bytes, and the most threads of a block."""
        registers, spills = count_registers(binary)
        return name, name, registers, spills, 1024

    def unload_module(self, module: object) -> None:
        """Nothing was loaded."""

    def get_device_properties(self, _: int) -> dict[str, int]:
        """What Triton and launchers look up."""
        return self.device.properties


count_registers = lru_cache(read_usage)  # a kernel is loaded again for every specialization


def try_configuration(device: PtxDevice, call: Callable[[], object], quantiles: Any) -> list[float]:
    """What an autotuner takes for the time of a configuration: one for the first that fits, and infinity for others."""
    count = len(quantiles or [1])
    if device.tuned and device.autotune == "first":
        return [float("inf")] * count
    outer, device.dry = device.dry, device.autotune == "first"
    try:
        call()
    finally:
        device.dry = outer
    first, device.tuned = not device.tuned, True
    return [1.0 if first else float("inf")] * count


def tune_apart(run: Callable[..., Any]) -> Callable[..., Any]:
    """Autotuner.run, with results kept for this device."""

    def run_apart(self: Any, *arguments: object, **options: object) -> Any:
        from triton.runtime import driver

        kept = self.cache, self.cache_results
        self.cache, self.cache_results = driver.active.device.tuning.setdefault(id(self), {}), False
        try:
            return run(self, *arguments, **options)
        finally:
            self.cache, self.cache_results = kept

    return run_apart


def try_apart(bench: Callable[..., Any]) -> Callable[..., Any]:
    """Autotuner._bench, which a class of a package may call by itself, with this device's way to choose."""

    def bench_apart(self: Any, *arguments: object, **options: object) -> Any:
        from triton.runtime import driver

        device = driver.active.device
        if device.tuned_for is not self.nargs:  # another launch
            device.tuned_for, device.tuned = self.nargs, False
        kept = self._do_bench
        self._do_bench = driver.active.get_benchmarker()
        self.__dict__.pop("do_bench", None)  # a cached property
        try:
            return bench(self, *arguments, **options)
        finally:
            self._do_bench = kept
            self.__dict__.pop("do_bench", None)

    return bench_apart
