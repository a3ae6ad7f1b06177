"""How the head's kernel is called."""

from torch import Tensor

from alphabet_triton.blocks import head_blocks
from alphabet_triton.launching import Launch
from alphabet_triton.ops.head.kernel import head_fwd_kernel


def head_forward(sums: Tensor, counts: Tensor, weight: Tensor, bias: Tensor, out: dict[str, Tensor]) -> Launch:
    """Into out: descriptor and logits."""
    batch, modes, outputs = len(sums), sums.shape[-1], len(bias)
    blocks = head_blocks(modes, outputs)
    return Launch(
        head_fwd_kernel,
        (-(-outputs // blocks.sizes["BK"]), batch),
        {"sums": sums, "counts": counts, "weight": weight, "bias": bias, **out},
        {"M": modes, "K": outputs},
        blocks,
        {"DESCRIBE": True},
    )
