"""Products of a warp group (wgmma): four warps multiply matrices in shared memory, asynchronously.

A product is computed from its operands as they are when it starts; its registers get the result when it is waited for,
and have no value until then. A product may add to the result of one that is still under way. Operands in registers that
were changed after the last wgmma.fence, or changed while a product may still read them, are an error; shared memory
that is written meanwhile is a race. How products are rounded is said in `matrices`.
"""

from dataclasses import dataclass

import numpy as np

from alphabet_ptx.datatypes import WARP, Array, Mask
from alphabet_ptx.elementwise import flatten, parts
from alphabet_ptx.errors import PtxError
from alphabet_ptx.machine import Binder, Block, Step
from alphabet_ptx.matrices import fragments, round_sum, sum_products, values_of
from alphabet_ptx.products import WARPS, Product, Products
from alphabet_ptx.program import Instruction, Vector
from alphabet_ptx.proxies import Reading
from alphabet_ptx.tiles import GROUP, Descriptor, accumulator, assemble


@dataclass(frozen=True)
class Shape:
    """What an opcode says of a product: columns and depth, the types of the result and the operands."""

    n: int
    k: int
    result: str
    kinds: tuple[str, str]
    saturates: bool

    @property
    def registers(self) -> int:
        """The number of registers of the accumulator."""
        return self.n // 4 if self.result == "f16" else self.n // 2


def _parse_shape(instruction: Instruction) -> Shape:
    _, _, _, _, shape, result, first, second, *rest = parts(instruction)
    n, k = shape[4:].split("k")
    return Shape(int(n), int(k), result, (first, second), saturates=bool(rest))


