"""Every margin as an exact sum over poles: decomposition, ranking, neutralizing and retaining poles."""

from dataclasses import dataclass

import torch
from torch import Tensor

from alphabet_core.arguments import describe, require_count, require_tensor
from alphabet_core.bounds import affine_head
from alphabet_core.errors import AlphabetError
from alphabet_core.model import Alphabet, require_alphabet
from alphabet_core.sequence import check_indices, check_lengths


@dataclass(frozen=True)
class Attribution:
    """The margins of a batch of predictions: margin[b] = baseline[b] + contributions[b].sum(), exactly.

    contributions (B, banks, M); baseline, margin (B,); winner, runner_up (B,) class indices, runner_up None with K = 1,
    where the margin is the output itself.
    """

    contributions: Tensor
    baseline: Tensor
    margin: Tensor
    winner: Tensor
    runner_up: Tensor | None

    def __getitem__(self, index: int | slice) -> "Attribution":
        """The attributions of one or some of the predictions, with the batch axis kept."""
        if isinstance(index, int):
            place = range(len(self.margin))[index]
            index = slice(place, place + 1)
        runner_up = None if self.runner_up is None else self.runner_up[index]
        return Attribution(
            self.contributions[index], self.baseline[index], self.margin[index], self.winner[index], runner_up
        )


@torch.no_grad()
def attribute(
    model: Alphabet,
    descriptor: Tensor,
    center: Tensor,
    *,
    winner: Tensor | None = None,
    runner_up: Tensor | None = None,
) -> Attribution:
    """Split the margin between the predicted class and its runner-up into one term per pole.

    descriptor (B, banks, M, coordinates) from `model.describe`; center (banks, M, coordinates), the TRAIN mean of
    descriptors, is what a pole's contribution is measured from. Other class pairs can be asked for by index (B,).
    """
    head = affine_head(model)
    _check_center(descriptor, center)
    weight = head.weight.double()
    bias = weight.new_zeros(len(weight)) if head.bias is None else head.bias.double()
    outputs = weight.shape[0]
    logits = torch.nn.functional.linear(descriptor.flatten(1).double(), weight, bias)
    for name, indices in (("winner", winner), ("runner_up", runner_up)):
        if indices is not None:
            check_indices(name, indices, len(descriptor), outputs)
    if winner is None:
        rest = logits if runner_up is None else logits.scatter(1, runner_up.unsqueeze(1), -torch.inf)
        winner = rest.argmax(dim=1)
    if runner_up is None and outputs > 1:
        runner_up = logits.scatter(1, winner.unsqueeze(1), -torch.inf).argmax(dim=1)
    if runner_up is not None and bool((winner == runner_up).any()):
        raise AlphabetError("winner and runner_up must differ in every row: a class has no margin over itself")
    direction, offset = weight[winner], bias[winner]  # (B, features), (B,)
    if runner_up is not None:
        direction, offset = direction - weight[runner_up], offset - bias[runner_up]
    departure = descriptor.double() - center.double()
    contributions = (direction.view_as(departure) * departure).sum(dim=-1)
    baseline = offset + direction @ center.flatten().double()
    margin = baseline + contributions.flatten(1).sum(dim=1)
    return Attribution(contributions, baseline, margin, winner, runner_up)


@torch.no_grad()
def mean_descriptor(model: Alphabet, values: Tensor, *, batch_size: int = 256, **side_inputs: Tensor | None) -> Tensor:
    """The mean descriptor (banks, M, coordinates) of a set of sequences, from which contributions are measured."""
    require_alphabet(model)
    require_count("batch_size", batch_size)
    present = {name: tensor for name, tensor in side_inputs.items() if tensor is not None}
    check_lengths(values, **present)
    if len(values) == 0:
        raise AlphabetError("values holds no sequence, so it has no mean: pass the training sequences")
    total = torch.zeros((), dtype=torch.float64, device=values.device)
    for start in range(0, len(values), batch_size):
        part = slice(start, start + batch_size)
        given = {name: tensor[part] for name, tensor in present.items()}
        total = total + model.describe(values[part], **given).double().sum(dim=0)
    return (total / len(values)).to(values.dtype)


def rank_poles(attribution: Attribution) -> Tensor:
    """All poles as rows (bank, mode), (banks * M, 2), by falling mean absolute contribution; ties keep their order."""
    if not isinstance(attribution, Attribution):
        raise AlphabetError(f"attribution must be what attribute(...) returns; got {describe(attribution)}")
    score = attribution.contributions.abs().mean(dim=0)  # (banks, M)
    order = score.flatten().argsort(descending=True, stable=True)
    return torch.stack((order // score.shape[1], order % score.shape[1]), dim=1)


def pole_mask(model: Alphabet, poles: Tensor) -> Tensor:
    """The mask (banks, M) that is True at the listed rows (bank, mode), such as the first eight of a ranking."""
    config = require_alphabet(model).config
    shape = (config.banks, config.modes)
    require_tensor("poles", poles)
    if poles.ndim != 2 or poles.shape[1] != 2 or poles.dtype != torch.int64:
        found = f"{poles.dtype} {tuple(poles.shape)}"
        raise AlphabetError(f"poles must be int64 rows of (bank, mode), shape (n, 2); got {found}")
    limits = torch.tensor(shape, device=poles.device)
    if bool(((poles < 0) | (poles >= limits)).any()):
        raise AlphabetError(f"poles must lie in {shape[0]} banks of {shape[1]} modes; got {poles.tolist()}")
    mask = torch.zeros(shape, dtype=torch.bool, device=poles.device)
    mask[poles[:, 0], poles[:, 1]] = True
    return mask


def neutralize(descriptor: Tensor, center: Tensor, poles: Tensor) -> Tensor:
    """The descriptor with the masked poles (banks, M) replaced by their TRAIN mean, all else intact."""
    _check_center(descriptor, center)
    _check_mask(center, poles)
    return torch.where(poles.unsqueeze(-1), center, descriptor)


def retain(descriptor: Tensor, center: Tensor, poles: Tensor) -> Tensor:
    """The descriptor with only the masked poles (banks, M) left, every other one at its TRAIN mean."""
    _check_center(descriptor, center)
    _check_mask(center, poles)
    return torch.where(poles.unsqueeze(-1), descriptor, center)


def _check_center(descriptor: Tensor, center: Tensor) -> None:
    require_tensor("descriptor", descriptor)
    require_tensor("center", center)
    if descriptor.ndim != 4 or center.shape != descriptor.shape[1:]:
        raise AlphabetError(
            "descriptor must be (batch, banks, modes, coordinates) and center its mean over the batch axis; "
            f"got {tuple(descriptor.shape)} and {tuple(center.shape)}"
        )


def _check_mask(center: Tensor, poles: Tensor) -> None:
    require_tensor("poles", poles)
    if poles.dtype != torch.bool or poles.shape != center.shape[:2]:
        raise AlphabetError(
            f"poles must be a boolean mask of shape {tuple(center.shape[:2])}; got {poles.dtype} {tuple(poles.shape)}"
        )
