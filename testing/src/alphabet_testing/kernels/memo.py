"""Outcomes of launches, found again by everything that decides them.

Executing or interpreting a kernel on the CPU takes up to a second, and a chain with one broken launch repeats most
launches of the unbroken one. A launch that ran before, the same code on the same bytes, does not run again: what it
changed is copied in.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from alphabet_triton.launching import Launch
from torch import Tensor


@dataclass(frozen=True)
class Outcome:
    """What a launch did: the bytes of every tensor that it changed, by name, and the instructions that it executed."""

    changed: Mapping[str, bytes]
    instructions: Counter[str] = field(default_factory=Counter)

    def apply(self, tensors: Mapping[str, Tensor]) -> None:
        """Write the changed bytes; as where kernels write them, autograd does not count a new version."""
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


def digest_launch(code: object, launch: Launch) -> bytes:
    """A digest of all that decides what a launch does: `code`, grid, scalars, and its tensors' bytes and layout.

    code: what tells the kernel's compiled code apart from any other, with a `repr` that is exact
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
        for name, tensor in launch.tensors.items()
    }
    digest = hashlib.sha256(repr((code, launch.grid, sorted(launch.scalars.items()), layout)).encode())
    for tensor in launch.tensors.values():
        digest.update(byte_view(tensor))
    return digest.digest()


def copy_bytes(tensors: Mapping[str, Tensor]) -> dict[str, bytes]:
    """The bytes of each tensor, as they are now."""
    return {name: byte_view(tensor).tobytes() for name, tensor in tensors.items()}


def list_changes(tensors: Mapping[str, Tensor], before: Mapping[str, bytes]) -> dict[str, bytes]:
    """The bytes of each tensor that has others than before."""
    return {name: content for name, content in copy_bytes(tensors).items() if content != before[name]}


def byte_view(tensor: Tensor) -> np.ndarray:
    """The bytes of a contiguous tensor, as an array that writes through to it."""
    assert tensor.is_contiguous()  # the bytes of any other tensor would be a copy's
    return tensor.detach().numpy().reshape(-1).view(np.uint8)
