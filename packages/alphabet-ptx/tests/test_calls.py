"""Functions of a module, called: what they compute, under divergence, and what is refused; arguments by value."""

import math

import numpy as np
import pytest
from alphabet_ptx import PtxError, execute
from alphabet_ptx.instructions import TABLE, find_pattern
from alphabet_ptx.parse import parse
from alphabet_testing.ptx import function_kernels as kernels
from alphabet_testing.ptx.kernels import blank, compile_once, normal, pointers
from alphabet_testing.ptx.snippets import THREADS, make_kernel, offset, run

THREAD = np.arange(THREADS)
STORE = f"{offset(4)}\nst.global.b32 [%d10], %r1;"
# Collatz steps of a number, by a loop with an early return; and the sum of two such, by calls of the first.
FUNCTIONS = """
.func (.param .b32 func_retval0) steps(.param .b32 steps_param_0)
{
    .reg .pred %p<5>;
    .reg .b32 %r<9>;
    ld.param.b32 %r1, [steps_param_0];
    mov.b32 %r2, 0;
$loop:
    setp.le.u32 %p1, %r1, 1;
    st.param.b32 [func_retval0], %r2;
    @%p1 ret;
    and.b32 %r3, %r1, 1;
    setp.eq.b32 %p2, %r3, 0;
    @%p2 shr.u32 %r1, %r1, 1;
    @!%p2 mad.lo.u32 %r1, %r1, 3, 1;
    add.s32 %r2, %r2, 1;
    bra.uni $loop;
}
.func (.param .align 8 .b8 func_retval0[8]) both(
    .param .b32 both_param_0, // a comment
    .param .b32 both_param_1
) // -- Begin function both
{
    .reg .b32 %r<9>;
    ld.param.b32 %r1, [both_param_0];
    ld.param.b32 %r2, [both_param_1];
    { // callseq 0, 0
    .param .b32 param0;
    .param .b32 retval0;
    st.param.b32 [param0], %r1;
    call.uni (retval0), steps, (param0);
    ld.param.b32 %r3, [retval0];
    }
    {
    .param .b32 param0;
    .param .b32 retval0;
    st.param.b32 [param0], %r2;
    call.uni (retval0),
      steps,
      (
      param0
      );
    ld.param.b32 %r4, [retval0];
    }
    st.param.v2.b32 [func_retval0], {%r3, %r4};
    ret;
}
"""
CALL_STEPS = (
    "{ .param .b32 a; .param .b32 b;\nst.param.b32 [a], %r0;\ncall.uni (b), steps, (a);\nld.param.b32 %r1, [b]; }\n"
)
CALL_BOTH = """
{ .param .b32 a; .param .b32 b; .param .align 8 .b8 c[8];
add.s32 %r2, %r0, 100;
st.param.b32 [a], %r0;
st.param.b32 [b], %r2;
call (c), both, (a, b);
ld.param.b32 %r3, [c];
ld.param.b32 %r4, [c+4]; }
mad.lo.u32 %r1, %r4, 1000, %r3;
"""


def count_steps(n):
    steps = 0
    while n > 1:
        n, steps = n // 2 if n % 2 == 0 else 3 * n + 1, steps + 1
    return steps


def call(body, functions=FUNCTIONS, dtype=np.uint32):
    """What a body leaves in %r1, per thread, in a module with these functions."""
    out = np.zeros(THREADS, dtype)
    text = make_kernel(f"mov.u32 %r0, %tid.x;\nld.param.b64 %d0, [k_param_0];\n{body}\n{STORE}", ["u64"])
    declared = "\n".join(f".func (.param .b32 r) {name}(.param .b32 p);" for name in ("steps",))
    for module in (text + functions, text.replace(".visible", f"{functions}\n.visible")):
        out[:] = 0
        assert execute(module.replace(".visible", f"{declared}\n.visible"), 1, [out]).races == []
    return out


def test_a_function_whose_threads_return_at_different_times():
    assert call(CALL_STEPS).tolist() == [count_steps(n) for n in THREAD]


