"""Instructions for clusters, of one block each here."""

import numpy as np
import pytest
from alphabet_ptx import PtxError, clusters
from alphabet_testing.ptx.snippets import THREADS, expand, offset, run


def check_elect(opcode):
    lanes, chosen = np.zeros(THREADS, np.uint32), np.zeros(THREADS, np.uint32)
    body = f"""
    setp.ge.u32 %p1, %laneid, 5;
    mov.b32 %r1, 99;
    mov.b32 %r2, 0;
    @!%p1 bra after;
    {opcode} %r1|%p2, 0xFFFFFFE0;
    selp.b32 %r2, 1, 0, %p2;
    after:
    {offset(4)}
    st.global.b32 [%d10], %r1;
    {offset(4, 1)}
    st.global.b32 [%d10], %r2;
    """
    run(body, lanes, chosen)
    for thread in range(THREADS):
        assert lanes[thread] == (5 if thread % 32 >= 5 else 99)
        assert chosen[thread] == (thread % 32 == 5)


def check_map_address(opcode):
    out = np.zeros(THREADS, np.uint64 if "u64" in opcode else np.uint32)
    stem, size = ("%d", 8) if "u64" in opcode else ("%r", 4)
    body = f"mov.b{8 * size} {stem}5, 48;\n{opcode} {stem}6, {stem}5, 0;\n{offset(size)}\n"
    body += f"st.global.b{8 * size} [%d10], {stem}6;"
    run(body, out)
    assert (out == 48).all()
    with pytest.raises(PtxError, match="another block"):
        run(body.replace(f"{stem}5, 0;", f"{stem}5, 1;"), out)


def check_cluster_barrier(opcode):
    """A value crosses from one half of the block to the other."""
    out = np.zeros(THREADS, np.uint32)
    arrive, wait_ = "barrier.cluster.arrive", "barrier.cluster.wait"
    arrive, wait_ = (opcode, wait_) if "arrive" in opcode else (arrive, opcode)
    body = f"""
    shl.b32 %r1, %r0, 2;
    st.shared.b32 [%r1], %r0;
    {arrive};
    {wait_};
    xor.b32 %r1, %r1, 128;
    ld.shared.b32 %r2, [%r1];
    {offset(4)}
    st.global.b32 [%d10], %r2;
    """
    assert run(body, out, shared=4 * THREADS).races == []
    assert (out == np.arange(THREADS) ^ 32).all()


def check_nothing(opcode):
    out = np.zeros(THREADS, np.uint32)
    operand = " 40" if "setmaxnreg" in opcode else ""
    run(f"{opcode}{operand};\n{offset(4)}\nst.global.b32 [%d10], %r0;", out)
    assert (out == np.arange(THREADS)).all()


CLUSTER_CHECKS = {
    "elect": check_elect, "barrier": check_cluster_barrier, "fence": check_nothing, "setmaxnreg": check_nothing,
    "mapa": check_map_address,
}  # fmt: skip


@pytest.mark.parametrize("pattern", clusters.TABLE)
def test_every_cluster_instruction(pattern):
    opcodes = expand(pattern)
    assert opcodes
    for opcode in opcodes:
        CLUSTER_CHECKS[opcode.split(".")[0]](opcode)
