"""Instructions for clusters of blocks, of which each has one block here, and others of sm_90 that compute nothing."""

import numpy as np

from alphabet_ptx.collectives import active_warps, barrier, named_lanes
from alphabet_ptx.datatypes import WARP, Mask
from alphabet_ptx.elementwise import Operation, elementwise, flatten
from alphabet_ptx.errors import PtxError
from alphabet_ptx.machine import Binder, Block, Step
from alphabet_ptx.program import Immediate, Instruction


def _elect(instruction: Instruction, block: Block) -> Step:
    """elect.sync: one lane of those that are named, here the lowest; all get its number, it alone gets true."""
    lane, chosen = flatten(instruction.operands[:1])
    named = named_lanes(block, instruction.operands[1])
    write_lane, write_chosen = block.destination(lane, "b32"), block.destination(chosen, "pred")
    written = block.names(lane, chosen)
    lanes = block.all_threads % WARP

    def step(mask: Mask | None) -> None:
        active_warps(block, mask, instruction.opcode, named)
        active = np.ones(block.threads, np.bool_) if mask is None else mask
        leaders = np.repeat(active.reshape(-1, WARP).argmax(axis=1), WARP)
        write_lane(leaders.astype(np.uint32), mask)
        write_chosen(lanes == leaders, mask)
        for name in written:
            block.mark_written(name, mask)

    return step


def _no_effect(_: Instruction, __: Block) -> Step:
    """An instruction that changes no values: registers are never short here, and a cluster is one block."""
    return lambda _: None


def _map_address(instruction: Instruction) -> Operation:
    """mapa: the address in the shared memory of a block of the cluster; there is only this block, number 0."""
    if instruction.operands[2] != Immediate("0"):
        raise PtxError(f"{instruction.opcode} for another block of the cluster is not covered")
    kind = instruction.opcode.rpartition(".")[2]
    return Operation(lambda address, _: address, (kind,), (kind, "u32"))


TABLE: dict[str, Binder] = {
    "elect.sync": _elect,
    "barrier.cluster.arrive[.{release,relaxed}][.aligned]": _no_effect,
    "barrier.cluster.wait[.acquire][.aligned]": barrier,
    "fence.mbarrier_init.release.cluster": _no_effect,
    "setmaxnreg.{inc,dec}.sync.aligned.u32": _no_effect,
    "mapa[.shared::cluster].{u32,u64}": elementwise(_map_address),
}
