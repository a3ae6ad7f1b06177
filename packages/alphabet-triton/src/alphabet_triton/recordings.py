"""Recordings of shapes: what each owns, and how many are kept."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import torch
from alphabet_core.fused import Run
from torch import Tensor

from alphabet_triton.inputs import Inputs

# Shapes whose recordings are kept. Beyond that the one that was used longest ago is dropped.
MOST_RECORDINGS = 64


@dataclass(frozen=True)
class Recording:
    """The work of one shape, and every tensor outside its graph's pool that it reads or writes.

    A CUDA graph knows addresses and keeps no tensor alive: this does, until the recording itself is dropped.
    inputs, targets: what a call copies in; result: what it clones; owned: whatever else the work addresses
    """

    inputs: Inputs
    targets: Tensor | None
    result: Tensor
    owned: tuple[Tensor, ...]
    replay: Run


class Recordings:
    """The recordings of the shapes that were used last, by key."""

    def __init__(self, most: int = MOST_RECORDINGS) -> None:
        self.most = most
        self._kept: dict[Hashable, Recording] = {}

    def find(self, key: Hashable) -> Recording | None:
        """The recording with this key, from now on the one that was used last; None if there is none."""
        recording = self._kept.pop(key, None)
        if recording is not None:
            self._kept[key] = recording
        return recording

    def add(self, key: Hashable, recording: Recording) -> Recording:
        """Keep a recording, which is returned; if there are too many, the one used longest ago is dropped."""
        self._kept[key] = recording
        if len(self._kept) > self.most:
            del self._kept[next(iter(self._kept))]
        return recording

    def clear(self) -> None:
        """Drop all recordings."""
        self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Recording]:
        return iter(self._kept.values())

    def keys(self) -> list[Hashable]:
        """The keys of all recordings, that of the one used last at the end."""
        return list(self._kept)


def lasting() -> torch.inference_mode:
    """A context for tensors that outlive a call: one made in a caller's inference mode could not be written outside."""
    return torch.inference_mode(False)
