"""Tensor-core instructions: a warp multiplies small matrices whose elements lie scattered over its lanes.

mma: operands as the tensor cores see them (tf32 cuts float32 to 19 bits), products exact, the sum of all products and
the accumulator in float64, one rounding at the end. A GPU adds in an order and with a
rounding of its own: its last bits differ. What the cut of the operands costs is the same here and there. Integer
products are exact.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from alphabet_ptx.collectives import active_warps
from alphabet_ptx.datatypes import DTYPES, WARP, Array, Mask
from alphabet_ptx.elementwise import flatten, parts
from alphabet_ptx.errors import PtxError
from alphabet_ptx.fp8 import decode_fp8
from alphabet_ptx.machine import Binder, Block, Step
from alphabet_ptx.program import Instruction, Operand
from alphabet_ptx.rounding import decode_bf16, truncate_tf32
from alphabet_ptx.tensorcores import add_products
from alphabet_ptx.transfers import spread

_GROUP, _MEMBER = np.arange(WARP) // 4, np.arange(WARP) % 4


@dataclass(frozen=True)
class Fragment:
    """Where a matrix lies: element i of a lane is (rows[i, lane], columns[i, lane]), `packed` elements per register."""

    rows: Array
    columns: Array
    packed: int

    def index(self) -> Array:
        """The place of each matrix element among the elements of a warp, lane by lane."""
        elements, lanes = self.rows.shape
        index = np.zeros((int(self.rows.max()) + 1, int(self.columns.max()) + 1), np.intp)
        index[self.rows.T, self.columns.T] = np.arange(lanes * elements).reshape(lanes, elements)
        return index

    def words(self, warps: int, *, down: bool = False) -> Array:
        """The place of each word of the matrix among those of all warps, register by register: (warps, lines, words).

        Words hold neighbours of a row, and lines are rows; or with `down` of a column, and lines are columns.
        """
        lines, along = (self.columns, self.rows) if down else (self.rows, self.columns)
        lines, along = lines[:: self.packed], along[:: self.packed] // self.packed  # (registers, lanes)
        index = np.zeros((int(lines.max()) + 1, int(along.max()) + 1), np.intp)
        index[lines, along] = np.arange(len(lines))[:, None] * warps * WARP + np.arange(WARP)
        return index + WARP * np.arange(warps)[:, None, None]

    def places(self, warps: int) -> Array:
        """For each register of each thread the place of its word among those of all matrices: (registers, threads)."""
        words = self.words(warps)
        places = np.empty(words.size, np.intp)
        places[words.ravel()] = np.arange(words.size)
        return places.reshape(-1, warps * WARP)


# Elements in a register of 32 bits.
_PACKED = {"f16": 2, "bf16": 2, "e4m3": 4, "e5m2": 4, "s8": 4, "u8": 4}
# All numbers of 16 bits as float64: looking them up is faster than numpy's conversion.
_HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)
_RESULTS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def fragments(shape: str, kind: str, result: str) -> tuple[Fragment, Fragment, Fragment]:
    """The layouts of A, B and the accumulator, from the figures of the PTX manual."""
    m, k = int(shape[1 : shape.index("n")]), int(shape[shape.index("k") + 1 :])
    packed = _PACKED.get(kind, 1)
    halves, steps = m // 8, k // (4 * packed)
    # A: registers go down the rows in steps of 8, then along k; B: along k; the accumulator: pairs, then down the rows.
    a = [(8 * h, 4 * packed * s + j) for s in range(steps) for h in range(halves) for j in range(packed)]
    b = [(4 * packed * s + j, 0) for s in range(steps) for j in range(packed)]
    c = [(8 * h, j) for h in range(halves) for j in range(2)]
    return (
        Fragment(*_spread(a, _GROUP, packed * _MEMBER), packed),
        Fragment(*_spread(b, packed * _MEMBER, _GROUP), packed),
        Fragment(*_spread(c, _GROUP, 2 * _MEMBER), _PACKED.get(result, 1)),
    )


@lru_cache(maxsize=64)
def _indices(shape: str, kind: str, result: str, warps: int) -> tuple[Array, Array, Array, Array]:
    """Where the words of A, B (by columns) and the accumulator are among registers, and where those of a result go."""
    a, b, c = fragments(shape, kind, result)
    return a.words(warps), b.words(warps, down=True), c.words(warps), c.places(warps)


def _spread(corners: list[tuple[int, int]], rows: Array, columns: Array) -> tuple[Array, Array]:
    return (
        np.stack([rows + corner[0] for corner in corners]),
        np.stack([columns + corner[1] for corner in corners]),
    )


def values_of(registers: Array, kind: str) -> Array:
    """The elements in registers (..., registers) as float64, (..., registers * packed)."""
    match kind:
        case "tf32":
            elements = truncate_tf32(registers)
        case "bf16":
            elements = decode_bf16(registers.view(np.uint16))
        case "f16":
            return _HALVES.take(registers.view(np.uint16))
        case "e4m3" | "e5m2":
            elements = decode_fp8(registers.view(np.uint8), kind)
        case "s8" | "u8":
            elements = registers.view(np.int8 if kind == "s8" else np.uint8)
        case _:
            elements = registers
    return elements.astype(np.float64)


def _multiply(instruction: Instruction, block: Block) -> Step:
    saturates = "satfinite" in parts(instruction)
    _, _, _, shape, _, _, result, *factors, _ = [part for part in parts(instruction) if part != "satfinite"]
    layouts = fragments(shape, factors[0], result)
    operands = [flatten([operand]) for operand in instruction.operands]
    counts = [len(layout.rows) // layout.packed for layout in (layouts[2], *layouts)]
    if [len(registers) for registers in operands] != counts:
        raise PtxError(f"{instruction.opcode} needs {counts} registers")
    register_kinds = ["f64" if kind == "f64" else "b32" for kind in factors]
    register_kinds.append("b32" if result == "f16" else result)
    sources = [
        [block.source(register, part) for register in registers]
        for registers, part in zip(operands[1:], register_kinds, strict=True)
    ]
    writers = [block.destination(target, register_kinds[2]) for target in operands[0]]
    names, written = block.names(*flatten(instruction.operands[1:])), block.names(*operands[0])
    *indices, places = _indices(shape, factors[0], result, block.warps)

    def step(mask: Mask | None) -> None:
        warps = active_warps(block, mask, instruction.opcode)
        unknown, cause = None, ""
        if block.unknown_in(names, mask) is not None:
            unknown, cause = _unknown_results(block, operands[1:], layouts), block.explain(names)
        a, b, c = (
            values_of(np.concatenate(registers).take(index if mask is None else index[warps]), part)
            for registers, index, part in zip(sources, indices, (*factors, result), strict=True)
        )  # (warps, lines, elements)
        total = sum_products(a, b.swapaxes(1, 2), c, factors[0], result, block)
        product = round_sum(total, result, saturates=saturates)
        if mask is not None:
            everyone = np.zeros((block.warps, *product.shape[1:]), product.dtype)
            everyone[warps] = product
            product = everyone
        words = product.view(DTYPES[register_kinds[2]]).take(places)  # (registers, threads)
        for word, write in zip(words, writers, strict=True):
            write(word, mask)
        for i, name in enumerate(written):
            if unknown is None:
                block.mark_written(name, mask)
                continue
            first = i * layouts[2].packed
            rows, columns = (part[first : first + layouts[2].packed] for part in (layouts[2].rows, layouts[2].columns))
            block.mark_written(name, mask, unknown[:, rows, columns].any(axis=1).ravel(), cause)

    return step


def sum_products(a: Array, b: Array, c: Array, kind: str, result: str, block: Block) -> Array:
    """The product a b + c in float64, or in a pessimistic launch as a GPU's tensor cores cut it off on the way."""
    if block.mode.pessimistic:
        return add_products(a, b, c, kind=kind, result=result, target=block.program.target)
    return np.asarray(a @ b + c)


