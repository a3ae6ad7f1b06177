"""mbarriers, tensor maps, bulk copies, clusters of one block: against plain loops, and with planted faults."""

import itertools

import numpy as np
import pytest
from alphabet_ptx import PtxError, clusters, mbarriers, tensor_copies, tensormaps
from alphabet_testing.ptx.snippets import THREADS, expand, offset, run

BARRIER, MAP, TILE = 0, 128, 1024  # places in shared memory
DTYPES = {"u8": np.uint8, "u16": np.uint16, "s32": np.int32, "f16": np.float16, "f32": np.float32, "u64": np.uint64}
SWIZZLES = {0: 0, 1: 1, 2: 2, 3: 3}  # the mode, and how many bits of an address it changes


def swizzled(address, mode):
    """Bit by bit: bits 4 and up are inverted where bits 7 and up are set."""
    for i in range(SWIZZLES[mode]):
        address ^= (address >> (7 + i) & 1) << (4 + i)
    return address


def make_map(tensor, box, mode, fill=0):
    """Code that makes the tensor map of an array in %d0 and puts it where %d1 points, for an acquired use of %d1."""
    element = tensormaps.ELEMENTS.index({"uint8": "u8", "uint16": "u16", "int32": "s32", "float16": "f16",
                                         "float32": "f32", "uint64": "u64"}[str(tensor.dtype)])  # fmt: skip
    replace = "@%p2 tensormap.replace.tile"
    lines = [
        "setp.lt.u32 %p1, %r0, 32;", "setp.eq.u32 %p2, %r0, 0;", "mov.b32 %r1, buffer;",
        f"add.u32 %r1, %r1, {MAP};", "mad.lo.u32 %r2, %r0, 4, %r1;", "mov.b32 %r3, 0;",
        "@%p1 st.shared.b32 [%r2], %r3;",
        "bar.warp.sync -1;", "cvt.u64.u32 %d11, %r1;",
        f"{replace}.global_address.shared::cta.b1024.b64 [%d11+0], %d0;",
        f"{replace}.rank.shared::cta.b1024.b32 [%d11+0], {tensor.ndim - 1};",
        f"{replace}.elemtype.shared::cta.b1024.b32 [%d11+0], {element};",
        f"{replace}.swizzle_mode.shared::cta.b1024.b32 [%d11+0], {mode};",
        f"{replace}.fill_mode.shared::cta.b1024.b32 [%d11+0], {fill};",
    ]  # fmt: skip
    for i, (size, side) in enumerate(zip(tensor.shape[::-1], box[::-1], strict=True)):
        lines += [
            f"{replace}.global_dim.shared::cta.b1024.b32 [%d11+0], {i}, {size};",
            f"{replace}.box_dim.shared::cta.b1024.b32 [%d11+0], {i}, {side};",
            f"{replace}.element_stride.shared::cta.b1024.b32 [%d11+0], {i}, 1;",
        ]
    for i, stride in enumerate(tensor.strides[-2::-1]):
        lines.append(f"{replace}.global_stride.shared::cta.b1024.b64 [%d11+0], {i}, {stride};")
    return "\n".join([
        *lines,
        "@%p1 tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
        "[%d1+0], [%d11+0], 0x80;",
        "@%p1 fence.proxy.tensormap::generic.acquire.gpu [%d1+0], 0x80;",
        f"@%p2 mbarrier.init.shared::cta.b64 [{BARRIER}], 1;",
        "fence.proxy.async.shared::cta;",
        "bar.sync 0;",
    ])  # fmt: skip


def coordinates(corner):
    return "{" + ", ".join(str(place) for place in corner[::-1]) + "}"


def wait(parity=0, name="wait"):
    return (
        f"{{\n.reg .pred done;\n{name}:\nmbarrier.try_wait.parity.shared::cta.b64 done, [{BARRIER}], {parity};\n"
        f"@!done bra {name};\n}}"
    )


def move(size, pointer, *, load):
    """Code that copies `size` bytes between shared memory from TILE on and an array."""
    lines = ["mul.wide.u32 %d12, %r0, 4;", f"add.s64 %d12, %d12, %d{pointer};", "shl.b32 %r4, %r0, 2;"]
    for start in range(0, size, 4 * THREADS):
        lines.append(f"setp.lt.u32 %p4, %r4, {size - start};")
        shared, array = f"[%r4+{TILE + start}]", f"[%d12+{start}]"
        if load:
            lines += [f"@%p4 ld.global.b32 %r5, {array};", f"@%p4 st.shared.b32 {shared}, %r5;"]
        else:
            lines += [f"@%p4 ld.shared.b32 %r5, {shared};", f"@%p4 st.global.b32 {array}, %r5;"]
    return "\n".join(lines)


def box_places(shape, box, corner):
    """For each element of a box in its order: its index in the tensor, or None outside of it."""
    for steps in itertools.product(*(range(side) for side in box)):
        index = tuple(start + step for start, step in zip(corner, steps, strict=True))
        yield index if all(0 <= place < size for place, size in zip(index, shape, strict=True)) else None


def make_tensor(shape, kind):
    rng = np.random.default_rng(0)
    if kind in ("f16", "f32"):
        return (100 * rng.standard_normal(shape)).astype(DTYPES[kind])
    return rng.integers(0, 127, shape).astype(DTYPES[kind])


def image_of(tensor, box, corner, mode, fill=0):
    """What a box looks like in shared memory."""
    size = tensor.itemsize
    image = np.zeros(int(np.prod(box)) * size, np.uint8)
    outside = (b"\xff" if fill else b"\0") * size
    for i, index in enumerate(box_places(tensor.shape, box, corner)):
        place = swizzled(TILE + i * size, mode) - TILE
        image[place : place + size] = np.frombuffer(outside if index is None else tensor[index].tobytes(), np.uint8)
    return image


# Shape, box and corner: inside, over the edges, before the start.
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
