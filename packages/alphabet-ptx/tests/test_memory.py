"""Loads, stores, copies and atomics: their values, their bounds, and that every one of them is in a test."""

import numpy as np
import pytest
from alphabet_ptx import PtxError, atomics, copies, execute, transfers
from alphabet_testing.ptx.snippets import DTYPES, THREADS, expand, make_kernel, offset, run

WIDTHS = {1: "%h", 2: "%h", 4: "%r", 8: "%d"}


def random_bytes(count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, count).astype(np.uint8)


def split(opcode):
    """(elements, type, bytes) of an access."""
    parts = opcode.split(".")
    count = next((int(part[1:]) for part in parts if part in ("v2", "v4", "v8")), 1)
    return count, parts[-1], np.dtype(DTYPES[parts[-1]]).itemsize


def registers(kind, size, count):
    names = [f"{WIDTHS[size]}{20 + i}" for i in range(count)]
    return names, names[0] if count == 1 else "{" + ", ".join(names) + "}"


def hint(opcode):
    return ", %d19" if "cache_hint" in opcode else ""


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


COMBINE = {
    "add": lambda old, value, new: old + value,
    "min": lambda old, value, new: min(old, value),
    "max": lambda old, value, new: max(old, value),
    "and": lambda old, value, new: old & value,
    "or": lambda old, value, new: old | value,
    "xor": lambda old, value, new: old ^ value,
    "exch": lambda old, value, new: value,
    "cas": lambda old, value, new: new if old == value else old,
}


def check_atomic(opcode):
    """All threads on four cells, in the order of their numbers."""
    parts = opcode.split(".")
    name = next(part for part in parts if part in COMBINE)
    count, kind, size = split(opcode)
    element = {"f16x2": "f2", "bf16x2": "u2", "bf16": "u2"}.get(kind, DTYPES[kind])
    lanes = count * size // np.dtype(element).itemsize
    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.integers(0, 4 if name == "cas" else 100, shape)  # noqa: E731
    cells, values, new = draw(4, lanes), draw(THREADS, lanes), draw(THREADS, lanes)
    encode = (
        (lambda a: (a.astype("f4").view("u4") >> 16).astype("u2")) if "bf16" in kind else (lambda a: a.astype(element))
    )
    memory, given, replacement = encode(cells), encode(values), encode(new)
    out = np.zeros((THREADS, lanes), element)
    names, vector = registers(kind, size, count)
    others = [f"{WIDTHS[size]}{25 + i}" for i in range(count)]
    second = others[0] if count == 1 else "{" + ", ".join(others) + "}"
    third = f"{WIDTHS[size]}30"
    body = ["and.b32 %r9, %r0, 3;"]
    shared = "shared" in opcode
    step = count * size
    body += [f"mul.wide.u32 %d9, %r9, {step};", "add.s64 %d9, %d0, %d9;"]
    address = "%d9"
    if shared:  # through a copy of the cells
        body += [f"mul.lo.u32 %r10, %r9, {step};", "mov.b32 %r11, buffer;", "add.s32 %r10, %r10, %r11;"]
        body += ["setp.lt.u32 %p1, %r0, 4;"]
        for i in range(step // min(size, 4)):
            width = 8 * min(size, 4)
            register = "%h5" if width == 16 else "%r5"
            body += [f"@%p1 ld.global.b{width} {register}, [%d9+{i * width // 8}];"]
            body += [f"@%p1 st.shared.b{width} [%r10+{i * width // 8}], {register};"]
        body += ["bar.sync 0;"]
        address = "%r10"
    body += [offset(step, 1), "mov.b64 %d11, %d10;", offset(step, 3)]
    body += [f"ld.global.b{8 * size} {register}, [%d11+{i * size}];" for i, register in enumerate(others)]
    body += [f"ld.global.b{8 * size} {third}, [%d10];"]
    operands = f"[{address}], {second}" + (f", {third}" if name == "cas" else "")
    body.append(f"{opcode} {vector + ', ' if parts[0] == 'atom' else ''}{operands};")
    body += [offset(step, 2)]
    if parts[0] == "atom":
        body += [f"st.global.b{8 * size} [%d10+{i * size}], {register};" for i, register in enumerate(names)]
    if shared:
        body += ["bar.sync 0;"]
        for i in range(step // min(size, 4)):
            width = 8 * min(size, 4)
            register = "%h5" if width == 16 else "%r5"
            body += [f"@%p1 ld.shared.b{width} {register}, [%r10+{i * width // 8}];"]
            body += [f"@%p1 st.global.b{width} [%d9+{i * width // 8}], {register};"]
    report = run("\n".join(body), memory, given, out, replacement, shared=4 * step)
    assert report.races == []
    old = np.zeros_like(values)
    rounding = (lambda x: x) if "f" not in kind else lambda x: float(encode_decode(x, kind, encode))
    for thread in range(THREADS):
        for lane in range(lanes):
            old[thread, lane] = cells[thread % 4, lane]
            cells[thread % 4, lane] = rounding(
                COMBINE[name](cells[thread % 4, lane], values[thread, lane], new[thread, lane])
            )
    assert (memory == encode(cells)).all(), opcode
    if parts[0] == "atom":
        assert (out == encode(old)).all(), opcode


def encode_decode(value, kind, encode):
    if "bf16" not in kind:
        return np.array(value).astype({"f16": "f2", "f16x2": "f2"}.get(kind, "f8"))
    bits = int(np.float32(value).view(np.uint32))
    return np.uint32((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)


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
    "st.block": check_block_memory, "cp.async.copy": check_copy, "cp.async.group": check_group, "atom": check_atomic,
    "red": check_atomic, "createpolicy": check_policy,
}  # fmt: skip


def find_check(pattern):
    name = pattern.split(".")[0].split("[")[0]
    if name in ("atom", "red", "createpolicy"):
        return CHECKS[name]
    if name == "cp":
        return CHECKS["cp.async.copy" if "global" in pattern else "cp.async.group"]
    if ".param" in pattern:
        return CHECKS["ld.param"]
    return CHECKS[f"{name}.global" if ".global" in pattern else f"{name}.block"]


@pytest.mark.parametrize("pattern", transfers.TABLE | copies.TABLE | atomics.TABLE)
def test_every_opcode_moves_what_it_should(pattern):
    opcodes = expand(pattern)
    # Cache hints and scopes multiply: every modifier and every type is there, not every pair of them.
    step = max(1, len(opcodes) // 150) | 1
    chosen = opcodes[::step]
    modifiers = {part for opcode in opcodes for part in opcode.split(".")}
    chosen += [
        next(o for o in opcodes if part in o.split("."))
        for part in modifiers - {p for o in chosen for p in o.split(".")}
    ]
    for opcode in chosen:
        find_check(pattern)(opcode)


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
