"""Loads, stores and asynchronous copies move what they should, each opcode of them."""

import numpy as np
import pytest
from alphabet_ptx import PtxError, copies, execute, transfers
from alphabet_testing.ptx.accesses import WIDTHS, choose_opcodes, hint, random_bytes, registers, split
from alphabet_testing.ptx.snippets import DTYPES, THREADS, make_kernel, offset, run


def check_global(opcode):
    """A load or store of global memory copies one array into another."""
    count, kind, size = split(opcode)
    names, vector = registers(kind, size, count)
    data, out = random_bytes(THREADS * count * size), np.zeros(THREADS * count * size, np.uint8)
    plain = [f".b{8 * size} {name}" for name in names]
    body = ["mov.b64 %d19, 0;", offset(count * size, 0), "mov.b64 %d11, %d10;", offset(count * size, 1)]
    if opcode.startswith("ld"):
        body.append(f"{opcode} {vector}, [%d11]{hint(opcode)};")
        body += [f"st.global{part.split()[0]} [%d10+{i * size}], {names[i]};" for i, part in enumerate(plain)]
    else:
        body += [f"ld.global{part.split()[0]} {names[i]}, [%d11+{i * size}];" for i, part in enumerate(plain)]
        body.append(f"{opcode} [%d10], {vector}{hint(opcode)};")
    assert run("\n".join(body), data, out).races == []
    assert (data == out).all(), opcode


def check_block_memory(opcode):
    """Shared and local memory: written by one opcode, read back by the plain one, or the other way round."""
    count, kind, size = split(opcode)
    _, vector = registers(kind, size, count)
    space = next(part for part in opcode.split(".") if part.startswith(("shared", "local")))
    data, out = random_bytes(THREADS * count * size), np.zeros(THREADS * count * size, np.uint8)
    body = ["" if space.startswith("shared") else ".local .align 16 .b8 depot[32];"]
    body.append("mov.b32 %r9, buffer;" if space.startswith("shared") else "mov.b64 %d9, depot;\ncvt.u32.u64 %r9, %d9;")
    if space.startswith("shared"):
        body.append(f"mad.lo.u32 %r9, %r0, {count * size}, %r9;")
    load = opcode if opcode.startswith("ld") else opcode.replace("st", "ld", 1)
    store = opcode if opcode.startswith("st") else opcode.replace("ld", "st", 1)
    plain = opcode.removeprefix("ld").removeprefix("st").removeprefix(".volatile").replace(space, "global")
    body += [offset(count * size, 0), f"ld{plain} {vector}, [%d10];", f"{store} [%r9], {vector};"]
    other = [f"{WIDTHS[size]}{30 + i}" for i in range(count)]
    second = other[0] if count == 1 else "{" + ", ".join(other) + "}"
    body += [f"{load} {second}, [%r9];", offset(count * size, 1), f"st{plain} [%d10], {second};"]
    assert run("\n".join(body), data, out, shared=THREADS * count * size).races == []
    assert (data == out).all(), opcode


def check_parameter(opcode):
    """A parameter of the kernel is read; what a function is given is written and read again."""
    if opcode.startswith("st"):
        check_handed_over(opcode)
        return
    count, kind, size = split(opcode)
    names, vector = registers(kind, size, count)
    values = [{"f16": 1.5, "f32": -2.5, "f64": 3.25}.get(kind, 7)] * count
    out = np.zeros((THREADS, count), DTYPES[kind])
    body = ["mov.u32 %r0, %tid.x;", "ld.param.b64 %d0, [k_param_0];", f"{opcode} {vector}, [k_param_1];"]
    body += [offset(count * size)] + [
        f"st.global.b{8 * size} [%d10+{i * size}], {name};" for i, name in enumerate(names)
    ]
    if count == 1:
        execute(make_kernel("\n".join(body), ["u64", kind]), 1, [out, values[0]])
        assert (out == values[0]).all()
    else:  # no argument of ours is that long
        with pytest.raises(PtxError):
            execute(make_kernel("\n".join(body), ["u64", "b8"]), 1, [out, 0])


