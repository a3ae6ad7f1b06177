"""Models whose parameters all moved away from where they start, and batches with every kind of mask."""

from typing import Any

import torch
from alphabet_core import Alphabet, AlphabetConfig
from torch import Tensor, nn

MASKS = ["none", "valid", "observed", "both"]


@torch.no_grad()
def move_parameters(model: nn.Module, amount: float, *, tangents: float | None = None, head: bool = False) -> None:
    """Add normal noise to every parameter, so that none is left at a special value.

    amount: standard deviation of the noise; tangents: that of the frames' tangents, `amount` if None;
    head: whether the head moves too, which is random from the start.
    """
    for name, parameter in model.named_parameters():
        if head or not name.startswith("head"):
            spread = tangents if tangents is not None and name.endswith("tangent") else amount
            if spread:  # nothing is drawn for what stays, so that the others do not depend on it
                parameter += spread * torch.randn_like(parameter)


def make_model(
    channels: int = 2,
    width: int = 64,
    modes: int = 16,
    outputs: int = 5,
    *,
    seed: int = 0,
    turned: bool = False,
    variant: str = "full",
) -> Alphabet:
    """A float32 model of any size, by default the audit's; its frames are at their base unless `turned`."""
    torch.manual_seed(seed)
    sizes = {"channels": channels, "width": width, "modes": modes, "outputs": outputs}
    model = Alphabet(AlphabetConfig.variant(variant, **sizes))
    start_near_identity(model)
    move_parameters(model, 0.1, tangents=0.1 if turned else 0.0)
    return model


@torch.no_grad()
def start_near_identity(model: Alphabet) -> None:
    """Draw lifts near the identity with positive biases: kernels are judged on such models, whatever the defaults are.

    Their tolerances are relative to a tensor's largest gradient, which some draws bring near zero. With the package's
    own start, one of 25 models of four modes has pole gradients that cancel so far that alphabet-cpu's rounding is
    2.3e-5 of what is left, where torch's is .7e-5 and the median of the 25 is 1e-6.
    """
    for bank in model.banks():
        bank.lift.kernel.normal_(0.0, 0.1)
        bank.lift.kernel[:, bank.lift.kernel.shape[1] // 2] += 1.0
        bank.lift.bias.normal_(1.0, 0.5)


def build_model(variant: str = "full", *, seed: int = 0, dtype: torch.dtype = torch.float64, **sizes: Any) -> Alphabet:
    """A small model, (2, 8, 3, 3) unless `sizes` says otherwise, in float64, with frames far from their base."""
    torch.manual_seed(seed)
    fields = {"channels": 2, "width": 8, "modes": 3, "outputs": 3} | sizes
    model = Alphabet(AlphabetConfig.variant(variant, **fields)).to(dtype)
    move_parameters(model, 0.15, tangents=1.5)
    return model


def make_batch(
    batch: int, length: int, channels: int, masks: str = "none", seed: int = 1
) -> tuple[Tensor, dict[str, Tensor]]:
    """Values (B, T, C) and the masks by name; where nothing may be read there is NaN."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(batch, length, channels, generator=generator)
    valid = torch.rand(batch, length, generator=generator) < 0.8
    observed = torch.rand(batch, length, channels, generator=generator) < 0.7
    given = {"none": {}, "valid": {"valid": valid}, "observed": {"observed": observed}}
    given["both"] = {"valid": valid, "observed": observed}
    readable = torch.ones_like(observed)
    for name, mask in given[masks].items():
        readable &= mask.unsqueeze(-1) if name == "valid" else mask
    return torch.where(readable, values, torch.nan), given[masks]
