"""CUDA graphs without a GPU: work on CPU tensors is recorded by address, and replayed by executing its nodes.

`torch.cuda.graph` and `torch.cuda.CUDAGraph` are stood in for inside `cuda_graphs()`, so that the code around them runs
as it is. As on a GPU:

- nothing that is recorded happens while it is recorded, and the host may not ask for a value then;
- a node knows addresses: memory that was allocated before the recording is not kept alive by it, and a replay that
  meets memory which has been freed raises `FreedMemoryError`;
- what was allocated while recording lies in the graph's pool, which other graphs overwrite: it holds NaN whenever a
  replay begins.
"""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_map

ASKING = {torch.ops.aten._local_scalar_dense.default, torch.ops.aten.equal.default, torch.ops.aten.nonzero.default}


class NoHost(TorchDispatchMode):
    """A block in which the host may ask for no value: a GPU would be waited for, and a graph cannot record it."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in ASKING:
            raise AssertionError(f"{function} asks the device for a value")
        return function(*args, **(kwargs or {}))


class FreedMemoryError(AssertionError):
    """A graph that is replayed reads or writes memory that nobody has kept."""


class Address:
    """Where a tensor lies and how it is laid out, without keeping its memory alive."""

    def __init__(self, tensor: Tensor) -> None:
        self.storage = torch.UntypedStorage._weak_ref(tensor.untyped_storage())
        self.layout = (tensor.storage_offset(), tuple(tensor.shape), tensor.stride())
        self.dtype = tensor.dtype

    def find(self, node: str) -> Tensor:
        storage = torch.UntypedStorage._new_with_weak_ptr(self.storage)
        if storage is None:
            raise FreedMemoryError(f"{node} addresses a tensor of shape {self.layout[1]} whose memory has been freed")
        return torch.empty(0, dtype=self.dtype).set_(storage, *self.layout)

    def __del__(self) -> None:
        torch.UntypedStorage._free_weak_ref(self.storage)


@dataclass(frozen=True)
class Node:
    """A kernel of a graph: a launch of Triton's, or an operator of torch's that is one kernel on a GPU.

    The results of an operator are copied to where they lay when it was recorded.
    """

    name: str
    function: Any
    args: Any
    kwargs: Any
    results: Any = ()

    def run(self) -> None:
        args, kwargs = self.resolve(self.args), self.resolve(self.kwargs)
        found = self.function(*args, **kwargs)
        found = found if isinstance(found, tuple | list) else (found,)
        for tensor, place in zip(found, self.results, strict=False):
            if place is not None:
                place.find(self.name).copy_(tensor)

    def resolve(self, values: Any) -> Any:
        return tree_map(lambda value: value.find(self.name) if isinstance(value, Address) else value, values)


def forget(values: Any) -> Any:
    """Arguments with the addresses of tensors in the tensors' place."""
    return tree_map(lambda value: Address(value) if isinstance(value, Tensor) else value, values)


