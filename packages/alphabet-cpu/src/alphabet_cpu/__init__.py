"""alphabet-cpu: ALPHABET on ordinary processors, fused.

runtime     CpuRuntime: logits                              trainer       CpuTrainer: complete steps
stream      CpuStream: token by token                       path          what the kernels cover, and what they do not
batch       a batch as flat arrays, and its outputs         workers       threads, and the first compilation
weights     parameters folded for the kernels               folding       and their gradients unfolded

Compiled:
inference   the forward pass, tile by tile                  backward      the gradients, sequence by sequence
streaming   the forward pass at the end of a stream         optimizer     clipping, AdamW and the frames' constraint
arithmetic  SiLU and small products on lanes                conditioning  moments to descriptor and logits, and back
unfolding   the fold at a frame's base, and its derivative  layout        what lies where in the packed weights
lanes       sixteen float32 values as one numba value       memory        what threads share, and what torch owns
compiling   how functions are compiled, and kept on disk
"""

from alphabet_cpu.runtime import CpuRuntime
from alphabet_cpu.stream import CpuStream
from alphabet_cpu.trainer import CpuTrainer

__all__ = ["CpuRuntime", "CpuStream", "CpuTrainer"]
