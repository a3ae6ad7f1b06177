"""What stands in for functions and classes of `torch.cuda` inside a block."""

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from alphabet_ptx.errors import PtxError

if TYPE_CHECKING:
    from alphabet_ptx.driver import PtxDevice

MEMORY = 1 << 34
# What a GPU would do and need not be done here: launches have ended when they return, and torch keeps the memory.
NEEDLESS = (
    "init set_device synchronize empty_cache set_stream ipc_collect reset_peak_memory_stats "
    "reset_max_memory_allocated reset_max_memory_cached reset_accumulated_memory_stats set_per_process_memory_fraction"
)


def list_answers(device: "PtxDevice") -> dict[str, Any]:
    """The attributes of `torch.cuda` by name."""
    import torch

    capability = divmod(device.capability, 10)
    properties = SimpleNamespace(
        name=f"{device.arch} by alphabet-ptx",
        major=capability[0],
        minor=capability[1],
        multi_processor_count=device.properties["multiprocessor_count"],
        total_memory=MEMORY,
        warp_size=32,
        regs_per_multiprocessor=device.properties["max_num_regs"],
        max_threads_per_multi_processor=1536,
        shared_memory_per_block_optin=device.properties["max_shared_mem"],
        shared_memory_per_multiprocessor=device.properties["max_shared_mem"],
        L2_cache_size=1 << 22,
        gcnArchName="",
    )
    generator, stream = torch.default_generator, Stream()
    return {
        **{name: always(None) for name in NEEDLESS.split()},
        "is_available": always(True),
        "is_initialized": always(True),
        "device_count": always(1),
        "current_device": always(0),
        "device": Device,
        "device_of": Device,
        "get_device_capability": always(capability),
        "get_device_properties": always(properties),
        "get_device_name": always(properties.name),
        "get_arch_list": always([device.arch]),
        "is_bf16_supported": always(True),
        "can_device_access_peer": always(False),
        "mem_get_info": always((MEMORY, MEMORY)),
        "memory_summary": always(""),
        "current_stream": always(stream),
        "default_stream": always(stream),
        "stream": always(nullcontext()),
        "is_current_stream_capturing": always(False),
        "Stream": Stream,
        "ExternalStream": Stream,
        "Event": Event,
        "CUDAGraph": refuse("torch.cuda.CUDAGraph"),
        "graph": refuse("torch.cuda.graph"),
        "default_generators": (generator,),
        "manual_seed": generator.manual_seed,
        "manual_seed_all": generator.manual_seed,
        "seed": generator.seed,
        "seed_all": generator.seed,
        "initial_seed": generator.initial_seed,
        "get_rng_state": lambda *_, **__: generator.get_state(),
        "get_rng_state_all": lambda: [generator.get_state()],
        "set_rng_state": lambda new_state, *_, **__: generator.set_state(new_state),
        "set_rng_state_all": lambda new_states: generator.set_state(new_states[0]),
    }


def always(answer: Any) -> Callable[..., Any]:
    """A function that returns this, whatever it is asked."""
    return lambda *_, **__: answer


def refuse(name: str) -> Callable[..., None]:
    """A function that refuses what cannot be had without a GPU."""

    def answer(*_: object, **__: object) -> None:
        raise PtxError(f"{name} records work of a GPU, which there is none of here; launch the kernels directly")

    return answer


class Device:
    """A block on the one device that there is."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> None:
        """Nothing is to be changed."""

    def __exit__(self, *_: object) -> None:
        """Nothing was changed."""


class Stream(Device):
    """A stream on which everything has already happened."""

    cuda_stream = stream_id = device_index = priority = 0

    def synchronize(self) -> None:
        """Nothing is under way."""

    def wait_stream(self, _: object) -> None:
        """Nothing is under way."""

    def wait_event(self, _: object) -> None:
        """Nothing is under way."""

    def record_event(self, event: "Event | None" = None) -> "Event":
        """The event, which is over."""
        return event or Event()

    def query(self) -> bool:
        """Everything has ended."""
        return True


class Event:
    """A moment that is over; no time of a GPU can be taken here."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def record(self, *_: object) -> None:
        """Nothing is under way."""

    def wait(self, *_: object) -> None:
        """Nothing is under way."""

    def synchronize(self) -> None:
        """Nothing is under way."""

    def query(self) -> bool:
        """Everything has ended."""
        return True

    def elapsed_time(self, _: object) -> float:
        """Refuse: what this device takes says nothing about a GPU."""
        raise PtxError("torch.cuda.Event.elapsed_time: there is no GPU here whose time could be taken")