class Graph:
    """What stands in for `torch.cuda.CUDAGraph`: nodes, and the memory of its pool."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.memory: list[torch.UntypedStorage] = []
        self.handle: object = None
        self.mode = ""

    def pool(self) -> object:
        return self.handle

    @torch.no_grad()
    def replay(self) -> None:
        assert Recorder.active is None, "a graph is replayed while another is captured"
        with _disable_current_modes():
            self.spoil()
            for node in self.nodes:
                node.run()

    def spoil(self) -> None:
        """Overwrite the pool: other graphs have used it."""
        for storage in self.memory:
            torch.empty(0, dtype=torch.uint8).set_(storage).fill_(255)  # as float32 and float64, NaN


class Recorder(TorchDispatchMode):
    """While it is active, operators and launches become nodes of a graph. Tensors hold what they held before it."""

    active: "Recorder | None" = None

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.own: set[int] = set()  # addresses of storages in the pool
        self.before: list[tuple[Tensor, Tensor]] = []

    @contextmanager
    def recording(self) -> Iterator[None]:
        """A block that is recorded; what it changed is undone."""
        Recorder.active = self
        try:
            with self:
                yield
        finally:
            Recorder.active = None
            with torch.no_grad():
                for tensor, content in reversed(self.before):
                    tensor.copy_(content)
            self.graph.spoil()

    def launch(self, kernel: Any, grid: Any, args: Any, kwargs: Any) -> None:
        """Record a launch, which is not executed."""
        node = Node(kernel.__name__, kernel[grid], forget(args), forget(kwargs))
        self.graph.nodes.append(node)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function in ASKING:
            raise RuntimeError(f"{function} is not permitted while a stream is capturing")
        if function.namespace == "alphabet":  # made of launches and torch's operators, which are the nodes
            define = torch._library.custom_ops.OPDEFS[function.name()]
            with self:
                return define._init_fn(*args, **kwargs)
        written = [
            value for value in list_tensors((args, kwargs)) if value.untyped_storage().data_ptr() not in self.own
        ]
        kept = [(tensor, tensor.clone()) for tensor in written] if changes_arguments(function) else []
        found = function(*args, **kwargs)
        self.before += kept
        given = {tensor.untyped_storage().data_ptr() for tensor in list_tensors((args, kwargs))}
        fresh = [t for t in list_tensors(found) if t.untyped_storage().data_ptr() not in given and t.numel()]
        for tensor in fresh:
            self.own.add(tensor.untyped_storage().data_ptr())
            self.graph.memory.append(tensor.untyped_storage())
        if changes_arguments(function) or (fresh and not is_empty(function)):
            outputs = found if isinstance(found, tuple | list) else (found,)
            places = () if changes_arguments(function) else [forget(output) for output in outputs]
            self.graph.nodes.append(Node(function.name(), function, forget(args), forget(kwargs), places))
        return found


def changes_arguments(function: Any) -> bool:
    return any(a.alias_info is not None and a.alias_info.is_write for a in function._schema.arguments)


def is_empty(function: Any) -> bool:
    """Whether an operator only allocates."""
    return function._schema.name.split("::")[1] in ("empty", "empty_like", "empty_strided", "new_empty")


def list_tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(values) if isinstance(leaf, Tensor)]


@contextmanager
def others_poisoned(*kept: Tensor) -> Iterator[None]:
    """A block in which all memory of tensors holds NaN, except that of the tensors given; it is restored behind it."""
    spared = {tensor.untyped_storage().data_ptr() for tensor in kept}
    tensors = [t for t in gc.get_objects() if type(t) in (Tensor, torch.nn.Parameter) and t.layout == torch.strided]
    storages = [s for s in (tensor.untyped_storage() for tensor in tensors) if s.device.type == "cpu"]
    # What is not torch's own memory, such as a mapped file, cannot be resized, and perhaps not be written either.
    others = {s.data_ptr(): s for s in storages if s.resizable() and s.data_ptr() not in {0, *spared}}
    before = {place: ctypes.string_at(place, storage.nbytes()) for place, storage in others.items()}
    for place, content in before.items():
        ctypes.memset(place, 255, len(content))
    try:
        yield
    finally:
        for place, content in before.items():
            ctypes.memmove(place, content, len(content))


@contextmanager
def cuda_graphs() -> Iterator[list[Graph]]:
    """A block, inside that of a device, in which CUDA graphs can be captured; gives the graphs that were."""
    from triton.runtime.jit import JITFunction

    graphs: list[Graph] = []
    launch = JITFunction.run

    def make_graph() -> Graph:
        graph = Graph()
        graphs.append(graph)
        return graph

    @contextmanager
    def capture(graph: Graph, pool: object = None, capture_error_mode: str = "global") -> Iterator[None]:
        assert Recorder.active is None, "a graph is captured inside another"
        gc.collect()  # as torch does
        graph.handle, graph.mode = object() if pool is None else pool, capture_error_mode
        with Recorder(graph).recording():
            yield

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if Recorder.active is None or warmup:
            return launch(self, *args, grid=grid, warmup=warmup, **kwargs)
        return Recorder.active.launch(self, grid, args, kwargs)

    answers = {
        "CUDAGraph": make_graph,
        "graph": capture,
        "graph_pool_handle": object,
        "is_current_stream_capturing": lambda: Recorder.active is not None,
    }
    with ExitStack() as stack:
        stack.enter_context(patch.multiple(torch.cuda, **answers))
        stack.enter_context(patch.object(JITFunction, "run", run))
        yield graphs
