"""alphabet-ptx: compile, inspect and execute Triton kernels on a machine without a GPU.

compiling     compile_kernel: a Triton kernel as PTX and machine code
resources     resources: registers, stack, spills, shared memory, instruction mix
execution     execute: run the PTX on the CPU, and report
driver        ptx_device: a block in which kernel[grid](...) runs as on a GPU
launcher      arguments of such a call as parameters            launches     what a device did
torch_cuda    what is asked of torch.cuda, answered inside      verdicts     which findings make a kernel wrong
pytest_plugin the marker `ptx`, the fixture `ptx_device`        __main__     the command alphabet-ptx
cache         what compile_kernel and resources made before, on disk
arguments     arrays and numbers as a kernel's parameters       errors       PtxError and places in the source

The machine:
parse         PTX text as a program                             machine      a block and its registers
schedule      which threads run which instruction next          memory       bytes with bounds, guard zones, copies
races         unordered accesses to the same bytes              operands     constants and special registers
rounding      fused and directed rounding, bfloat16, tf32       datatypes    the types of PTX in numpy

Its instructions, one table, in `instructions`:
elementwise   what they share                                   integers     integers and bits
reals         floating point                                    conversions  mov, cvt, setp, selp
transfers     memory and atomics                                collectives  shuffles, votes, barriers
matrices      tensor cores
"""

from alphabet_ptx.compiling import CompiledKernel, compile_kernel
from alphabet_ptx.driver import PtxDevice, activate, deactivate, ptx_device
from alphabet_ptx.errors import PtxError, Source
from alphabet_ptx.execution import Report, execute, list_unknown
from alphabet_ptx.launches import DeviceReport, Launch
from alphabet_ptx.races import Race
from alphabet_ptx.resources import Resources, resources

__all__ = [
    "CompiledKernel",
    "DeviceReport",
    "Launch",
    "PtxDevice",
    "PtxError",
    "Race",
    "Report",
    "Resources",
    "Source",
    "activate",
    "compile_kernel",
    "deactivate",
    "execute",
    "list_unknown",
    "ptx_device",
    "resources",
]
