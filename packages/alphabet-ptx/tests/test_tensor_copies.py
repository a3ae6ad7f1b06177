"""Bulk copies and tensor maps: against plain loops, and with planted faults."""

import numpy as np
import pytest
from alphabet_ptx import PtxError, tensor_copies, tensormaps
from alphabet_testing.ptx.snippets import expand, run
from alphabet_testing.ptx.tensors import (
    BARRIER,
    DTYPES,
    TILE,
    box_places,
    coordinates,
    image_of,
    make_map,
    make_tensor,
    move,
    swizzled,
    wait,
)

BOXES = {
    1: ((100,), (32,), (80,)),
    2: ((13, 64), (8, 32), (9, 40)),
    3: ((3, 5, 32), (2, 4, 16), (2, -1, 24)),
    4: ((2, 3, 4, 32), (1, 2, 2, 32), (1, 2, -1, 0)),
    5: ((2, 2, 3, 2, 16), (2, 1, 2, 1, 16), (-1, 1, 2, 0, 0)),
}


def run_load(opcode, shape, box, corner, kind="f32", mode=0, fill=0, change=str):
    tensor, scratch = make_tensor(shape, kind), np.zeros(128, np.uint8)
    size = int(np.prod(box)) * tensor.itemsize
    out = np.zeros(size, np.uint8)
    hint = ", %d0" if "cache_hint" in opcode else ""
    body = "\n".join([
        make_map(tensor, box, mode, fill),
        f"@%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [{BARRIER}], {size};",
        f"@%p2 {opcode} [{TILE}], [%d1, {coordinates(corner)}], [{BARRIER}]{hint};",
        wait(), move(size, 2, load=False),
    ])  # fmt: skip
    report = run(change(body), tensor, scratch, out, shared=TILE + size)
    return report, out, image_of(tensor, box, corner, mode, fill)


def check_load(opcode):
    rank = int(opcode.split(".")[4][0])
    report, out, expected = run_load(opcode, *BOXES[rank])
    assert report.races == []
    assert (out == expected).all(), opcode


