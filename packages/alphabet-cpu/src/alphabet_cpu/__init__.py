"""alphabet-cpu: ALPHABET on ordinary processors, by fused kernels that numba compiles.

runtime     CpuRuntime: logits
trainer     CpuTrainer: complete training steps
stream      CpuStream: logits token by token
dispatch    which calls the kernels cover, and why the reference runs the others
batch       a batch as flat arrays, and its outputs
weights     parameters folded and packed for the kernels
folding     the same for training, and gradients passed on to the parameters
workers     threads, and the message of a first compilation
compiling   how kernels are compiled, and how they are kept on disk
kernels     everything that numba compiles
"""

from alphabet_cpu.runtime import CpuRuntime
from alphabet_cpu.stream import CpuStream
from alphabet_cpu.trainer import CpuTrainer

__all__ = ["CpuRuntime", "CpuStream", "CpuTrainer"]