def check_handed_over(opcode):
    count, kind, size = split(opcode)
    _, vector = registers(kind, size, count)
    other = [f"{WIDTHS[size]}{30 + i}" for i in range(count)]
    second = other[0] if count == 1 else "{" + ", ".join(other) + "}"
    data, out = random_bytes(THREADS * count * size), np.zeros(THREADS * count * size, np.uint8)
    plain = opcode.removeprefix("st.param")
    body = [f"{{ .param .align 32 .b8 handed[{count * size + 32}];", offset(count * size, 0)]
    body += [f"ld.global{plain} {vector}, [%d10];", f"{opcode} [handed+32], {vector};"]
    body += [
        f"ld.param{plain} {second}, [handed+32]; }}",
        offset(count * size, 1),
        f"st.global{plain} [%d10], {second};",
    ]
    assert run("\n".join(body), data, out).races == []
    assert (data == out).all(), opcode


def check_copy(opcode):
    """16 bytes each; the upper threads ask for half of them only and get zeros behind."""
    data, out = random_bytes(THREADS * 16), np.zeros(THREADS * 16, np.uint8)
    policy = ["mov.b64 %d19, 0;"] if "cache_hint" in opcode else []
    body = [*policy, offset(16, 0), "mov.b32 %r9, buffer;", "mad.lo.u32 %r9, %r0, 16, %r9;"]
    body += ["setp.lt.u32 %p1, %r0, 32;", "selp.b32 %r8, 16, 8, %p1;"]
    body += [f"{opcode} [%r9], [%d10], 16, %r8{hint(opcode)};", "cp.async.commit_group;", "cp.async.wait_group 0;"]
    body += ["ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r9];", offset(16, 1)]
    body += ["st.global.v4.b32 [%d10], {%r1, %r2, %r3, %r4};"]
    assert run("\n".join(body), data, out, shared=THREADS * 16).races == []
    data.reshape(THREADS, 16)[32:, 8:] = 0
    assert (data == out).all()


def check_policy(opcode):
    run(f"{opcode} %d10, 1.0;", np.zeros(1, np.uint8))


def check_group(opcode):
    """A copy is seen only after its group was waited for."""
    data = np.arange(THREADS, dtype=np.uint32)
    seen = np.zeros((3, THREADS), np.uint32)
    wait = opcode if opcode.endswith("all") else "cp.async.wait_group 0"
    body = [offset(4, 0), "mov.b32 %r9, buffer;", "mad.lo.u32 %r9, %r0, 4, %r9;"]
    body += ["cp.async.ca.shared.global [%r9], [%d10], 4;", offset(4, 1), "ld.shared.b32 %r1, [%r9];"]
    body += [
        "st.global.b32 [%d10], %r1;",
        "cp.async.commit_group;",
        "cp.async.wait_group 1;",
        "ld.shared.b32 %r2, [%r9];",
    ]
    body += [f"st.global.b32 [%d10+{4 * THREADS}], %r2;", f"{wait};", "ld.shared.b32 %r3, [%r9];"]
    body += [f"st.global.b32 [%d10+{8 * THREADS}], %r3;"]
    run("\n".join(body), data, seen, shared=4 * THREADS)
    assert (seen[:2] == 0xFFFFFFFF).all()
    assert (seen[2] == data).all()


CHECKS = {
    "ld.param": check_parameter, "ld.global": check_global, "ld.block": check_block_memory, "st.global": check_global,
    "st.block": check_block_memory, "cp.async.copy": check_copy, "cp.async.group": check_group,
    "createpolicy": check_policy,
}  # fmt: skip


def find_check(pattern):
    name = pattern.split(".")[0].split("[")[0]
    if name == "createpolicy":
        return CHECKS[name]
    if name == "cp":
        return CHECKS["cp.async.copy" if "global" in pattern else "cp.async.group"]
    if ".param" in pattern:
        return CHECKS["ld.param"]
    return CHECKS[f"{name}.global" if ".global" in pattern else f"{name}.block"]


@pytest.mark.parametrize("pattern", transfers.TABLE | copies.TABLE)
def test_every_opcode_moves_what_it_should(pattern):
    for opcode in choose_opcodes(pattern):
        find_check(pattern)(opcode)
