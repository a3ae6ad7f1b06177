"""alphabet-triton: ALPHABET on an NVIDIA GPU.

runtime     TritonRuntime: logits                       trainer     TritonTrainer: complete training steps
inference   the five launches of a forward pass         forward     Algorithm 1 by differentiable operators
tail        gradients to the next parameters            graphs      work recorded once and replayed
path        what the kernels cover, and what not        inputs      what a recording reads
weights     folded factors as the kernels read them     buffers     their layout between kernels
launching   a launch as a value, and where it goes      blocks      block sizes, literal
static      every configuration, to compile or execute  ops         the kernels and torch operators

Not yet run on a GPU: docs/gpu.md says what was proven, and how.
"""

from alphabet_triton.runtime import TritonRuntime
from alphabet_triton.trainer import TritonTrainer

__all__ = ["TritonRuntime", "TritonTrainer"]
