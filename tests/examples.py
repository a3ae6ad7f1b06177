"""Models whose parameters all moved away from where they start, and batches with every kind of mask."""

import torch
from alphabet_core import Alphabet, AlphabetConfig

MASKS = ["none", "valid", "observed", "both"]


def make_model(channels=2, width=64, modes=16, outputs=5, *, seed=0, turned=False, variant="full"):
    torch.manual_seed(seed)
    sizes = {"channels": channels, "width": width, "modes": modes, "outputs": outputs}
    model = Alphabet(AlphabetConfig.variant(variant, **sizes))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.startswith("head") and (turned or not name.endswith("tangent")):
                parameter += 0.1 * torch.randn_like(parameter)
    return model


def make_batch(batch, length, channels, masks="none", seed=1):
    """Values and the masks by name; where nothing may be read there is NaN."""
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
