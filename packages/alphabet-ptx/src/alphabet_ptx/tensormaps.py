"""Tensor maps: 128 bytes that describe a tensor in global memory, and the box of it that one copy moves.

The manual keeps the layout of these bytes to itself: tensormap.replace sets one field, and the driver makes whole maps.
The layout here is this package's own. A map that a kernel has changed may be used after tensormap.cp_fenceproxy and
fence.proxy.tensormap.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from alphabet_ptx.collectives import active_warps
from alphabet_ptx.datatypes import WARP, Array, Mask, size_of
from alphabet_ptx.elementwise import parts
from alphabet_ptx.errors import PtxError
from alphabet_ptx.machine import Binder, Block, Step, Unit
from alphabet_ptx.program import Immediate, Instruction

BYTES = 128
# Address; rank - 1, element type, interleave, swizzle, fill, swizzle atomicity; sizes, box, steps; strides in bytes.
_LAYOUT = struct.Struct("<Q 6I 5I 5I 5I 4x 4Q")
# Where a field starts, and the bytes of one of its numbers.
_FIELDS = {
    "global_address": (0, 8),
    "rank": (8, 4),
    "elemtype": (12, 4),
    "interleave_layout": (16, 4),
    "swizzle_mode": (20, 4),
    "fill_mode": (24, 4),
    "swizzle_atomicity": (28, 4),
    "global_dim": (32, 4),
    "box_dim": (52, 4),
    "element_stride": (72, 4),
    "global_stride": (96, 8),
}
_INDEXED = ("global_dim", "box_dim", "element_stride", "global_stride")
# The element types by their numbers in tensormap.replace.
ELEMENTS = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32", "f64", "bf16", "tf32", "tf32")


@dataclass(frozen=True)
class TensorMap:
    """A tensor and a box of it; `sizes`, `box` and `strides` (in bytes) have the innermost dimension first."""

    address: int
    element: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    fill: int = 0

    def __post_init__(self) -> None:
        inner = self.box[0] * self.size
        width = (0, 32, 64, 128)[self.swizzle]
        wrong = [
            (self.address % 16 != 0, f"its address must be a multiple of 16 bytes; found {self.address:#x}"),
            (
                any(stride % 16 for stride in self.strides),
                f"strides must be multiples of 16 bytes; found {self.strides}",
            ),
            (any(not 1 <= size <= 256 for size in self.box), f"a box has 1 to 256 elements a side; found {self.box}"),
            (inner % 16 != 0, f"the rows of a box must be multiples of 16 bytes; found {inner}"),
            (width and inner > width, f"the rows of a box must fit the swizzle's {width} bytes; found {inner}"),
            (any(size < 1 for size in self.sizes), f"sizes must be positive; found {self.sizes}"),
        ]
        for found, reason in wrong:
            if found:
                raise PtxError(f"invalid tensor map: {reason}")

    @property
    def kind(self) -> str:
        """The type of the elements."""
        return ELEMENTS[self.element]

    @property
    def size(self) -> int:
        """The bytes of an element."""
        return size_of(self.kind)

    @property
    def width(self) -> int:
        """The bytes of a row of the swizzle; 16 stands for none."""
        return (16, 32, 64, 128)[self.swizzle]

    def encode(self) -> bytes:
        """The map as 128 bytes."""
        rank = len(self.sizes)
        numbers = [
            self.address, rank - 1, self.element, 0, self.swizzle, self.fill, 0,
            *_pad(self.sizes, 5), *_pad(self.box, 5), *_pad([1] * rank, 5), *_pad(self.strides, 4),
        ]  # fmt: skip
        return _LAYOUT.pack(*numbers)

    @classmethod
    def decode(cls, data: bytes) -> "TensorMap":
        """The map in 128 bytes."""
        address, last, element, interleave, swizzle, fill, atomicity, *numbers = _LAYOUT.unpack(data)
        rank = last + 1
        sizes, box, steps, strides = numbers[:5], numbers[5:10], numbers[10:15], numbers[15:]
        if rank > 5 or element >= len(ELEMENTS) or swizzle > 3 or fill > 1 or 0 in steps[:rank]:
            raise PtxError("the bytes at this address are no tensor map, or one of which not all fields are set")
        if interleave or atomicity or any(step != 1 for step in steps[:rank]):
            raise PtxError(
                "a tensor map with an interleaved layout, a swizzle atomicity or strided elements is not covered"
            )
        return cls(address, element, tuple(sizes[:rank]), tuple(strides[: rank - 1]), tuple(box[:rank]), swizzle, fill)

    def locate(self, corner: Sequence[int]) -> tuple[Array, Array]:
        """The addresses of a box's elements, the innermost dimension fastest, and whether each is in the tensor."""
        indices = np.unravel_index(np.arange(int(np.prod(self.box))), self.box[::-1])[::-1]
        address = np.full(len(indices[0]), self.address, np.int64)
        inside = np.ones(len(address), np.bool_)
        for start, index, size, stride in zip(corner, indices, self.sizes, (self.size, *self.strides), strict=True):
            place = index + start
            address += place * stride
            inside &= (place >= 0) & (place < size)
        return address, inside


