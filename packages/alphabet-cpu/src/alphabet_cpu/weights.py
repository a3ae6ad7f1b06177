"""The model's parameters as the kernels read them: folded into fewer factors, and padded to whole lanes."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from alphabet_core import Alphabet, AlphabetConfig
from alphabet_core.fused import EnergyHead, FixedFrame, FoldedBank, FoldedParts, fold_parts
from numpy.typing import NDArray
from torch import Tensor, nn

from alphabet_cpu.kernels.arithmetic import allocate
from alphabet_cpu.kernels.lanes import LANES
from alphabet_cpu.kernels.layout import Floats, Sizes, Weights, count_packed
from alphabet_cpu.kernels.modes import count_columns, imaginary, is_narrow

# Where torch computes another head than the affine one.
NO_HEAD: tuple[Floats, Floats] = (np.empty((0, 0), np.float32), np.empty(0, np.float32))


class ModelWeights(NamedTuple):
    """A model's weights for the kernels, and the sizes that these go by."""

    sizes: Sizes
    arrays: Weights


def arrange(folded: FoldedParts, modes: int) -> list[Tensor]:
    """The tensors of the kernels, in the order of `FoldedWeights`, without those that the model leaves out.

    Rows and columns are whole lanes, and modes are in the order of the states.
    """

    def arrange_bank(bank: FoldedBank) -> list[Tensor]:
        taps = torch.cat((bank.taps, bank.bias.unsqueeze(1)), dim=1)
        drive = _pad(_interleave(bank.drive, modes), 0)
        return [_pad(taps, 0).mT, drive, _interleave(bank.transition, modes)]

    parts = [_pad(folded.project, 0).mT, *arrange_bank(folded.direct)]
    if folded.synthesis is not None and folded.through is not None:
        parts += [_pad(_interleave(folded.synthesis, modes), 0).mT, _pad(folded.through, 0)]
    return parts if folded.cascaded is None else parts + arrange_bank(folded.cascaded)


def read_sizes(config: AlphabetConfig) -> Sizes:
    """The sizes and the structure that the kernels go by."""
    return Sizes(
        channels=config.channels,
        features=config.width,
        width=config.width + -config.width % LANES,
        columns=count_columns(config.modes),
        lags=np.array(config.lags, np.int64),
        history=max(config.lags),
        cascaded=config.cascaded,
        synthesis=config.synthesis,
        narrow=is_narrow(config.modes),
    )


def energies_only(weights: ModelWeights) -> ModelWeights:
    """The same weights for a pass that computes no lag products, as an energy head reads none."""
    return weights._replace(sizes=weights.sizes._replace(lags=np.empty(0, np.int64), history=1))


def pack(model: Alphabet, folded: Sequence[NDArray[Any]]) -> ModelWeights:
    """A model's weights, given the folded arrays that `arrange` lists."""
    packed = allocate(count_packed(read_sizes(model.config)))
    np.concatenate([array.ravel() for array in folded], out=packed, casting="same_kind")
    return with_head(model, packed)


def with_head(model: Alphabet, packed: Floats) -> ModelWeights:
    """A model's weights, given those that are folded and packed."""
    head = model.head
    if isinstance(head, EnergyHead):
        weight, bias = NO_HEAD
    else:
        assert isinstance(head, nn.Linear)
        weight = np.ascontiguousarray(head.weight.detach().numpy())
        bias = np.ascontiguousarray(head.bias.detach().numpy())
    raw = [parameter for bank in model.banks() for parameter in (bank.poles.raw_decay, bank.poles.raw_frequency)]
    poles = np.array([parameter.detach().numpy() for parameter in raw]).reshape(-1, 2, model.config.modes)
    return ModelWeights(read_sizes(model.config), Weights(packed, poles, weight, bias))


def fold_and_pack(model: Alphabet) -> ModelWeights:
    """A model's weights as they are now, for kernels that need no gradients."""
    folded = arrange(fold_parts(model), model.config.modes)
    return pack(model, [tensor.detach().numpy() for tensor in folded])


def fold_and_select(model: Alphabet) -> ModelWeights:
    """The same for `run_tiles`, which selects instead of multiplying where features are paired."""
    return pack_pairs(model) if has_paired_features(model) else fold_and_pack(model)


def has_paired_features(model: Alphabet) -> bool:
    """Whether both frames are fixed and the identity, so that features m and M + m are all that drives mode m."""
    identity = torch.eye(model.config.width, device=model.project.weight.device)
    return model.config.modes % LANES == 0 and all(
        isinstance(bank.frame, FixedFrame) and torch.equal(bank.frame.columns_matrix, identity)
        for bank in model.banks()
    )


def pack_pairs(model: Alphabet) -> ModelWeights:
    """The weights of a model with paired features: rows of features are put into the order of the states."""
    folded, modes = fold_parts(model), model.config.modes

    def arrange_pairs(bank: FoldedBank) -> list[Tensor]:
        taps = torch.cat((bank.taps, bank.bias.unsqueeze(1)), dim=1).mT  # (6, D)
        real, imaginary = bank.drive.split(modes, dim=0)  # of the features that are real parts, and imaginary ones
        own = torch.cat((real[:, :modes].diagonal(), imaginary[:, modes:].diagonal()))
        other = torch.cat((imaginary[:, :modes].diagonal(), real[:, modes:].diagonal()))
        return [taps, torch.stack((own, other)), bank.transition]

    parts = [folded.project.mT, *arrange_pairs(folded.direct)]
    if folded.synthesis is not None and folded.through is not None:
        parts += [folded.synthesis.diagonal(), folded.through]
    if folded.cascaded is not None:
        parts += arrange_pairs(folded.cascaded)
    packed = torch.cat([_interleave(part, modes).flatten() for part in parts]).detach().numpy().astype(np.float32)
    buffer: Floats = allocate(packed.size)
    buffer[:] = packed
    sizes, arrays = with_head(model, buffer)
    return ModelWeights(sizes._replace(paired=True), arrays)


def _pad(tensor: Tensor, axis: int, multiple: int = LANES) -> Tensor:
    """The tensor with zeros appended up to a multiple of the lanes, or of another number, along one axis."""
    missing = -tensor.shape[axis] % multiple
    shape = [*tensor.shape]
    shape[axis] = missing
    return torch.cat((tensor, tensor.new_zeros(shape)), dim=axis)


def _interleave(packed: Tensor, modes: int) -> Tensor:
    """A tensor (..., 2M) as (..., columns), in the order of the states."""
    group = imaginary(count_columns(modes))
    re, im = (_pad(part, -1, group).unflatten(-1, (-1, group)) for part in packed.split(modes, dim=-1))
    return torch.stack((re, im), dim=-2).flatten(-3)
