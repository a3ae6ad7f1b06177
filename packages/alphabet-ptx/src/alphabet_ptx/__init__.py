"""alphabet-ptx: compile, inspect and execute Triton kernels on a machine without a GPU.

compiling     compile_kernel: a Triton kernel as PTX and machine code
resources     resources: registers, stack, spills, shared memory, instruction mix
execution     execute: run the PTX on the CPU, and report
reruns        outputs_differ: whether another order changes results
driver        ptx_device: a block in which kernel[grid](...) runs as on a GPU
launcher      arguments of such a call as parameters            launches     what a device did
torch_cuda    what is asked of torch.cuda, answered inside      verdicts     which findings make a kernel wrong
pytest_plugin the marker `ptx`, the fixture `ptx_device`        __main__     the command alphabet-ptx
cache         what compile_kernel and resources made before, on disk
arguments     arrays and numbers as a kernel's parameters       errors       PtxError and places in the source

The machine:
parse         PTX text as a program                             program      its instructions, operands and names
machine       a block and its registers
functions     functions of a module and calls of them           places       lines of the Python source
knowledge     which registers have a value                      traces       which bytes of a result have one
homes         arrays by their addresses in the caller's memory  fp8          8-bit floating types
schedule      which threads run which instruction next          memory       bytes with bounds, guard zones, copies
races         unordered accesses to the same bytes              operands     constants and special registers
clock         what happened before what                         grid         the programs, and who waits for others
modes         order and rounding of a launch                    orders       which programs, warps and threads run first
polls         loops that wait for a value                       datatypes    the types of PTX in numpy
rounding      fused and directed rounding, bfloat16, tf32       approximations  how wrong instructions may be
tensorcores   how the sums of tensor cores are cut off

Its instructions, one table, in `instructions`:
elementwise   what they share                                   integers     integers and bits
reals         floating point                                    conversions  mov, cvt, setp, selp
transfers     memory and atomics                                collectives  shuffles, votes, barriers
matrices      tensor cores                                      externals    device asserts and printing

And what sm_90 adds:
warpgroups    products of a warp group                          tiles        where these find their matrices
mbarriers     counters that threads and copies arrive at        proxies      how asynchronous units see memory
tensormaps    descriptions of tensors in global memory          tensor_copies  bulk copies of boxes of them
descriptors   tensor descriptors as arguments                   clusters     clusters, each of one block
"""

from alphabet_ptx.compiling import CompiledKernel, compile_kernel
from alphabet_ptx.driver import PtxDevice, activate, deactivate, ptx_device
from alphabet_ptx.errors import PtxError, Source
from alphabet_ptx.execution import Report, execute, list_unknown
from alphabet_ptx.launches import DeviceReport, Launch
from alphabet_ptx.races import Race
from alphabet_ptx.reruns import compare_orders, outputs_differ
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
    "compare_orders",
    "compile_kernel",
    "deactivate",
    "execute",
    "list_unknown",
    "outputs_differ",
    "ptx_device",
    "resources",
]
