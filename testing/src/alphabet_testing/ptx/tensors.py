"""Tensor maps and boxes of tensors in shared memory, written out, for tests of bulk copies."""

import itertools

import numpy as np
from alphabet_ptx import tensormaps

from alphabet_testing.ptx.snippets import THREADS

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
    """The operand of a corner of a box, innermost first."""
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