def round_sum(total: Array, result: str, *, saturates: bool) -> Array:
    """Sums in float64 as the type of the accumulator; integers, which are exact, saturate or wrap around."""
    if result == "s32":
        limits = np.iinfo(np.int32)
        return (np.clip(total, limits.min, limits.max) if saturates else total).astype(np.int64).astype(np.int32)
    return total.astype(_RESULTS[result])


def _unknown_results(block: Block, operands: list[list[Operand]], layouts: tuple[Fragment, ...]) -> Array:
    """The elements of a product that are unknown, (warps, rows, columns): if any element that they sum up is."""
    parts = []
    for registers, layout in zip(operands, layouts, strict=True):
        masks = [block.unknown_in(block.names(register), None) for register in registers]
        filled = [np.zeros(block.threads, np.bool_) if mask is None else mask for mask in masks]
        elements = np.repeat(np.stack(filled, axis=1), layout.packed, axis=1)
        parts.append(elements.reshape(block.warps, -1)[:, layout.index()])
    a, b, c = parts
    return np.asarray(a.any(axis=2, keepdims=True) | b.any(axis=1, keepdims=True) | c)


def _load_matrices(instruction: Instruction, block: Block) -> Step:
    """ldmatrix: 8x8 matrices of 16-bit elements; eight lanes give the addresses of the rows of each."""
    modifiers = parts(instruction)
    count = int(modifiers[4].removeprefix("x"))
    transposed = "trans" in modifiers
    targets = flatten(instruction.operands[:1])
    if len(targets) != count:
        raise PtxError(f"{instruction.opcode} needs {count} registers")
    locate = block.address(instruction.operands[1])
    writers = [block.destination(target, "b32") for target in targets]
    written = block.names(*targets)

    lane = np.arange(WARP)

    def step(mask: Mask | None) -> None:
        active_warps(block, mask, instruction.opcode)
        threads, addresses = locate(mask)
        rows = addresses.reshape(-1, WARP)
        given, givers = (part.reshape(-1, WARP)[:, : 8 * count].ravel() for part in (addresses, threads))
        block.shared.check_alignment(given, 16, givers)
        # Each lane receives four bytes of a row of each matrix; the rows' addresses come from other lanes.
        if block.deferred is not None:
            found = block.shared.load_rows(given, givers, block.pc)  # the same words, whoever receives them
            words = np.ascontiguousarray(found.reshape(-1, count, WARP).swapaxes(0, 1)).ravel()
        else:
            lanes = 8 * np.arange(count)[:, None] + lane // 4  # (matrices, lanes)
            places = rows[:, lanes].swapaxes(0, 1) + 4 * (lane % 4)  # (matrices, warps, lanes)
            (words,) = block.shared.load(places.ravel(), 4, 1, np.tile(threads, count), block.pc)
        if transposed:
            elements = words.view(np.uint16).reshape(-1, 8, 8).swapaxes(1, 2)
            words = np.ascontiguousarray(elements).view(np.uint32)
        for write, word in zip(writers, words.reshape(count, -1), strict=True):
            write(spread(word, threads, block.threads), mask)
        for name in written:
            block.mark_written(name, mask)

    return step