def _pad(numbers: Sequence[int], count: int) -> list[int]:
    return [*numbers, *[0] * (count - len(numbers))]


class TensorMaps(Unit):
    """The tensor maps that a block has changed and not fenced since."""

    def __init__(self, block: Block) -> None:
        super().__init__(block)
        self.start()

    def start(self) -> None:
        self.changed: set[int] = set()

    def load(self, address: int, thread: int) -> TensorMap:
        """The tensor map at an address of global memory, for a copy by that thread."""
        if address % 64:
            raise PtxError(f"a tensor map must lie at a multiple of 64 bytes; found {address:#x}", thread=thread)
        if address in self.changed:
            raise PtxError("the tensor map was changed with no fence.proxy.tensormap since", thread=thread)
        places, threads = address + np.arange(0, BYTES, 4), np.full(BYTES // 4, thread)
        (words,) = self.block.memory.load(places, 4, 1, threads, self.block.pc)
        return TensorMap.decode(words.tobytes())


def _replace(instruction: Instruction, block: Block) -> Step:
    """tensormap.replace: set a field of a map in shared or global memory."""
    _, _, _, name, space, *_, kind = parts(instruction)
    start, size = _FIELDS[name]
    address, *rest = instruction.operands
    if len(rest) != 1 + (name in _INDEXED):
        raise PtxError(f"{instruction.opcode} with these operands is not covered")
    index = int(block.source(rest[0], "u32")[0]) if name in _INDEXED else 0
    memory = block.memory if space == "global" else block.shared
    locate, values, names = block.address(address), block.source(rest[-1], kind), block.names(rest[-1])
    maps = block.unit(TensorMaps)

    def step(mask: Mask | None) -> None:
        block.require(names, mask, "a field of a tensor map")
        threads, addresses = locate(mask)
        memory.store(addresses + start + size * index, size, [values[threads]], threads, block.pc)
        if space == "global":
            maps.changed.update(int(each) for each in addresses)

    return step


def _publish(instruction: Instruction, block: Block) -> Step:
    """tensormap.cp_fenceproxy: a warp copies a map from shared to global memory."""
    target, origin, size = instruction.operands
    if not isinstance(size, Immediate) or int(size.text, 0) != BYTES:
        raise PtxError(f"{instruction.opcode} copies {BYTES} bytes; found {size}")
    locate_target, locate_origin = block.address(target), block.address(origin)
    maps = block.unit(TensorMaps)

    def step(mask: Mask | None) -> None:
        block.clock.meet_warps(active_warps(block, mask, instruction.opcode))
        threads, targets = locate_target(mask)
        _, origins = locate_origin(mask)
        places = 4 * (threads % WARP)
        (words,) = block.shared.load(origins + places, 4, 1, threads, block.pc)
        block.memory.store(targets + places, 4, [words], threads, block.pc)
        maps.changed.update(int(each) for each in np.unique(targets))

    return step


def _acquire(instruction: Instruction, block: Block) -> Step:
    locate, maps = block.address(instruction.operands[0]), block.unit(TensorMaps)

    def step(mask: Mask | None) -> None:
        maps.changed.difference_update(int(each) for each in np.unique(locate(mask)[1]))

    return step


_SPACE = "{global,shared::cta}.b1024"
_SCOPE = "{cta,cluster,gpu,sys}"

TABLE: dict[str, Binder] = {
    f"tensormap.replace.tile.{{global_address,global_stride}}.{_SPACE}.b64": _replace,
    "tensormap.replace.tile.{rank,elemtype,interleave_layout,swizzle_mode,fill_mode,swizzle_atomicity,global_dim,"
    f"box_dim,element_stride}}.{_SPACE}.b32": _replace,
    f"tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.{_SCOPE}.sync.aligned": _publish,
    f"fence.proxy.tensormap::generic.acquire.{_SCOPE}": _acquire,
}
