"""Models inside torch's wrappers for several devices, here a group of one process."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed
from torch import nn

WRAPPERS = ["DataParallel", "DistributedDataParallel"]


@contextmanager
def wrap(name: str, model: nn.Module) -> Iterator[nn.Module]:
    """A model inside a wrapper of `WRAPPERS`, which computes what the model does; valid within the block."""
    if name == "DataParallel":
        yield nn.DataParallel(model)
        return
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        yield nn.parallel.DistributedDataParallel(model)
    finally:
        torch.distributed.destroy_process_group()