def test_a_function_that_calls_another_one_twice():
    assert call(CALL_BOTH).tolist() == [count_steps(n) + 1000 * count_steps(n + 100) for n in THREAD]


def test_a_call_in_a_branch_and_after_it():
    body = f"setp.lt.u32 %p1, %r0, 20;\n@!%p1 bra $else;\n{CALL_STEPS}\nbra $end;\n$else:\n{CALL_BOTH}\n$end:\n"
    found = call(f"{body}mov.b32 %r9, %r1;\n{CALL_STEPS}\nadd.s32 %r1, %r1, %r9;")
    both = [count_steps(n) + 1000 * count_steps(n + 100) for n in THREAD]
    assert found.tolist() == [count_steps(n) + (count_steps(n) if n < 20 else both[n]) for n in THREAD]


@pytest.mark.parametrize("negated", ["", "!"])
def test_a_call_with_a_guard(negated):
    body = CALL_STEPS.replace("call", f"@{negated}%p1 call").replace("{ ", "{ mov.b32 %r1, 7;\n", 1)
    body = body.replace("ld.param", f"@{negated}%p1 ld.param")
    found = call("setp.lt.u32 %p1, %r0, 20;\n" + body)
    assert found.tolist() == [count_steps(n) if (n < 20) != bool(negated) else 7 for n in THREAD]


def test_labels_of_a_function_are_its_own():
    """The kernel has a label and registers of the same names."""
    found = call(
        f"mov.b32 %r5, 3;\n$loop:\n{CALL_STEPS}\nsub.s32 %r5, %r5, 1;\nsetp.ne.b32 %p1, %r5, 0;\n@%p1 bra $loop;"
    )
    assert found.tolist() == [count_steps(n) for n in THREAD]


def test_an_argument_without_a_value_is_unknown_in_the_function():
    with pytest.raises(PtxError, match="predicate is unknown"):
        call(CALL_STEPS.replace("[a], %r0", "[a], %r30"))
    with pytest.raises(PtxError, match="predicate is unknown"):
        call(CALL_STEPS.replace("st.param.b32 [a], %r0;", ""))


@pytest.mark.parametrize(
    ("body", "functions", "reason"),
    [
        (CALL_STEPS.replace("(a)", "(a, a)"), FUNCTIONS, "call of steps with 2 arguments and 1 results"),
        (CALL_STEPS.replace("steps", "nothing"), FUNCTIONS, "unknown instruction call.nothing"),
        (CALL_STEPS.replace("steps", "%d3"), FUNCTIONS, "a call names its function"),
        (
            CALL_STEPS,
            ".func (.param .b32 r) steps(.param .b32 p) {\n{ .param .b32 a; .param .b32 b;\n"
            "call.uni (b), steps, (a); }\nret;\n}\n",
            "function steps calls itself",
        ),
        (CALL_STEPS.replace("[b]", "[b+4]"), FUNCTIONS, "read of local memory out of range"),
        (CALL_STEPS.replace("[b]", "[elsewhere]"), FUNCTIONS, "reads beyond the parameters"),
    ],
)
def test_calls_that_are_refused(body, functions, reason):
    with pytest.raises(PtxError, match=reason):
        call(body, functions)


def test_places_in_a_function_name_the_call():
    functions = FUNCTIONS.replace("    mov.b32 %r2, 0;", "    .loc 1 3 1\n    mov.b32 %r2, 0;", 1)
    text = make_kernel(f".loc 1 10 1\nmov.u32 %r0, %tid.x;\n.loc 1 12 1\n{CALL_STEPS}") + functions
    program = parse(text + '\n.file 1 "/home/me/kernel.py"\n')
    (inside,) = [each for each in program.instructions if each.text == "mov.b32 %r2, 0"]
    assert str(inside.source) == "kernel.py:3, called from kernel.py:12"


