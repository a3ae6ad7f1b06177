"""Where wgmma finds its matrices: tiles of shared memory, given by a descriptor of 64 bits, and registers.

The layouts are those of the PTX manual's section on asynchronous warp-group instructions. A tile has `extent` rows of
A or columns of B, 32 bytes of each along k. It lies in chunks of 16 bytes, eight of which make a core matrix.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from alphabet_ptx.datatypes import WARP, Array
from alphabet_ptx.errors import PtxError
from alphabet_ptx.matrices import Fragment

GROUP = 4 * WARP  # threads of a warp group
# The width in bytes of each swizzle mode, by its number in a descriptor; 16 stands for none.
_WIDTHS = (16, 128, 64, 32)


def swizzle(addresses: Array, width: int) -> Array:
    """Addresses of a tile that is swizzled in rows of `width` bytes: bits 4 and up, exclusive or bits 7 and up."""
    return np.asarray(addresses ^ ((addresses >> 3) & (width - 16)))


@dataclass(frozen=True)
class Descriptor:
    """A tile in shared memory: where it starts, its two strides in bytes, and the width of its swizzle."""

    start: int
    leading: int
    stride: int
    width: int

    @classmethod
    def decode(cls, bits: int) -> "Descriptor":
        """The descriptor in a 64-bit register."""
        if bits >> 49 & 7:
            raise PtxError(f"a matrix descriptor with a base offset is not covered; found {bits:#018x}")
        start, leading, stride = (16 * (bits >> shift & 0x3FFF) for shift in (0, 16, 32))
        return cls(start, leading, stride, _WIDTHS[bits >> 62])

    def chunks(self, extent: int, *, transposed: bool) -> Array:
        """The addresses of a tile's chunks: (extent, 2) along k, or if transposed (extent / 8, 16) along the rows."""
        offsets = _offsets(extent, transposed, self.leading, self.stride, self.width)
        return swizzle(self.start + offsets, self.width)


@lru_cache(maxsize=256)
def _offsets(extent: int, transposed: bool, leading: int, stride: int, width: int) -> Array:
    if not transposed:
        row, chunk = np.arange(extent)[:, None], np.arange(2)
        offsets = row // 8 * stride + row % 8 * width + chunk * (leading if width == 16 else 16)
    else:
        row, k = np.arange(extent // 8)[:, None], np.arange(16)
        across = width // 16  # chunks of one k that lie side by side
        far, near = (stride, leading) if across == 1 else (leading, stride)
        offsets = row // across * far + row % across * 16 + k // 8 * near + k % 8 * width
    return np.asarray(offsets)


def assemble(words: Array, *, transposed: bool) -> Array:
    """The elements of a tile from its chunks' words, (extent, 8): two 16-bit elements in a word, or as many as fit."""
    if not transposed:
        return words.reshape(-1, 8)
    pieces = words.reshape(-1, 16, 4).view(np.uint16)  # (extent / 8, k, 8)
    return np.ascontiguousarray(pieces.swapaxes(1, 2)).reshape(-1, 16).view(np.uint32)


@lru_cache(maxsize=64)
def accumulator(n: int) -> Fragment:
    """Where the elements of the (64, n) accumulator lie: each warp has 16 rows, each register pair 8 columns."""
    thread = np.arange(GROUP)
    element = np.arange(n // 2)[:, None]
    rows = thread // WARP * 16 + thread % WARP // 4 + element // 2 % 2 * 8
    columns = element // 4 * 8 + thread % 4 * 2 + element % 2
    return Fragment(rows, np.asarray(columns), 1)