class Multiply:
    """wgmma.mma_async, bound to its operands."""

    def __init__(self, instruction: Instruction, block: Block) -> None:
        self.opcode = instruction.opcode
        self.block = block
        self.shape = _parse_shape(instruction)
        self.products = block.unit(Products)
        target, first, second, scale, *flags = instruction.operands
        self.targets = tuple(block.register(each) for each in flatten([target]))
        self.operands = tuple(block.register(each) for each in flatten([first])) if isinstance(first, Vector) else ()
        if len(self.targets) != self.shape.registers or len(self.operands) not in (0, 4):
            raise PtxError(f"{self.opcode} needs {self.shape.registers} registers, and 4 of A or a descriptor")
        self.descriptors = [(each, block.source(each, "b64")) for each in (first, second)[bool(self.operands) :]]
        self.adds = block.source(scale, "pred")
        self.adds_name = block.names(scale)
        numbers = [int(block.source(flag, "s32")[0]) for flag in flags]
        halves = self.shape.kinds[0] in ("f16", "bf16")
        real = self.shape.result != "s32"
        if len(numbers) != 2 * real + halves * (1 + (not self.operands)):
            raise PtxError(f"{self.opcode} with these operands is not covered")
        self.signs = numbers[:2] if real else [1, 1]
        *_, self.transposed_a, self.transposed_b = [0, 0, *numbers[2:]]

    def __call__(self, mask: Mask | None) -> None:
        products, block = self.products, self.block
        groups = products.groups(mask, self.opcode)
        block.require([*self.adds_name, *block.names(*(each for each, _ in self.descriptors))], mask, "an operand")
        for group in groups:
            before = products.find_accumulator(self.targets, group)
            products.require_fence(self.operands if before is not None else self.targets + self.operands, group)
            readings, operand_bits = [], products.registers(group)[products.numbers(self.operands)]
            if self.operands:
                self._require(self.operands, group)
                a = self._from_registers(operand_bits)
            else:
                a, reading = self._from_memory(0, 64, group)
                readings.append(reading)
            b, reading = self._from_memory(1, self.shape.n, group)
            readings.append(reading)
            bits = self._multiply(a, b, self._accumulator(before, group))
            products.issue(Product(self.targets, bits, tuple(readings), self.operands, operand_bits), group)

    def _require(self, names: tuple[str, ...], group: int) -> None:
        mask = np.zeros(self.block.threads, np.bool_)
        mask[group * GROUP : (group + 1) * GROUP] = True
        self.block.require(list(names), mask, f"an operand of {self.opcode}")

    def _uniform(self, values: Array, group: int, what: str) -> int:
        """The value that all threads of a warp group have."""
        own = values[group * GROUP : (group + 1) * GROUP]
        if (own != own[0]).any():
            raise PtxError(
                f"{self.opcode} needs the same {what} in all threads of the warp group",
                thread=int(np.argmax(own != own[0])),
            )
        return int(own[0])

    def _from_registers(self, bits: Array) -> Array:
        """A from the registers of the threads, each warp's 16 rows laid out as for mma: (64, k)."""
        kind = self.shape.kinds[0]
        index = fragments(f"m16n8k{self.shape.k}", kind, self.shape.result)[0].index()
        elements = values_of(np.ascontiguousarray(bits.T), kind)  # (threads, elements)
        return elements.reshape(WARPS, -1)[:, index].reshape(64, -1)

    def _from_memory(self, operand: int, extent: int, group: int) -> tuple[Array, Reading]:
        """A or B as (extent, k), and what was read. A warp reads its own rows of A, and all of B."""
        _, values = self.descriptors[operand - (2 - len(self.descriptors))]
        descriptor = Descriptor.decode(self._uniform(values, group, "descriptor"))
        transposed = bool((self.transposed_a, self.transposed_b)[operand])
        chunks = descriptor.chunks(extent, transposed=transposed)
        first = group * GROUP + np.arange(WARPS) * WARP
        if operand == 0:
            threads = np.repeat(first, chunks.size // WARPS)
            reading = self.products.proxy.read(chunks.ravel(), threads)
        else:
            threads = np.repeat(first, chunks.size)
            reading = self.products.proxy.read(np.tile(chunks.ravel(), WARPS), threads)
        words = assemble(reading.words[: chunks.size], transposed=transposed)
        return values_of(words, self.shape.kinds[operand]), reading

    def _accumulator(self, before: Array | None, group: int) -> Array:
        """What the product is added to, (64, n)."""
        if not self._uniform(self.adds, group, "scale-d"):
            return np.zeros((64, self.shape.n))
        if before is None:
            self._require(self.targets, group)
            before = self.products.registers(group)[self.products.numbers(self.targets)]
        elements = np.ascontiguousarray(before.T).view(_DTYPES[self.shape.result])  # (threads, elements)
        return elements.astype(np.float64).ravel()[accumulator(self.shape.n).index()]

    def _multiply(self, a: Array, b: Array, c: Array) -> Array:
        """The bits of the registers of a b + c."""
        factors = (a * self.signs[0], (b * self.signs[1]).T)
        total = sum_products(*factors, c, self.shape.kinds[0], self.shape.result, self.block)
        rounded = round_sum(total, self.shape.result, saturates=self.shape.saturates)
        layout = accumulator(self.shape.n)
        elements = rounded[layout.rows, layout.columns].T  # (threads, elements)
        return np.ascontiguousarray(elements).view(np.uint32).T


_DTYPES = {"f32": np.float32, "f16": np.float16, "s32": np.int32}


def _fence(instruction: Instruction, block: Block) -> Step:
    products = block.unit(Products)

    def step(mask: Mask | None) -> None:
        for group in products.groups(mask, instruction.opcode):
            products.queues[group].fenced = products.registers(group).copy()

    return step


def _commit(instruction: Instruction, block: Block) -> Step:
    products = block.unit(Products)

    def step(mask: Mask | None) -> None:
        for group in products.groups(mask, instruction.opcode):
            queue = products.queues[group]
            queue.groups.append(queue.open)
            queue.open = []

    return step


def _wait(instruction: Instruction, block: Block) -> Step:
    products = block.unit(Products)
    remaining = int(block.source(instruction.operands[0], "u32")[0])

    def step(mask: Mask | None) -> None:
        for group in products.groups(mask, instruction.opcode):
            products.wait(group, remaining)

    return step


_N = "{" + ",".join(str(n) for n in range(8, 257, 8)) + "}"
_INTEGER_N = "{8,16,24," + ",".join(str(n) for n in range(32, 257, 16)) + "}"

TABLE: dict[str, Binder] = {
    f"wgmma.mma_async.sync.aligned.m64n{_N}k16.f32.{{f16.f16,bf16.bf16}}": Multiply,
    f"wgmma.mma_async.sync.aligned.m64n{_N}k16.f16.f16.f16": Multiply,
    f"wgmma.mma_async.sync.aligned.m64n{_N}k8.f32.tf32.tf32": Multiply,
    f"wgmma.mma_async.sync.aligned.m64n{_N}k32.{{f32,f16}}.{{e4m3,e5m2}}.{{e4m3,e5m2}}": Multiply,
    f"wgmma.mma_async.sync.aligned.m64n{_INTEGER_N}k32.s32.{{s8,u8}}.{{s8,u8}}[.satfinite]": Multiply,
    "wgmma.fence.sync.aligned": _fence,
    "wgmma.commit_group.sync.aligned": _commit,
    "wgmma.wait_group.sync.aligned": _wait,
}
