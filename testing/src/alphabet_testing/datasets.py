"""The UCR sets bundled with aeon, as tensors."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def read_dataset(loader: Callable[..., Any]) -> list[tuple[Tensor, Tensor]]:
    """TRAIN and TEST as (values (N, T, C), class indices (N,)), standardized by TRAIN's mean and spread."""
    names = sorted(set(loader(split="train")[1]))
    parts = []
    for split in ("train", "test"):
        values, labels = loader(split=split)
        indices = torch.tensor([names.index(label) for label in labels])
        parts.append((torch.tensor(values, dtype=torch.float32).mT, indices))
    mean, spread = parts[0][0].mean(dim=(0, 1)), parts[0][0].std(dim=(0, 1))
    return [((values - mean) / spread, indices) for values, indices in parts]
