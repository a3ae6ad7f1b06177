"""Outcomes of executed launches, found again by everything that decides them.

Executing the PTX of a kernel on the CPU takes up to a second, and a chain with one broken launch repeats most launches
of the unbroken one. A launch that was executed before, the same code on the same bytes, is not executed again: what it
changed is copied in.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from alphabet_ptx import CompiledKernel
from torch import Tensor


@dataclass(frozen=True)
class Outcome:
    """What a launch did: the bytes of every tensor that it changed, by name, and the instructions that it executed."""

    changed: Mapping[str, bytes]
    instructions: Counter[str]

    def apply(self, tensors: Mapping[str, Tensor]) -> None:
        """Write the changed bytes; as in an execution, autograd does not count that as a change of version."""
        for name, content in self.changed.items():
            byte_view(tensors[name])[:] = np.frombuffer(content, np.uint8)


class LaunchMemo:
    """The outcomes of launches by their digests, for one process."""

    def __init__(self) -> None:
        self._outcomes: dict[bytes, Outcome] = {}

    def find(self, digest: bytes) -> Outcome | None:
        """The outcome of an earlier launch with this digest, or None."""
        return self._outcomes.get(digest)

    def add(self, digest: bytes, outcome: Outcome) -> None:
        """Keep the outcome of a launch that nothing was wrong with."""
        self._outcomes[digest] = outcome


def digest_launch(
    compiled: CompiledKernel, grid: Sequence[int], tensors: Mapping[str, Tensor], scalars: Mapping[str, int]
) -> bytes:
    """A digest of a launch: its code, grid and scalars, and the bytes and layout of all its tensors.

    The layout says which tensors lie in one storage, and where: one of them shows what is written to another.
    """
    storages: dict[int, int] = {}
    layout = {
        name: (
            str(tensor.dtype),
            tuple(tensor.shape),
            tensor.stride(),
            storages.setdefault(tensor.untyped_storage().data_ptr(), len(storages)),
            tensor.storage_offset(),
        )
        for name, tensor in tensors.items()
    }
    code = (compiled.ptx, compiled.arch, compiled.shared, compiled.warps, sorted(compiled.signature.items()))
    digest = hashlib.sha256(repr((code, tuple(grid), layout, sorted(scalars.items()))).encode())
    for tensor in tensors.values():
        digest.update(byte_view(tensor))
    return digest.digest()


def byte_view(tensor: Tensor) -> np.ndarray:
    """The bytes of a contiguous tensor, as an array that writes through to it."""
    return tensor.detach().numpy().reshape(-1).view(np.uint8)
