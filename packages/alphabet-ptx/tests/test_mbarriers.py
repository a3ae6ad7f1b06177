"""mbarriers: every instruction, threads that wait, and planted faults."""

import numpy as np
import pytest
from alphabet_ptx import PtxError, mbarriers
from alphabet_testing.ptx.snippets import THREADS, expand, offset, run


@pytest.mark.parametrize("pattern", mbarriers.TABLE)
def test_every_mbarrier_instruction(pattern):
    """Both warps arrive and wait for each other; each opcode in place of the usual one of its kind."""
    for opcode in expand(pattern):
        kind = opcode.split(".")[1]
        ops = {
            "init": "mbarrier.init.shared::cta.b64", "inval": "mbarrier.inval.shared::cta.b64",
            "arrive": "mbarrier.arrive.shared::cta.b64", "expect_tx": "mbarrier.expect_tx.relaxed.cta.shared::cta.b64",
            "complete_tx": "mbarrier.complete_tx.relaxed.cta.shared::cta.b64",
            "wait": "mbarrier.try_wait.parity.shared::cta.b64",
        }  # fmt: skip
        ops["wait" if "wait" in kind else kind] = opcode
        with_bytes = "arrive.expect_tx" in opcode
        arrive = f"{ops['arrive']} %d12, [%r1]{', 0' if with_bytes else ''};"
        phase = "0" if "parity" in ops["wait"] else "%d12"
        body = f"""
        mov.b32 %r1, 8;
        setp.eq.u32 %p1, %r0, 0;
        @%p1 {ops["init"]} [%r1], {THREADS};
        bar.sync 0;
        @%p1 {ops["expect_tx"]} [%r1], 32;
        @%p1 {ops["complete_tx"]} [%r1], 16;
        shl.b32 %r2, %r0, 2;
        st.shared.b32 [%r2+64], %r0;
        {arrive}
        @%p1 {ops["complete_tx"]} [%r1], 16;
        mov.b32 %r6, 0;
        again:
        add.u32 %r6, %r6, 1;
        {ops["wait"]} %p2, [%r1], {phase};
        @!%p2 bra again;
        bar.sync 0;
        @%p1 {ops["inval"]} [%r1];
        @%p1 {ops["init"]} [%r1], 1;
        {offset(4)}
        st.global.b32 [%d10], %r6;
        """
        out = np.zeros(THREADS, np.uint32)
        assert run(body, out, shared=64 + 4 * THREADS).races == []
        assert (out == 1).all(), opcode


def test_threads_that_wait_let_others_run():
    """Warp 1 waits, in front of the code in which warp 0 arrives; what that stored is there."""
    out = np.zeros(THREADS, np.uint32)
    body = f"""
    setp.eq.u32 %p1, %r0, 0;
    @%p1 mbarrier.init.shared::cta.b64 [0], 32;
    bar.sync 0;
    setp.lt.u32 %p2, %r0, 32;
    @%p2 bra produce;
    again:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [0], 0;
    @!%p3 bra again;
    bra done;
    produce:
    mbarrier.arrive.shared::cta.b64 _, [0];
    done:
    {offset(4)}
    st.global.b32 [%d10], %r0;
    """
    run(body, out, shared=64)
    assert (out == np.arange(THREADS)).all()
    with pytest.raises(PtxError, match="that nothing ends"):
        run(body.replace("mbarrier.arrive.shared::cta.b64 _, [0];", ""), out, shared=64)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("mbarrier.arrive.shared.b64 _, [0];", "no mbarrier was initialised at 0x0"),
        ("mbarrier.init.shared.b64 [0], 0;", "1 to 1048575 arrivals"),
        ("mbarrier.init.shared.b64 [4], 1;", "misaligned"),
        ("mbarrier.init.shared.b64 [4096], 1;", "out of range"),
        ("mbarrier.init.shared.b64 [0], 2;\nmbarrier.arrive.shared.b64 _, [0], 3;", "3 arrivals"),
    ],
)
def test_faults_of_mbarriers_are_errors(body, message):
    with pytest.raises(PtxError, match=message):
        run(body, threads=1, shared=64)


def test_an_mbarrier_needs_a_barrier_after_its_initialisation():
    body = "setp.eq.u32 %p1, %r0, 0;\n@%p1 mbarrier.init.shared.b64 [0], 64;\nmbarrier.arrive.shared.b64 _, [0];"
    assert {race.kind for race in run(body, shared=64).races} >= {"read after write"}
