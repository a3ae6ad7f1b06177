"""alphabet-cpu: ALPHABET on ordinary processors, fused.

runtime     CpuRuntime: logits                              trainer     CpuTrainer: complete steps
path        what the kernels cover, and what they do not    batch       a batch as flat arrays, and its moments
inference   the forward kernel, tile by tile                backward    the gradient kernel, sequence by sequence
weights     parameters folded for the kernels               folding     and their gradients unfolded
conditioning  moments to descriptor and back                arithmetic  SiLU and small products on lanes
lanes       sixteen float32 values as one numba value       workers     threads, and the first compilation
"""

from alphabet_cpu.runtime import CpuRuntime
from alphabet_cpu.trainer import CpuTrainer

__all__ = ["CpuRuntime", "CpuTrainer"]
