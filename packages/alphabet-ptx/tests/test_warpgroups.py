"""Products of a warp group against plain loops, and what a forgotten fence, wait or barrier does to them."""

import numpy as np
import pytest
from alphabet_ptx import PtxError, warpgroups
from alphabet_testing.ptx.snippets import decode_bf16, expand, run

GROUP = 128
WIDTHS = {"none": 16, "128": 128, "64": 64, "32": 32}
MODES = {16: 0, 128: 1, 64: 2, 32: 3}
START = 1024  # a multiple of every swizzle's period


def make_matrix(rows, k, kind, seed):
    """A matrix as numbers in float64, and as its elements (rows, k)."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((rows, k))
    match kind:
        case "f16":
            return values.astype(np.float16).astype(np.float64), values.astype(np.float16).view(np.uint16)
        case "bf16":
            halves = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
            return np.vectorize(decode_bf16)(halves), halves
        case "tf32":
            bits = values.astype(np.float32).view(np.uint32)
            return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64), bits
        case "s8" | "u8":
            elements = rng.integers(0, 256, (rows, k)).astype(np.uint8)
            return elements.view(np.int8 if kind == "s8" else np.uint8).astype(np.float64), elements
    exponent, bias = (4, 7) if kind == "e4m3" else (5, 15)
    elements = rng.integers(0, 8 << 3, (rows, k)).astype(np.uint8)  # below 2, so that sums fit float16
    elements |= (rng.integers(0, 2, (rows, k)) << 7).astype(np.uint8)
    fraction = 7 - exponent
    power = (elements & 0x7F) >> fraction
    digits = (elements & ((1 << fraction) - 1)) / 2.0**fraction + (power > 0)
    return np.where(elements >> 7, -1, 1) * digits * 2.0 ** (np.maximum(power, 1).astype(float) - bias), elements


def swizzled(address, width):
    """Bit by bit: bits 4 and up are inverted where bits 7 and up are set, as many as the width has chunks."""
    for i in range({16: 0, 32: 1, 64: 2, 128: 3}[width]):
        address ^= (address >> (7 + i) & 1) << (4 + i)
    return address


def lay_out(elements, width, transposed, start):
    """The bytes of a tile in shared memory from `start` on, by address, and its descriptor."""
    rows, k = elements.shape
    size = elements.itemsize
    image = {}
    if not transposed:  # rows of `width` bytes, eight to a core matrix; without swizzle both chunks apart
        leading, stride = (rows * 16, 128) if width == 16 else (16, 8 * width)
    elif width == 16:
        leading, stride = 128, 256
    else:
        leading, stride = 16 * width, 8 * width
    for row in range(rows):
        for j in range(k):
            if not transposed:
                chunk, rest = divmod(j * size, 16)
                near = chunk * leading + rest if width == 16 else chunk * 16 + rest
                place = row // 8 * stride + row % 8 * width + near
            elif width == 16:
                place = row // 8 * stride + j // 8 * leading + j % 8 * 16 + row % 8 * size
            else:
                across = width // size
                place = row // across * leading + j // 8 * stride + j % 8 * width + row % across * size
            for byte, value in enumerate(elements[row, j].tobytes()):
                image[swizzled(start + place, width) + byte] = value
    return image, start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | MODES[width] << 62


def fragment_of_a(elements):
    """What each thread's four registers hold of A, (128, 4), from the manual's figure."""
    per = 4 // elements.itemsize
    registers = np.zeros((GROUP, 4), np.uint32)
    for thread in range(GROUP):
        warp, group, member = thread // 32, thread % 32 // 4, thread % 4
        for i in range(4):
            row, column = 16 * warp + group + 8 * (i % 2), per * member + 4 * per * (i // 2)
            registers[thread, i] = int.from_bytes(elements[row, column : column + per].tobytes(), "little")
    return registers


def kernel(opcode, descriptors, *, registers, flags, adds=1, signs=(1, 1), n=8, result="f32", image_size=0):
    """A body: copy the image to shared memory (%d0), load A (%d1) and the accumulator (%d2), multiply, store to %d3."""
    count = n // 4 if result == "f16" else n // 2
    accumulator = "{" + ", ".join(f"%acc{i}" for i in range(count)) + "}"
    first = "{%fr0, %fr1, %fr2, %fr3}" if registers else f"{descriptors[0]}"
    scales = "" if result == "s32" else f", {signs[0]}, {signs[1]}"
    body = [f".reg .b32 %acc<{count}>;", ".reg .b32 %fr<4>;", "mul.wide.u32 %d10, %r0, 4;", "add.s64 %d10, %d0, %d10;"]
    for position in range(0, image_size, 4 * GROUP):
        body += [
            f"ld.global.b32 %r2, [%d10+{position}];",
            "shl.b32 %r3, %r0, 2;",
            f"st.shared.b32 [%r3+{position}], %r2;",
        ]
    body += ["fence.proxy.async.shared::cta;", "bar.sync 0;", "mad.wide.u32 %d10, %r0, 16, %d1;"]
    body += [f"ld.global.b32 %fr{i}, [%d10+{4 * i}];" for i in range(4)] if registers else []
    body += [f"mad.wide.u32 %d10, %r0, {4 * count}, %d2;"]
    body += [f"ld.global.b32 %acc{i}, [%d10+{4 * i}];" for i in range(count)]
    body += [f"setp.eq.u32 %p1, {adds}, 1;", "wgmma.fence.sync.aligned;"]
    body += [f"{opcode} {accumulator}, {first}, {descriptors[1]}, %p1{scales}{flags};"]
    body += ["wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"]
    body += [f"mad.wide.u32 %d10, %r0, {4 * count}, %d3;"]
    body += [f"st.global.b32 [%d10+{4 * i}], %acc{i};" for i in range(count)]
    return "\n".join(body)


def check_product(opcode, *, width=128, registers=False, transposed=(False, False), adds=1, signs=(1, 1), change=str):
    """One product against float64; `change` edits the PTX before it runs. Returns the report."""
    parts = opcode.split(".")
    n, k = (int(number) for number in parts[4][4:].split("k"))
    result, kinds = parts[5], parts[6:8]
    a, a_bits = make_matrix(64, k, kinds[0], 0)
    b, b_bits = make_matrix(n, k, kinds[1], 1)
    dtype = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[result]
    c = (np.random.default_rng(2).standard_normal((64, n)) * 100).astype(dtype)
    first, first_descriptor = lay_out(a_bits, width, transposed[0], START)
    second_start = -(-(max(first) + 1) // 1024) * 1024
    second, second_descriptor = lay_out(b_bits, width, transposed[1], second_start)
    size = -(-(max(second) + 1) // (4 * GROUP)) * 4 * GROUP
    image = np.zeros(size, np.uint8)
    for place, value in (first | second).items():
        image[place] = value
    places = [
        [(16 * (t // 32) + t % 32 // 4 + 8 * half, 8 * j + 2 * (t % 4) + i)
         for j in range(n // 8) for half in range(2) for i in range(2)]
        for t in range(GROUP)
    ]  # fmt: skip
    given = np.array([[c[place] for place in row] for row in places])
    out = np.zeros_like(given)
    flags = ""
    if kinds[0] in ("f16", "bf16"):
        flags = f", {int(transposed[1])}" if registers else f", {int(transposed[0])}, {int(transposed[1])}"
    body = kernel(
        opcode, (first_descriptor, second_descriptor), registers=registers, flags=flags, adds=adds, signs=signs, n=n,
        result=result, image_size=size,
    )  # fmt: skip
    report = run(change(body), image, fragment_of_a(a_bits), given, out, threads=GROUP, shared=size)
    exact = signs[0] * signs[1] * (a @ b.T) + adds * c.astype(np.float64)
    want = np.array([[exact[place] for place in row] for row in places])
    if result == "s32":
        assert (out == want).all(), opcode
    else:
        assert (np.abs(out - want) <= 0.501 * np.spacing(np.abs(want).astype(dtype)).astype(np.float64)).all(), opcode
    return report


@pytest.mark.parametrize("pattern", [pattern for pattern in warpgroups.TABLE if "mma_async" in pattern])
def test_every_shape_and_type(pattern):
    opcodes = expand(pattern)
    assert opcodes
    # All of the types, and of the many numbers of columns the smallest, an odd one, a usual one and the largest.
    for opcode in opcodes:
        if any(f"n{n}k" in opcode for n in (8, 24, 64, 256)):
            assert check_product(opcode).races == []


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("transposed", [(a, b) for a in (False, True) for b in (False, True)])
def test_layouts_of_shared_memory(width, transposed):
    opcode = "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16"
    assert check_product(opcode, width=width, transposed=transposed).races == []


@pytest.mark.parametrize("kind", ["k16.f32.f16.f16", "k16.f32.bf16.bf16", "k8.f32.tf32.tf32", "k32.s32.s8.u8"])
def test_operands_in_registers(kind):
    assert check_product(f"wgmma.mma_async.sync.aligned.m64n16{kind}", registers=True).races == []


def test_scales():
    opcode = "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16"
    for adds, signs in ((0, (1, 1)), (1, (-1, 1)), (0, (1, -1)), (1, (-1, -1))):
        check_product(opcode, adds=adds, signs=signs)


OPCODE = "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16"
AGAIN = "mov.b32 %r5, 0;\nst.shared.b32 [%r5+1024], %r5;"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("wgmma.wait_group.sync.aligned 0;", "", "wgmma.mma_async was not waited for"),
        ("wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;", "wgmma.mma_async was not waited for"),
        ("wgmma.commit_group.sync.aligned;", "", "wgmma.mma_async was not waited for"),
        ("wgmma.fence.sync.aligned;", "", "no wgmma.fence"),
        ("wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned;\nmov.b32 %fr1, 7;", "%fr1 was changed after the last"),
        ("wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned;\nmov.b32 %acc3, 7;", "%acc3 was changed after the la"),
        ("wgmma.commit_group", "mov.b32 %fr2, 7;\nwgmma.commit_group", "%fr2 was changed before"),
        ("wgmma.commit_group", "mov.b32 %acc2, 7;\nwgmma.commit_group", "accumulator was changed before"),
        (OPCODE, f"setp.lt.u32 %p2, %r0, 96;\n@%p2 {OPCODE}", "under divergence"),
        (", %p1, 1, 1, 0;", ", %p3, 1, 1, 0;", "unknown"),
    ],
)  # fmt: skip
def test_faults_of_registers_are_errors(before, after, message):
    with pytest.raises(PtxError, match=message):
        check_product(OPCODE, registers=True, change=lambda body: body.replace(before, after))


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("fence.proxy.async.shared::cta;", "", "asynchronous access after write"),
        ("fence.proxy.async.shared::cta;\nbar.sync 0;", "fence.proxy.async.shared::cta;", "read after write"),
        ("wgmma.wait_group", f"{AGAIN}\nwgmma.wait_group", "write during asynchronous read"),
        ("wgmma.wait_group", f"bar.sync 0;\n{AGAIN}\nwgmma.wait_group", "write during asynchronous read"),
        ("wgmma.wait_group.sync.aligned 0;", f"wgmma.wait_group.sync.aligned 0;\n{AGAIN}", "write after read"),
    ],
)  # fmt: skip
def test_faults_of_shared_memory_are_races(before, after, kind):
    report = check_product(OPCODE, change=lambda body: body.replace(before, after))
    assert kind in {race.kind for race in report.races}
    assert all(race.missing in str(race) for race in report.races)


def test_a_fence_after_a_barrier_serves_all_threads():
    def change(body):
        return body.replace("fence.proxy.async.shared::cta;\nbar.sync 0;", "bar.sync 0;\nfence.proxy.async;")

    assert check_product(OPCODE, change=change).races == []
