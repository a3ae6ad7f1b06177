"""alphabet-triton: ALPHABET on an NVIDIA GPU.

runtime     TritonRuntime: logits                       path        what the kernels cover, and what they do not
inference   the five launches of a forward pass         training    forward and backward, everything kept
launching   a launch as a value, and what runs it       graphs      a sequence of launches recorded once
weights     folded factors as the kernels read them     shapes      sizes, buffers and masks
blocks      block sizes, literal                        static      every configuration, to compile or execute
ops         the kernels: lift, scan, head

Not yet run on a GPU: docs/gpu.md says what was proven, and how.
"""

from alphabet_triton.runtime import TritonRuntime

__all__ = ["TritonRuntime"]
