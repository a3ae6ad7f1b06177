"""A device that compiles launches for an NVIDIA architecture and executes the PTX on the CPU."""

from collections import Counter

from alphabet_ptx import compile_kernel, execute
from alphabet_triton.static import configuration, signature

_compiled = {}


def compile_launch(launch, arch="sm_89"):
    """The launch's kernel, compiled as Triton would for this call."""
    blocks = launch.blocks
    key = (*configuration(launch), arch)
    if key not in _compiled:
        _compiled[key] = compile_kernel(
            launch.kernel, signature(launch), launch.constants, arch=arch, warps=blocks.warps, stages=blocks.stages,
            divisible=("TS",) if "TS" in launch.scalars else (),
        )  # fmt: skip
    return _compiled[key]


class PtxDevice:
    """`run(launch)`; races and executed instructions add up. A fault changes a launch, or its compiled code, first."""

    def __init__(self, arch="sm_89", fault=None):
        self.arch, self.fault = arch, fault
        self.races, self.instructions = [], Counter()

    def run(self, launch):
        compiled = compile_launch(launch, self.arch)
        if self.fault is not None and launch.name == self.fault.kernel:
            launch, compiled = self.fault.plant(launch, compiled)
        report = execute(compiled, launch.grid, {**launch.tensors, **launch.scalars})
        self.races += [(launch.name, race) for race in report.races]
        self.instructions += report.instructions
