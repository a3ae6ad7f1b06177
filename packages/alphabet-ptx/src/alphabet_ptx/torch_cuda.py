"""What code asks of torch before it launches a kernel, answered inside a block as a CUDA device would.

Tensors stay on the CPU. A mode makes them say that they are on `cuda:0`, takes requests for that device as requests for
the CPU, and ends with its block; the functions of `torch.cuda` that launchers call are replaced for as long.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from alphabet_ptx import unwritten
from alphabet_ptx.errors import PtxError

if TYPE_CHECKING:
    from alphabet_ptx.driver import PtxDevice

CUDA = re.compile(r"cuda(:\d+)?")


@contextmanager
def answer_as_cuda(device: "PtxDevice") -> Iterator[None]:
    """A block in which torch answers as if CPU tensors were on this device; nothing happens without torch."""
    try:
        import torch
    except ModuleNotFoundError:
        yield
        return
    with patch.multiple(torch.cuda, **list_answers(device)), make_mode():
        yield


def list_answers(device: "PtxDevice") -> dict[str, Any]:
    """What stands in for functions and classes of `torch.cuda`."""
    capability = divmod(device.capability, 10)
    properties = SimpleNamespace(
        name=f"{device.arch} by alphabet-ptx",
        major=capability[0],
        minor=capability[1],
        multi_processor_count=device.properties["multiprocessor_count"],
        total_memory=1 << 34,
        warp_size=32,
        regs_per_multiprocessor=device.properties["max_num_regs"],
        max_threads_per_multi_processor=1536,
        shared_memory_per_block_optin=device.properties["max_shared_mem"],
        shared_memory_per_multiprocessor=device.properties["max_shared_mem"],
        L2_cache_size=1 << 22,
        gcnArchName="",
    )
    stream = Stream()
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda _: None,
        "device": lambda *_: nullcontext(),
        "device_of": lambda *_: nullcontext(),
        "synchronize": lambda *_: None,
        "empty_cache": lambda: None,
        "get_device_capability": lambda *_: capability,
        "get_device_properties": lambda *_: properties,
        "get_device_name": lambda *_: properties.name,
        "is_bf16_supported": lambda *_, **__: True,
        "current_stream": lambda *_: stream,
        "default_stream": lambda *_: stream,
        "stream": lambda *_: nullcontext(),
        "is_current_stream_capturing": lambda: False,
        "Stream": Stream,
        "Event": Event,
        "CUDAGraph": refuse("torch.cuda.CUDAGraph"),
        "graph": refuse("torch.cuda.graph"),
    }


class Stream:
    """A stream on which everything has already happened."""

    cuda_stream = 0

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def synchronize(self) -> None:
        """Nothing is under way."""

    def wait_stream(self, _: object) -> None:
        """Nothing is under way."""

    def wait_event(self, _: object) -> None:
        """Nothing is under way."""

    def query(self) -> bool:
        """Everything has ended."""
        return True


class Event:
    """A moment that is over; no time of a GPU can be taken here."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def record(self, *_: object) -> None:
        """Nothing is under way."""

    def synchronize(self) -> None:
        """Nothing is under way."""

    def elapsed_time(self, _: object) -> float:
        """Refuse: what this device takes says nothing about a GPU."""
        raise PtxError("torch.cuda.Event.elapsed_time: there is no GPU here whose time could be taken")


def refuse(name: str) -> Callable[..., None]:
    """A function that refuses what cannot be had without a GPU."""

    def answer(*_: object, **__: object) -> None:
        raise PtxError(f"{name} records work of a GPU, which there is none of here; launch the kernels directly")

    return answer


def make_mode() -> Any:
    """A mode in which CPU tensors say that they are CUDA tensors."""
    import torch
    from torch.overrides import TorchFunctionMode

    cuda, cpu = torch.device("cuda", 0), torch.device("cpu")
    is_cuda, place = torch.Tensor.is_cuda.__get__, torch.Tensor.device.__get__  # type: ignore[attr-defined]
    is_cpu, index = torch.Tensor.is_cpu.__get__, torch.Tensor.get_device  # type: ignore[attr-defined]
    copies = {torch.Tensor.cpu: torch.Tensor.clone}
    fresh = {torch.empty, torch.empty_like, torch.empty_strided, torch.empty_permuted}
    fresh |= {torch.Tensor.new_empty, torch.Tensor.new_empty_strided}
    own = {torch.Tensor.cuda: lambda tensor, *_, **__: tensor}

    def redirect(value: object) -> object:
        if isinstance(value, torch.device):
            return cpu if value.type == "cuda" else value
        return "cpu" if isinstance(value, str) and CUDA.fullmatch(value) else value

    class CudaAnswers(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.device:  # a name, not yet a place
                return func(*args, **(kwargs or {}))
            result = (own | copies).get(func, func)(
                *map(redirect, args), **{name: redirect(value) for name, value in (kwargs or {}).items()}
            )
            if func in fresh:
                unwritten.fill(result)
            if func == place:
                return cuda if result.type == "cpu" else result
            if func == is_cuda:
                return True
            if func == is_cpu:
                return False
            return 0 if func == index else result

    return CudaAnswers()
