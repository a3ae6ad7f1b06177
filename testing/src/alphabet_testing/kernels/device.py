"""A device that compiles launches for an NVIDIA architecture and executes the PTX on the CPU."""

from collections import Counter

from alphabet_ptx import compile_kernel, execute
from alphabet_triton.configurations import configuration, signature
from alphabet_triton.launching import UNALIGNED

from alphabet_testing.kernels.memo import LaunchMemo, Outcome, copy_bytes, digest_launch, list_changes

_compiled = {}
_memo = LaunchMemo()


def compile_launch(launch, arch="sm_89"):
    """The launch's kernel, compiled as Triton would for this call; each configuration once per process."""
    blocks = launch.blocks
    key = (*configuration(launch), *signature(launch).items(), arch)
    if key not in _compiled:
        _compiled[key] = compile_kernel(
            launch.kernel, signature(launch), launch.constants, arch=arch, warps=blocks.warps, stages=blocks.stages,
            divisible=("TS",) if "TS" in launch.scalars else (),
            unaligned=[name for name in launch.tensors if name in UNALIGNED],
        )  # fmt: skip
    return _compiled[key]


class PtxDevice:
    """A device whose `run(launch)` executes PTX; with a `fault`, launches of the fault's kernel are broken first.

    Broken launches are always executed. Any other is executed unless `memo` has its outcome, and is kept there unless
    it raced, or a broken launch came before it. With `strict` the first race raises `PtxError`.

    races: (kernel, race) of all launches; instructions: how often each opcode ran; executed: the kernels that were
    executed, in order, without those whose outcome was found
    """

    def __init__(self, arch="sm_89", fault=None, *, strict=False, memo=_memo):
        self.arch, self.fault, self.strict, self.memo = arch, fault, strict, memo
        self.races, self.instructions, self.executed = [], Counter(), []
        self._broken = False

    def run(self, launch):
        """Do what a launch does to its tensors."""
        compiled = compile_launch(launch, self.arch)
        if self.fault is not None and launch.name == self.fault.kernel:
            self._broken = True
            outcome = self._execute(*self.fault.plant(launch, compiled))
        else:
            digest = digest_launch((compiled.ptx, compiled.shared, sorted(compiled.signature.items())), launch)
            outcome = self.memo.find(digest)
            if outcome is None:
                outcome = self._execute(launch, compiled)
                if not self.races and not self._broken:
                    self.memo.add(digest, outcome)
            else:
                outcome.apply(launch.tensors)
        self.instructions += outcome.instructions

    def unavailable_reason(self, home):
        """None: PTX is executed wherever the tensors are."""

    def _execute(self, launch, compiled):
        self.executed.append(launch.name)
        before = copy_bytes(launch.tensors)
        report = execute(compiled, launch.grid, {**launch.tensors, **launch.scalars}, strict=self.strict)
        self.races += [(launch.name, race) for race in report.races]
        return Outcome(list_changes(launch.tensors, before), report.instructions)
