"""What reads the descriptor: the affine head, or the energy-only MLP of the ablation (Algorithm 1, last line)."""

from torch import Tensor, nn
from torch.nn import functional as F

from alphabet_core.config import AlphabetConfig


class AffineHead(nn.Linear):
    """Logits affine in the flattened descriptor, hence a sum of per-pole terms.

    The sum is accumulated in float64: its hundreds of terms of either sign would otherwise contribute five times the
    rounding of all the rest of the model.
    """

    def __init__(self, config: AlphabetConfig) -> None:
        super().__init__(config.banks * config.modes * config.coordinates, config.outputs)

    def forward(self, descriptor: Tensor) -> Tensor:  # (B, banks, M, coordinates) -> (B, K)
        bias = None if self.bias is None else self.bias.double()  # `head.bias = None` is torch's way to have none
        logits = F.linear(descriptor.flatten(1).double(), self.weight.double(), bias)
        return logits.to(descriptor.dtype)


class EnergyHead(nn.Module):
    """An MLP on the log energies alone; no exact per-pole decomposition exists for it."""

    def __init__(self, config: AlphabetConfig, hidden: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(config.banks * config.modes, hidden)
        self.output = nn.Linear(hidden, config.outputs)

    def forward(self, descriptor: Tensor) -> Tensor:  # (B, banks, M, coordinates) -> (B, K)
        energies = descriptor[..., 0].flatten(1)
        logits: Tensor = self.output(F.silu(self.hidden(energies)))
        return logits


def make_head(config: AlphabetConfig) -> AffineHead | EnergyHead:
    """The head that the configuration asks for."""
    if config.energy_hidden is None:
        return AffineHead(config)
    return EnergyHead(config, config.energy_hidden)