def run_store(opcode, shape, box, corner, kind="f32", mode=0, change=str):
    """The tensor before and after, and what it should be."""
    tensor, scratch = make_tensor(shape, kind), np.zeros(128, np.uint8)
    values = make_tensor(box, kind)[..., ::-1].copy()
    image = np.zeros(values.nbytes, np.uint8)
    expected = tensor.copy()
    names = [part for part in opcode.split(".") if part in ("add", "min", "max", "and", "or", "xor")]
    combine = {
        "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }[names[0]] if names else lambda _, new: new  # fmt: skip
    flat = values.reshape(-1)
    for i, index in enumerate(box_places(shape, box, corner)):
        place = swizzled(TILE + i * tensor.itemsize, mode) - TILE
        image[place : place + tensor.itemsize] = np.frombuffer(flat[i].tobytes(), np.uint8)
        if index is not None:
            expected[index] = combine(tensor[index], flat[i])
    hint = ", %d0" if "cache_hint" in opcode else ""
    body = "\n".join([
        make_map(tensor, box, mode), move(values.nbytes, 2, load=True), "fence.proxy.async.shared::cta;", "bar.sync 0;",
        f"@%p2 {opcode} [%d1, {coordinates(corner)}], [{TILE}]{hint};",
        "cp.async.bulk.commit_group;", "cp.async.bulk.wait_group.read 0;",
    ])  # fmt: skip
    report = run(change(body), tensor, scratch, image, shared=TILE + values.nbytes)
    return report, tensor, expected


def check_store(opcode):
    rank = next(int(part[0]) for part in opcode.split(".") if part in ("1d", "2d", "3d", "4d", "5d"))
    kind = "s32" if opcode.startswith("cp.reduce") else "f32"
    report, tensor, expected = run_store(opcode, *BOXES[rank], kind)
    assert report.races == []
    assert (tensor == expected).all(), opcode


def check_bytes(opcode):
    values, out = np.arange(96, dtype=np.uint32), np.zeros(96, np.uint32)
    hint = ", %d0" if "cache_hint" in opcode else ""
    init = (
        f"setp.eq.u32 %p2, %r0, 0;\n@%p2 mbarrier.init.shared::cta.b64 [{BARRIER}], 1;\n"
        "fence.proxy.async;\nbar.sync 0;\n"
    )
    if "mbarrier" in opcode:
        body = (
            f"{init}@%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [{BARRIER}], 384;\n"
            f"@%p2 {opcode} [{TILE}], [%d0], 384, [{BARRIER}]{hint};\n{wait()}\n{move(384, 1, load=False)}"
        )
    else:
        body = (
            f"{init}{move(384, 0, load=True)}\nfence.proxy.async;\nbar.sync 0;\n"
            f"@%p2 {opcode} [%d1], [{TILE}], 384{hint};\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;"
        )
    assert run(body, values, out, shared=TILE + 384).races == []
    assert (out == values).all(), opcode


def check_group(opcode):
    """A copy to global memory holds NaN until its group is waited for."""
    seen = []
    for group in ("", opcode + (" 0;" if "wait" in opcode else ";")):
        tensor, out = np.zeros(4, np.float32), np.zeros(4, np.float32)
        commit = "cp.async.bulk.commit_group;" if "wait" in opcode else ""
        rest = "cp.async.bulk.wait_group 0;" if "commit" in opcode else ""
        body = f"""
        setp.eq.u32 %p1, %r0, 0;
        mov.b32 %r1, 0f3F800000;
        @%p1 st.shared.v4.b32 [{TILE}], {{%r1, %r1, %r1, %r1}};
        fence.proxy.async;
        @%p1 cp.async.bulk.global.shared::cta.bulk_group [%d0], [{TILE}], 16;
        {commit}
        {group}
        {rest}
        @%p1 ld.global.b32 %r2, [%d0];
        @%p1 st.global.b32 [%d1], %r2;
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group 0;
        """
        run(body, tensor, out, shared=TILE + 16)
        assert (tensor == 1).all()
        seen.append(out[0])
    assert np.isnan(seen[0])
    assert np.isnan(seen[1]) == opcode.endswith(".read")  # which waits for the other side only


def thin(pattern):
    """Of the opcodes of a pattern those in two dimensions, and of the others those without options."""
    opcodes = expand(pattern)
    assert opcodes
    return [each for each in opcodes if ".2d." in each or ("cache_hint" not in each and "cluster" not in each)]


@pytest.mark.parametrize("pattern", tensor_copies.TABLE)
def test_every_bulk_copy(pattern):
    for opcode in thin(pattern):
        if "_group" in opcode and "bulk_group" not in opcode:
            check_group(opcode)
        elif "tensor" not in opcode:
            check_bytes(opcode)
        else:
            (check_load if "complete_tx" in opcode else check_store)(opcode)


LOAD = "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes"
STORE = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group"


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_elements_and_swizzles(kind, mode):
    size = np.dtype(DTYPES[kind]).itemsize
    inner = 16 * 2**mode // size
    shape, corner = (20, 64), (5, 64 - inner + 1)
    report, out, expected = run_load(LOAD, shape, (16, inner), corner, kind, mode)
    assert report.races == []
    assert (out == expected).all()
    report, tensor, expected = run_store(STORE, shape, (16, inner), corner, kind, mode)
    assert report.races == []
    assert (tensor == expected).all()


def test_elements_outside_are_zero_or_nan():
    for fill in (0, 1):
        _, out, expected = run_load(LOAD, (4, 16), (8, 16), (2, 4), "f32", fill=fill)
        values = out.view(np.float32).reshape(8, 16)
        assert (out == expected).all()
        assert (np.isnan(values) if fill else values == 0)[2:].all()
        assert not np.isnan(values[:2, :12]).any()


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("@%p1 fence.proxy.tensormap", "// ", "no fence.proxy.tensormap since"),
        ("@%p1 tensormap.cp_fenceproxy", "// ", "no tensor map"),
        ("tile.box_dim.shared::cta.b1024.b32 [%d11+0], 0, 32", "tile.box_dim.shared::cta.b1024.b32 [%d11+0], 0, 3",
         "multiples of 16 bytes"),
        ("b1024.b64 [%d11+0], %d0", "b1024.b64 [%d11+0], 64", "out of range"),
        ("global_dim.shared::cta.b1024.b32 [%d11+0], 1, 13", "global_dim.shared::cta.b1024.b32 [%d11+0], 1, 20",
         "out of range"),
        (f"[{TILE}], [%d1", f"[{TILE + 64}], [%d1", "misaligned"),
        ("expect_tx.shared::cta.b64 _, [0], 1024", "expect_tx.shared::cta.b64 _, [0], 1040", "that nothing ends"),
        ("@%p2 mbarrier.arrive", "// ", "that nothing ends"),
        ("@%p2 mbarrier.init", "// ", "no mbarrier was initialised"),
        ("fence.proxy.async.shared::cta;\nbar.sync 0;", f"@%p2 mbarrier.init.shared.b64 [{BARRIER}], 1;\nbar.sync 0;",
         "initialised again"),
    ],
)  # fmt: skip
def test_faults_of_a_load_are_errors(before, after, message):
    with pytest.raises(PtxError, match=message):
        run_load(LOAD, *BOXES[2], change=lambda body: body.replace(before, after))