@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
def test_functions_of_triton_that_are_not_inlined(arch):
    compiled = compile_once(kernels.calls_kernel, {**pointers("x out"), "n": "i32"}, {"BLOCK": 128}, arch=arch)
    assert "call" in compiled.ptx
    x, out = normal(128), blank(5, 128)
    assert execute(compiled, 5, [x, out, 7]).races == []
    for i in range(5):
        total = {0: 0.0, 1: 15.0, 2: 16.0, 3: 17.0 + 4.0, 4: 18.0 + 3.0}[i]
        factor = (3 * total + 1) * -1
        assert (out[i] == (np.float64(factor) + x).astype(np.float32)).all()


def test_functions_of_triton_with_barriers():
    compiled = compile_once(kernels.reducing_calls_kernel, pointers("x out"), {"ROWS": 6, "N": 512})
    assert "call" in compiled.ptx
    x, out = normal(6, 512), blank(6)
    assert execute(compiled, 1, [x, out]).races == []
    assert np.allclose(out, x.astype(np.float64).sum(axis=1), atol=512 * 2.0**-24 * 4)


def test_a_failed_assertion_says_what_it_says():
    compiled = compile_once(kernels.checked_kernel, pointers("x"), {"BLOCK": 32}, warps=1, debug=True)
    with pytest.raises(
        PtxError, match=r"device assertion failed: must be positive \(function_kernels.py:\d+\)"
    ) as caught:
        execute(compiled, 1, [np.arange(-5, 27, dtype=np.float32)[::-1].copy()])
    assert caught.value.thread == 26  # the first with a zero


def test_printing(capsys):
    compiled = compile_once(kernels.checked_kernel, pointers("x"), {"BLOCK": 32}, warps=1, debug=True)
    x = np.linspace(0.5, 8, 32, dtype=np.float32)
    execute(compiled, 2, [x])
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"pid ({p}, 0, 0) idx ({i:2d}) value: {x[i]:f}" for p in range(2) for i in range(32)]


