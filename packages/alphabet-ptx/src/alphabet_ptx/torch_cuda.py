"""What code asks of torch before it launches a kernel, answered inside a block as a CUDA device would.

Tensors stay on the CPU. A mode makes them say that they are on `cuda:0`, takes requests for that device as requests for
the CPU, and ends with its block; threads that are started inside the block have it, too. What stands in for functions
of `torch.cuda` is in `cuda_answers`, and is there for as long.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from alphabet_ptx import unwritten
from alphabet_ptx.cuda_answers import list_answers
from alphabet_ptx.errors import PtxError

if TYPE_CHECKING:
    from alphabet_ptx.driver import PtxDevice

RUN_BACKWARD = "_engine_run_backward"
CUDA = re.compile(r"cuda(:\d+)?")


@contextmanager
def answer_as_cuda(device: "PtxDevice") -> Iterator[None]:
    """A block in which torch answers as if CPU tensors were on this device; nothing happens without torch."""
    try:
        import torch
    except ModuleNotFoundError:
        yield
        return
    from torch.utils._device import DeviceContext

    make_context = DeviceContext.__init__

    def in_mode(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **options: Any) -> Any:
            with make_mode(device):
                return call(*args, **options)

        return run

    with ExitStack() as stack:
        stack.enter_context(patch.multiple(torch.cuda, **list_answers(device)))
        stack.enter_context(patch.object(torch, "Generator", make_generator(torch.Generator)))
        # `with torch.device("cuda")` and `torch.set_default_device`
        stack.enter_context(
            patch.object(DeviceContext, "__init__", lambda self, place: make_context(self, redirect(place)))
        )
        stack.enter_context(patch.object(Thread, "run", in_mode(Thread.run)))
        # The mode rests while torch runs a function, and a backward pass runs functions of the user's.
        for place in (torch.autograd, torch.autograd.graph):
            stack.enter_context(patch.object(place, RUN_BACKWARD, in_mode(getattr(place, RUN_BACKWARD))))
        stack.enter_context(make_mode(device))
        yield


def redirect(place: Any) -> Any:
    """The CPU for the CUDA device, as a name, a torch.device or a number; anything else as it is."""
    import torch

    if isinstance(place, torch.device):
        return torch.device("cpu") if redirect(str(place)) == "cpu" else place
    if not isinstance(place, str) or not CUDA.fullmatch(place):
        return place
    if place not in ("cuda", "cuda:0"):
        raise PtxError(f"{place} was asked for; inside a ptx_device block there is one device, cuda:0")
    return "cpu"


def redirect_option(name: str, value: Any) -> Any:
    """The value of an option of a torch function, without what only a GPU has."""
    if name == "pin_memory":
        return False
    if name == "device" and isinstance(value, int) and not isinstance(value, bool):
        return redirect(f"cuda:{value}")
    return redirect(value)


def make_generator(generator: Any) -> Any:
    """The class torch.Generator, for a generator on the CPU where one on the device is asked for."""

    class Generator(generator):  # type: ignore[misc]
        def __new__(cls, device: Any = "cpu") -> Any:
            return generator.__new__(cls, redirect(device))

    return Generator


def make_mode(device: "PtxDevice") -> Any:
    """A mode in which CPU tensors say that they are CUDA tensors."""
    import torch
    from torch.overrides import TorchFunctionMode

    cuda = torch.device("cuda", 0)
    is_cuda, place = torch.Tensor.is_cuda.__get__, torch.Tensor.device.__get__  # type: ignore[attr-defined]
    is_cpu, index = torch.Tensor.is_cpu.__get__, torch.Tensor.get_device  # type: ignore[attr-defined]
    fresh = {torch.empty, torch.empty_like, torch.empty_strided, torch.empty_permuted}
    fresh |= {torch.Tensor.new_empty, torch.Tensor.new_empty_strided}
    own = {
        torch.Tensor.cuda: lambda tensor, *_, **__: tensor,
        torch.Tensor.cpu: torch.Tensor.clone,
        torch.Tensor.pin_memory: lambda tensor, *_, **__: tensor,
        torch.Tensor.record_stream: lambda *_: None,
    }

    class CudaAnswers(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func is torch.device or not device.open:  # a name, not yet a place; a thread that outlived the block
                return func(*args, **kwargs)
            options = {name: redirect_option(name, value) for name, value in kwargs.items()}
            result = own.get(func, func)(*map(redirect, args), **options)
            if func in fresh:
                unwritten.fill(result)
            elif func is torch.Tensor.data_ptr:
                device.addresses.note(args[0])
            if func == place:
                return cuda if result.type == "cpu" else result
            if func == is_cuda:
                return True
            if func == is_cpu:
                return False
            return 0 if func == index else result

    return CudaAnswers()