def _store_matrices(instruction: Instruction, block: Block) -> Step:
    """stmatrix: the reverse of ldmatrix."""
    modifiers = parts(instruction)
    count = int(modifiers[4].removeprefix("x"))
    transposed = "trans" in modifiers
    given = flatten(instruction.operands[1:])
    if len(given) != count:
        raise PtxError(f"{instruction.opcode} needs {count} registers")
    locate = block.address(instruction.operands[0])
    sources = [block.source(register, "b32") for register in given]
    names = [block.names(register) for register in given]
    lane = np.arange(WARP)

    def step(mask: Mask | None) -> None:
        active_warps(block, mask, instruction.opcode)
        threads, addresses = locate(mask)
        rows = addresses.reshape(-1, WARP)
        given_rows = rows[:, : 8 * count].ravel()
        block.shared.check_alignment(given_rows, 16, threads.reshape(-1, WARP)[:, : 8 * count].ravel())
        for i, source in enumerate(sources):
            unknown = block.unknown_in(names[i], mask)
            bits = source if unknown is None else np.where(unknown, np.uint32(0xFFFFFFFF), source)
            words = np.ascontiguousarray(bits[threads])
            if transposed:
                elements = words.view(np.uint16).reshape(-1, 8, 8).swapaxes(1, 2)
                words = np.ascontiguousarray(elements).view(np.uint32).ravel()
            places = rows[:, 8 * i + lane // 4] + 4 * (lane % 4)
            block.shared.store(places.ravel(), 4, [words], threads, block.pc)

    return step


TABLE: dict[str, Binder] = {
    "mma.sync.aligned.m16n8k{4,8}.row.col.f32.tf32.tf32.f32": _multiply,
    "mma.sync.aligned.m16n8k{8,16}.row.col.f32.{f16.f16,bf16.bf16}.f32": _multiply,
    "mma.sync.aligned.m16n8k{8,16}.row.col.f16.f16.f16.f16": _multiply,
    "mma.sync.aligned.m16n8k32.row.col.f32.{e4m3,e5m2}.{e4m3,e5m2}.f32": _multiply,
    "mma.sync.aligned.m16n8k{16,32}.row.col[.satfinite].s32.{s8,u8}.{s8,u8}.s32": _multiply,
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64": _multiply,
    "mma.sync.aligned.m16n8k{4,8,16}.row.col.f64.f64.f64.f64": _multiply,
    "ldmatrix.sync.aligned.m8n8.x{1,2,4}[.trans].shared[::cta].b16": _load_matrices,
    "stmatrix.sync.aligned.m8n8.x{1,2,4}[.trans].shared[::cta].b16": _store_matrices,
}