def test_printing_numbers_of_all_kinds(capsys):
    text = "%d %5u %x %lld %-4s| %p %c %e %.2f%%\n"
    values = [("b32", -7), ("b32", 8), ("b32", 255), ("b64", -(2**40)), ("b64", None), ("b64", 4096), ("b32", 65)]
    body = [".local .align 8 .b8 depot[80];", "mov.b64 %d1, depot;\ncvta.local.u64 %d2, %d1;"]
    place = 0
    for kind, value in values:
        size = int(kind[1:]) // 8
        place = -(-place // size) * size
        source = "%d3" if value is None else value
        body += [f"mov.{kind} %{'r1' if size == 4 else 'd4'}, {source};" if value is not None else "mov.b64 %d4, word;"]
        body += [f"st.local.{kind} [%d1+{place}], %{'r1' if size == 4 else 'd4'};"]
        place += size
    for number in (1.5, 2.25):
        place = -(-place // 8) * 8
        body += [f"mov.b64 %d4, 0d{np.float64(number).view(np.uint64):016X};\nst.local.b64 [%d1+{place}], %d4;"]
        place += 8
    body += ["{ .param .b64 a; .param .b64 b; .param .b32 c;\nmov.b64 %d5, template;\ncvta.global.u64 %d5, %d5;"]
    body += ["st.param.b64 [a], %d5;\nst.param.b64 [b], %d2;\ncall.uni (c), vprintf, (a, b);\nld.param.b32 %r1, [c]; }"]
    constants = "".join(
        f".global .align 1 .b8 {name}[{len(data) + 1}] = {{{', '.join(map(str, data.encode()))}, 0}};\n"
        for name, data in (("template", text), ("word", "ab"))
    )
    out = np.zeros(1, np.uint32)
    kernel = make_kernel("\n".join(["ld.param.b64 %d0, [k_param_0];", *body, "st.global.b32 [%d0], %r1;"]), ["u64"], 1)
    execute(kernel.replace(".visible", f"{constants}.visible"), 1, [out])
    assert capsys.readouterr().out == f"-7     8 ff {-(2**40)} ab  | 0x1000 A 1.500000e+00 2.25%\n"
    assert out[0] == 9


def test_every_external_function_is_tested_above():
    assert {pattern for pattern in TABLE if pattern.startswith("call")} == {"call.vprintf", "call.__assertfail"}
    assert find_pattern("call.malloc") is None


# Parameters by value, and by address

BY_VALUE = make_kernel("BODY", ["u64"]).replace("k_param_0)", "k_param_0,\n.param .align 64 .b8 k_param_1[128])")


def run_by_value(body, value):
    out = np.zeros(THREADS, np.uint32)
    prologue = "mov.u32 %r0, %tid.x;\nld.param.b64 %d0, [k_param_0];\n"
    execute(BY_VALUE.replace("BODY", f"{prologue}{body}\n{STORE}"), 1, [out, value])
    return out


DATA = np.random.default_rng(0).integers(0, 256, 128, np.uint8)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_by_value(kind):
    found = run_by_value("ld.param.v2.b32 {%r2, %r1}, [k_param_1+16];", kind(DATA.tobytes()))
    assert (found == DATA.view(np.uint32)[5]).all()


@pytest.mark.parametrize("load", ["ld.param.b32", "ld.global.b32"])
def test_the_address_of_a_parameter(load):
    body = "mov.b64 %d1, k_param_1;\ncvta.param.u64 %d1, %d1;\nand.b32 %r2, %r0, 31;\nmad.wide.u32 %d1, %r2, 4, %d1;\n"
    body += f"{load} %r1, [%d1];"
    assert (run_by_value(body, DATA.tobytes()) == np.tile(DATA.view(np.uint32), 2)).all()
    with pytest.raises(PtxError, match=r"\+128 bytes from the start of 'k_param_1', which has 128"):
        run_by_value(body.replace("[%d1]", "[%d1+4]"), DATA.tobytes())
    with pytest.raises(PtxError, match="'k_param_1', which is read-only"):
        run_by_value(f"{body}\nst.global.b32 [%d1], %r1;", DATA.tobytes())


def test_the_address_of_a_number():
    out, body = (
        np.zeros(THREADS, np.uint32),
        "mov.b64 %d1, k_param_1;\nld.param.b32 %r1, [%d1];\nld.param.b64 %d0, [k_param_0];",
    )
    text = make_kernel(f"mov.u32 %r0, %tid.x;\n{body}\n{STORE}", ["u64", "u32"])
    for number in (5, 6):  # another launch of the same kernel
        execute(text, 1, [out, number])
        assert (out == number).all()


@pytest.mark.parametrize("value", [b"short", 7, np.zeros(128, np.uint8), None])
def test_what_is_not_as_many_bytes_is_refused(value):
    with pytest.raises(PtxError, match="argument k_param_1 is passed by value and must be 128 bytes; got"):
        run_by_value("mov.b32 %r1, 0;", value)


def test_reciprocal_root_of_float64():
    compiled = compile_once(kernels.reciprocal_root_kernel, pointers("x out", "*fp64"), {"BLOCK": 128})
    x, out = np.exp(np.linspace(-30, 30, 128)), np.zeros(128)
    execute(compiled, 1, [x, out])
    assert np.allclose(out, [1 / math.sqrt(value) for value in x], rtol=1e-9)


def test_nothing_of_a_call_is_left_for_the_next_launch():
    body = f"setp.lt.u32 %p1, %r0, 1;\n@%p1 bra $skip;\n{CALL_STEPS}\n{STORE}\n$skip:"
    for _ in range(2):
        out = np.full(THREADS, 9, np.uint32)
        run_with = make_kernel(f"mov.u32 %r0, %tid.x;\nld.param.b64 %d0, [k_param_0];\n{body}", ["u64"]) + FUNCTIONS
        execute(run_with, 1, [out])
        assert out.tolist() == [9, *(count_steps(n) for n in THREAD[1:])]
    with pytest.raises(PtxError, match="unknown"):
        run(f"{{ .param .b32 b;\nld.param.b32 %r1, [b]; }}\n{STORE}", out)
