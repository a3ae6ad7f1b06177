"""Labels and their indices: TRAIN's labels, sorted as text, are the classes."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from alphabet_study.readers.places import excerpt, malformed


def sorted_classes(labels: Sequence[str]) -> tuple[str, ...]:
    """The distinct labels, sorted as text."""
    return tuple(sorted(set(labels)))


def index_labels(path: Path, labels: Sequence[str], classes: Sequence[str]) -> Tensor:
    """The labels' indices (N,) among TRAIN's classes; a label that TRAIN does not have is refused."""
    index = {label: position for position, label in enumerate(classes)}
    unknown = next((label for label in labels if label not in index), None)
    if unknown is not None:
        raise malformed(
            path,
            f"label {excerpt(unknown)} does not occur in TRAIN, whose classes are {', '.join(classes)}",
            "take TRAIN and TEST from the same release",
        )
    return torch.tensor([index[label] for label in labels])
