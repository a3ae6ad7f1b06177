"""Inputs for a launch that was recorded and not run: what the host wrote is kept, all other memory is filled."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from alphabet_triton.weights import list_powers
from torch import Tensor


@contextmanager
def marked() -> Iterator[None]:
    """A block in which memory that nobody has written holds NaN, or the largest integer, so that `fill` finds it."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def fill(tensors: Mapping[str, Tensor], seed: int = 0) -> dict[str, Tensor]:
    """Copies of the tensors of a launch recorded while unwritten memory was `marked`.

    Floats that are marked become small random numbers, because the frames' constraint takes more substeps the further
    a step has moved, and poles remember few tokens; integers become zero, where counters begin. Tensors that share
    memory share it in the copies, too.
    """
    generator = torch.Generator().manual_seed(seed)
    storages: dict[int, Tensor] = {}
    filled = {}
    for name, tensor in tensors.items():
        place = tensor.untyped_storage().data_ptr()
        if place not in storages:
            whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
            storages[place] = _fill_whole(whole, generator)
        whole = storages[place]
        if whole.dtype != tensor.dtype:
            raise ValueError(f"{name} shares its memory with a tensor of another type")
        filled[name] = whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        if name in ("transition", "transition_2") and tensor.dim() == 2 and tensor.isnan().any():
            filled[name].copy_(list_powers(filled[name][:, 0].double()))
    return filled


def _fill_whole(whole: Tensor, generator: torch.Generator) -> Tensor:
    if whole.is_floating_point():
        small = torch.rand(whole.shape, generator=generator, dtype=whole.dtype) / 100
        return torch.where(whole.isnan(), small, whole)
    if whole.dtype == torch.bool:
        return whole.clone()
    return torch.where(whole == torch.iinfo(whole.dtype).max, torch.zeros_like(whole), whole)
