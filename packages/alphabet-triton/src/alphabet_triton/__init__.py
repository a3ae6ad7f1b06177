"""alphabet-triton: ALPHABET on an NVIDIA GPU.

runtime         TritonRuntime: logits                       trainer    TritonTrainer: complete training steps
inference       the five launches of a forward pass         forward    Algorithm 1 by differentiable operators
fused_adamw     clipping and AdamW in one launch            dispatch   which calls the kernels cover, and why not others
inputs          the tensors that a recording reads          weights    folded factors in the kernels' layout
recordings      what a recording owns, and how many         graphs     CUDA graphs that share a pool of memory
buffers         the layout of tensors between kernels       blocks     block sizes by shape, in literal tables
launching       a launch as a value, and where it runs      ops        the kernels, and torch operators made of them
configurations  every kernel configuration, to compile or execute without a GPU

Not yet run on a GPU: docs/gpu.md says what was proven, and how.
"""

from alphabet_triton.runtime import TritonRuntime
from alphabet_triton.trainer import TritonTrainer

__all__ = ["TritonRuntime", "TritonTrainer"]
