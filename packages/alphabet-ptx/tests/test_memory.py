"""Memory: bounds, alignment, arrays that lie side by side, and what nobody has written."""

import numpy as np
import pytest
from alphabet_ptx import PtxError
from alphabet_testing.ptx.snippets import THREADS, offset, run


def test_signed_loads_extend_the_sign():
    data, out = np.array([-3] * THREADS, np.int8), np.zeros(THREADS, np.int16)
    run(f"{offset(1)}\nld.global.s8 %h1, [%d10];\n{offset(2, 1)}\nst.global.b16 [%d10], %h1;", data, out)
    assert (out == -3).all()
    run(f"{offset(1)}\nld.global.u8 %h1, [%d10];\n{offset(2, 1)}\nst.global.b16 [%d10], %h1;", data, out)
    assert (out == 253).all()


@pytest.mark.parametrize(
    ("body", "reason", "thread"),
    [
        ("mad.wide.u32 %d1, %r0, 4, %d0;\nst.global.b32 [%d1], %r0;", "write to global memory out of range", 60),
        ("mad.wide.u32 %d1, %r0, 4, %d0;\nld.global.b32 %r1, [%d1+16];", "read of global memory out of range", 56),
        ("ld.global.b32 %r1, [%d0+-4];", "read of global memory out of range", 0),
        ("mov.b64 %d1, 0;\nld.global.b32 %r1, [%d1];", "read of global memory out of range", 0),
        ("mul.wide.u32 %d1, %r0, 2;\nadd.s64 %d1, %d1, %d0;\nld.global.b32 %r1, [%d1];", "misaligned access", 1),
        ("ld.global.v2.b32 {%r1, %r2}, [%d0+4];", "misaligned access to global", 0),
        ("mul.lo.u32 %r1, %r0, 4;\nst.shared.b32 [%r1], %r0;", "write to shared memory out of range", 32),
        ("ld.shared.b32 %r1, [buffer+2];", "misaligned access to shared", 0),
        (".local .align 4 .b8 depot[8];\nmov.b64 %d1, depot;\nld.local.b32 %r1, [%d1+8];", "read of local", 0),
        ("red.global.add.s32 [%d0+240], %r0;", "write to global memory out of range", 0),
    ],
)  # fmt: skip
def test_accesses_outside_or_across_are_refused(body, reason, thread):
    with pytest.raises(PtxError, match=reason) as caught:
        run(body, np.zeros(60, np.int32), shared=128)
    assert caught.value.thread == thread
    assert caught.value.program == (0, 0, 0)
    assert caught.value.line is not None


def test_the_error_names_the_array_and_the_distance():
    with pytest.raises(PtxError, match=r"\+240 bytes from the start of 'k_param_0', which has 240"):
        run("mad.wide.u32 %d1, %r0, 4, %d0;\nst.global.b32 [%d1], %r0;", np.zeros(60, np.int32))


def test_masked_threads_may_hold_any_address():
    out = np.zeros(60, np.int32)
    run("mad.wide.u32 %d1, %r0, 4, %d0;\nsetp.lt.u32 %p1, %r0, 60;\n@%p1 st.global.b32 [%d1], %r0;", out)
    assert (out == np.arange(60)).all()


def test_neighbouring_views_are_separate_arrays():
    both = np.zeros(2 * THREADS, np.int32)
    with pytest.raises(PtxError, match="out of range"):
        run("mad.wide.u32 %d2, %r0, 4, %d0;\nst.global.b32 [%d2+4], %r0;", both[:THREADS], both[THREADS:])


def test_overlapping_views_overlap():
    whole = np.zeros(THREADS + 1, np.int32)
    run("mad.wide.u32 %d2, %r0, 4, %d1;\nst.global.b32 [%d2], %r0;", whole[:-1], whole[1:])
    assert (whole[1:] == np.arange(THREADS)).all()


def test_read_only_arrays_are_refused():
    array = np.zeros(THREADS, np.int32)
    array.setflags(write=False)
    with pytest.raises(PtxError, match="read-only"):
        run("st.global.b32 [%d0], %r0;", array)


def test_a_fault_leaves_the_arrays_as_they_were():
    array = np.zeros(60, np.int32)
    with pytest.raises(PtxError):
        run("mov.b32 %r1, 1;\nst.global.b32 [%d0], %r1;\nld.global.b32 %r1, [%d0+-4];", array)
    assert (array == 0).all()


def test_shared_memory_starts_as_nan_in_every_program():
    out = np.zeros(2 * THREADS, np.float32)
    body = """
    mov.u32 %r1, %ctaid.x;
    mad.lo.u32 %r2, %r1, 64, %r0;
    mad.wide.u32 %d1, %r2, 4, %d0;
    mul.lo.u32 %r3, %r0, 4;
    ld.shared.b32 %r4, [%r3];
    st.global.b32 [%d1], %r4;
    st.shared.b32 [%r3], %r0;
    """
    run(body, out, shared=4 * THREADS, grid=2)
    assert np.isnan(out).all()


def test_unknown_values_stay_unknown_in_shared_memory():
    """Half of the threads write the register; the others store what they never had."""
    out = np.zeros(THREADS, np.float32)
    body = """
    setp.lt.u32 %p1, %r0, 32;
    @%p1 mov.b32 %r1, 0f3F800000;
    mul.lo.u32 %r3, %r0, 4;
    st.shared.b32 [%r3], %r1;
    ld.shared.b32 %r4, [%r3];
    mad.wide.u32 %d1, %r0, 4, %d0;
    st.global.b32 [%d1], %r4;
    """
    run(body, out, shared=4 * THREADS)
    assert (out[:32] == 1).all()
    assert np.isnan(out[32:]).all()


@pytest.mark.parametrize("space", ["shared", "local"])
def test_an_address_of_32_bits_wraps_around_before_its_memory(space):
    """Where libdevice reduces large angles, it counts back from behind the end of a table."""
    out = np.zeros(THREADS, np.int32)
    table = ".local .align 4 .b8 depot[8];\n" if space == "local" else ""
    name = {"shared": "buffer", "local": "depot"}[space]
    body = f"{table}mov.b32 %r1, {name};\nsub.s32 %r1, %r1, 8;\n"
    body += f"st.{space}.b32 [%r1+12], 77;\nld.{space}.b32 %r2, [%r1+12];"
    run(f"{body}\n{offset(4)}\nst.global.b32 [%d10], %r2;", out, shared=8)
    assert (out == 77).all()
    with pytest.raises(PtxError, match="out of range"):
        run(body.replace("+12", "+4"), out, shared=8)
