"""What S4D, S5 and LRU share around their recurrences: embedding, norm, GELU, gated linear unit, residual."""

from collections.abc import Iterable

from torch import Tensor, nn
from torch.nn import functional as F


class ResidualStack(nn.Module):
    """An embedding and one block per mixer (B, T, width) -> (B, T, width): x + GLU(GELU(mixer(norm(x))))."""

    def __init__(self, inputs: int, width: int, mixers: Iterable[nn.Module]) -> None:
        super().__init__()
        self.embed = nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(Block(width, mixer) for mixer in mixers)

    def forward(self, features: Tensor, _present: Tensor | None) -> Tensor:
        features = self.embed(features)
        for block in self.blocks:
            features = block(features)
        return features


class Block(nn.Module):
    """One mixer with what stands around it; all of it causal and token by token, so no mask is needed."""

    def __init__(self, width: int, mixer: nn.Module) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mixer = mixer
        self.gate = nn.Linear(width, 2 * width, bias=False)

    def forward(self, features: Tensor) -> Tensor:
        return features + F.glu(self.gate(F.gelu(self.mixer(self.norm(features)))), dim=-1)
