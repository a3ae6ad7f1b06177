"""PTX text: what is read, where it stands, and what is refused."""

import numpy as np
import pytest
from alphabet_ptx import PtxError, execute
from alphabet_ptx.operands import constant
from alphabet_ptx.parse import parse
from alphabet_ptx.program import Address, Immediate, Register, Symbol, Vector
from alphabet_testing.ptx.snippets import HEADER, make_kernel, run

TEXT = (
    HEADER
    + """
.extern .shared .align 16 .b8 global_smem[];
.global .align 4 .b8 table[8] = {1, 0, 0, 0, 2};
.visible .entry k(
	.param .u64 .ptr .global .align 1 k_param_0, // a comment
	.param .f32 k_param_1
)
.reqntid 128
{
	.reg .pred 	%p<3>;
	.reg .b32 	%r<4>;
	.loc	1 12 3 // kernel.py:12:3
$L__BB0_1: // a label
	@!%p1 ld.global.v2.b32 {%r1, %r2}, [%r3+-8]; { .reg .b32 t; mov.b32 t, 7; }
	.loc	2 40 1 // standard.py:40:1 @[ kernel.py:13:9 ]
	setp.lt.s32 %p1|%p2, %r1,
		0x10;
	.pragma "nounroll";
	bra.uni $L__BB0_1;
}
	.file	1 "/home/me/kernel.py"
	.file	2 "/lib/standard.py"
"""
)


def test_a_module():
    program = parse(TEXT)
    assert (program.name, program.threads) == ("k", (128, 1, 1))
    assert [(p.name, p.kind, p.pointer) for p in program.parameters] == [
        ("k_param_0", "u64", True),
        ("k_param_1", "f32", False),
    ]
    assert [(v.name, v.space, v.size) for v in program.variables] == [
        ("global_smem", "shared", None),
        ("table", "global", 8),
    ]
    load, move, compare, branch = program.instructions
    assert (load.guard, load.negated) == (Register("%p1"), True)
    assert load.operands == (Vector((Register("%r1"), Register("%r2"))), Address(Register("%r3"), -8))
    assert move.operands[0] != Register("t")  # a name of an inner scope
    assert program.registers[move.operands[0].name] == "b32"
    assert compare.operands == (Vector((Register("%p1"), Register("%p2"))), Register("%r1"), Immediate("0x10"))
    assert branch.operands == (Symbol("$L__BB0_1"),)
    assert program.labels == {"$L__BB0_1": 0}


def test_lines_and_sources():
    program = parse(TEXT)
    for instruction in program.instructions:
        assert (
            instruction.text.split()[0].lstrip("@!%p1") in TEXT.splitlines()[instruction.line - 1] or instruction.guard
        )
    assert str(program.instructions[0].source) == "kernel.py:12"
    assert str(program.instructions[2].source) == "standard.py:40, called from kernel.py:13"
    assert program.instructions[2].source.caller.file == "/home/me/kernel.py"


def test_tables_of_the_module_are_read_only_memory():
    out = np.zeros(2, np.int32)
    body = """
    mov.u32 %r0, %tid.x;
    ld.param.b64 %d0, [k_param_0];
    mov.b64 %d1, table;
    setp.eq.b32 %p1, %r0, 0;
    ld.global.nc.v2.b32 {%r1, %r2}, [%d1];
    @%p1 st.global.v2.b32 [%d0], {%r1, %r2};
    """
    module = ".global .align 8 .b8 table[8] = {1, 0, 0, 0, 2};\n"
    execute(make_kernel(body, ["u64"]).replace(HEADER, HEADER + module), 1, [out])
    assert out.tolist() == [1, 2]
    with pytest.raises(PtxError, match="read-only"):
        execute(make_kernel(body + "st.global.b32 [%d1], %r0;", ["u64"]).replace(HEADER, HEADER + module), 1, [out])


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("0f3F800000", "f32", 1.0), ("0f3F800000", "b32", 0x3F800000), ("0d3FF0000000000000", "f64", 1.0),
        ("0x10", "u32", 16), ("-1", "u32", 2**32 - 1), ("-1", "s32", -1), ("4294967295", "s32", -1),
        ("0x3C00", "f16", 1.0), ("-1", "pred", True), ("0", "pred", False), ("1.5", "f32", 1.5), ("16U", "u32", 16),
    ],
)  # fmt: skip
def test_constants(text, kind, value):
    assert constant(text, kind) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nothing", "one .entry; found 0"),
        (make_kernel("").replace(".reqntid 64", ""), "block size"),
        (make_kernel("").removesuffix("}\n"), "does not end"),
        (make_kernel("+++;"), "cannot read the statement"),
        (make_kernel("ld.global.b32 %r1, [%r1*4];"), "cannot read the address"),
    ],
)
def test_what_is_not_ptx_is_refused(text, reason):
    with pytest.raises(PtxError, match=reason):
        parse(text)


def test_names_of_inner_scopes_do_not_mix():
    out = np.zeros(64, np.int32)
    run(
        "{ .reg .b32 t; mov.b32 t, 3; mov.b32 %r1, t; }\n{\n.reg .b32 t;\nmov.b32 t, 4;\nadd.s32 %r1, %r1, t;\n}\n"
        "mad.wide.u32 %d1, %r0, 4, %d0;\nst.global.b32 [%d1], %r1;",
        out,
    )
    assert (out == 7).all()


def test_labels_belong_to_their_scope():
    """Triton puts the same loop that waits, with the same label, into several places."""
    scope = "{\n.reg .pred done;\nbra skip;\nwaiting:\nadd.u32 %r1, %r1, 1;\nskip:\nsetp.gt.u32 done, %r1, 3;\n"
    scope += "@!done bra.uni waiting;\n}\n"
    program = parse(make_kernel(f"mov.u32 %r1, 0;\n{scope}{scope}bra skip;\nskip:\nret;"))
    targets = [program.labels[each.operands[0].name] for each in program.instructions if each.opcode == "bra"]
    assert targets == [3, 2, 7, 6, 10]


def test_coordinates_in_an_address():
    program = parse(make_kernel("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%d1, {%r2, 7}], [%r3+16];"))
    tensor, place = program.instructions[0].operands
    assert tensor == Address(Register("%d1"), 0, (Register("%r2"), Immediate("7")))
    assert place == Address(Register("%r3"), 16)