def test_a_load_that_nobody_waits_for():
    """Its place holds NaN, and the block may not end with it."""
    outputs = []

    def change(body):
        start, end = body.index("{\n.reg .pred done"), body.index("bra wait;\n}") + len("bra wait;\n}")
        outputs.append(body[start:end])
        return (
            body[:start]
            + body[end:]
            + f"\nbar.sync 0;\n{body[start:end].replace('wait', 'late').replace('try_late', 'try_wait')}"
        )

    _, out, _ = run_load(LOAD, *BOXES[2], change=change)
    assert np.isnan(out.view(np.float32)).all()
    with pytest.raises(PtxError, match="ended before a bulk copy"):
        run_load(LOAD, *BOXES[2], change=lambda body: body.replace(outputs[0], ""))


def test_faults_of_a_store():
    def run_with(before, after):
        return run_store(STORE, *BOXES[2], change=lambda body: body.replace(before, after))[0].races

    fence = "fence.proxy.async.shared::cta;\nbar.sync 0;\n@%p2 cp"
    assert {race.kind for race in run_with(fence, "bar.sync 0;\n@%p2 cp")} == {"asynchronous access after write"}
    assert "read after write" in {race.kind for race in run_with(fence, "fence.proxy.async;\n@%p2 cp")}
    again = f"mov.b32 %r9, 0;\n@%p2 st.shared.b32 [{TILE}], %r9;\ncp.async.bulk.wait_group.read"
    assert "write during asynchronous read" in {race.kind for race in run_with("cp.async.bulk.wait_group.read", again)}
    for part in ("cp.async.bulk.commit_group;", "cp.async.bulk.wait_group.read 0;"):
        with pytest.raises(PtxError, match="the block ended with no"):
            run_with(part, "")


def test_a_load_over_what_threads_still_use():
    """Threads read or wrote the place before: a fence and a barrier are missing."""
    load = f"mov.b32 %r9, 1;\nld.shared.b32 %r8, [{TILE}];\n@%p2 {LOAD}"
    report, *_ = run_load(LOAD, *BOXES[2], change=lambda body: body.replace(f"@%p2 {LOAD}", load))
    assert "asynchronous write after read" in {race.kind for race in report.races}
    store = load.replace("ld.shared.b32 %r8, ", "st.shared.b32 ").replace(f"[{TILE}];", f"[{TILE}], %r9;", 1)
    report, *_ = run_load(LOAD, *BOXES[2], change=lambda body: body.replace(f"@%p2 {LOAD}", store))
    assert "asynchronous access after write" in {race.kind for race in report.races}


@pytest.mark.parametrize("pattern", tensormaps.TABLE)
def test_every_tensor_map_instruction(pattern):
    """Each in place of the usual one, on a map in shared memory, or in global memory before it is fenced."""
    for opcode in expand(pattern):
        if "replace" not in opcode:

            def change(body, opcode=opcode):
                name = opcode.rpartition(".gpu" if ".gpu" in opcode else ".")[0]
                lines = [opcode.join(["@%p1 ", line[line.index(" [") :]]) if _same(line, opcode) else line
                         for line in body.split("\n")]  # fmt: skip
                assert name
                assert any(opcode in line for line in lines)
                return "\n".join(lines)

        else:
            field = opcode.split(".")[3]
            values = {"interleave_layout": "0", "swizzle_atomicity": "0"}

            def change(body, opcode=opcode, field=field, values=values):
                own = [line for line in body.split("\n") if f".{field}." in line]
                own = own or [f"@%p2 {opcode} [%d11+0], {values[field]};"]
                if ".global." not in opcode:
                    return body.replace("@%p1 tensormap.cp_fence", "\n".join([*own, "@%p1 tensormap.cp_fence"]))
                moved = [line.replace(".shared::cta.b1024", ".global.b1024").replace("%d11", "%d1") for line in own]
                return body.replace("@%p1 fence.proxy.tensormap", "\n".join([*moved, "@%p1 fence.proxy.tensormap"]))

        _, out, expected = run_load(LOAD, *BOXES[2], change=change)
        assert (out == expected).all(), opcode


def _same(line, opcode):
    return line.startswith("@%p1 ") and line[5:].split(".")[:2] == opcode.split(".")[:2]
