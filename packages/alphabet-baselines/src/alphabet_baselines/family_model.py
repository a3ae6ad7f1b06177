"""The one contract of all families: tokens in, a trajectory of features, pooled over time, read by a linear head."""

from collections.abc import Sequence as Names

import torch
from alphabet_core import AlphabetError
from torch import Tensor, nn

from alphabet_baselines.pooling import POOLS
from alphabet_baselines.tokens import check_metadata, read_tokens


class FamilyModel(nn.Module):
    """A model of one family, called as `Alphabet` is.

    `model(values, time_delta=..., observed=..., valid=...)` gives logits (B, K).
    `backbone(inputs (B, T, channels and metadata), present (B, T) or None) -> (B, T, width)` is all that differs
    between families.
    """

    def __init__(
        self,
        backbone: nn.Module,
        *,
        channels: int,
        outputs: int,
        width: int,
        pools: Names[str],
        metadata: Names[str] = (),
    ) -> None:
        super().__init__()
        self.channels = channels
        self.pools = tuple(pools)
        self.metadata = check_metadata(metadata)
        self.backbone = backbone
        self.head = nn.Linear(len(self.pools) * width, outputs)

    def forward(
        self,
        values: Tensor,
        *,
        time_delta: Tensor | None = None,
        observed: Tensor | None = None,
        valid: Tensor | None = None,
    ) -> Tensor:
        """Logits (B, K) of values (B, T, C)."""
        tokens = read_tokens(
            values,
            channels=self.channels,
            like=self.head.weight,
            metadata=self.metadata,
            time_delta=time_delta,
            observed=observed,
            valid=valid,
        )
        if tokens.inputs.dtype not in (torch.float32, torch.float64):
            raise AlphabetError(
                f"the families compute in torch.float32 or torch.float64; this model is {tokens.inputs.dtype}: "
                "convert it with .float()"
            )
        features = self.backbone(tokens.inputs, tokens.present)  # (B, T, width)
        pooled = torch.cat([POOLS[name](features, tokens) for name in self.pools], dim=-1)
        logits: Tensor = self.head(pooled)
        return logits

    def extra_repr(self) -> str:
        return f"channels={self.channels}, pools={self.pools}, metadata={self.metadata}"
