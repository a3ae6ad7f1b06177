"""Products of warp groups under way: what they will leave in registers, and that nobody changes what they read."""

from dataclasses import dataclass, field

import numpy as np

from alphabet_ptx.collectives import active_warps
from alphabet_ptx.datatypes import WARP, Array, Mask
from alphabet_ptx.errors import PtxError, WaitError
from alphabet_ptx.machine import Block, Unit
from alphabet_ptx.proxies import AsyncProxy, Reading
from alphabet_ptx.tiles import GROUP

WARPS = GROUP // WARP  # of a warp group


@dataclass(frozen=True)
class Product:
    """A product under way: the registers it writes, their bits to be (registers, threads), and what it reads."""

    targets: tuple[str, ...]
    bits: Array
    readings: tuple[Reading, ...]
    operands: tuple[str, ...]
    operand_bits: Array


@dataclass
class Queue:
    """The products of a warp group: the open group, the groups under way; and its registers at the last fence."""

    open: list[Product] = field(default_factory=list)
    groups: list[list[Product]] = field(default_factory=list)
    fenced: Array | None = None

    def under_way(self) -> list[Product]:
        """All products that nobody has waited for, in their order."""
        return [product for group in (*self.groups, self.open) for product in group]


class Products(Unit):
    """The products under way of each warp group."""

    def __init__(self, block: Block) -> None:
        super().__init__(block)
        self.proxy = block.unit(AsyncProxy)
        self.start()

    def start(self) -> None:
        self.queues = [Queue() for _ in range(self.block.warps // WARPS)]

    def registers(self, group: int) -> Array:
        """All registers of 32 bits of a warp group, (registers, threads), as a view."""
        return self.block.files[4].view(np.uint32)[:, group * GROUP : (group + 1) * GROUP]

    def numbers(self, names: tuple[str, ...]) -> list[int]:
        """The rows of registers in `registers`."""
        return [self.block.row_numbers[name] for name in names]

    def groups(self, mask: Mask | None, opcode: str) -> list[int]:
        """The warp groups that take part, all of whose threads have to."""
        warps = active_warps(self.block, mask, opcode)
        if self.block.warps % WARPS:
            raise PtxError(f"{opcode} needs warp groups of {GROUP} threads; the block has {self.block.threads}")
        counts = np.bincount(warps // WARPS, minlength=self.block.warps // WARPS)
        partial = np.flatnonzero((counts > 0) & (counts < WARPS))
        if partial.size:
            raise WaitError(
                f"{opcode} under divergence: not all warps of the warp group reach it together",
                thread=int(partial[0]) * GROUP,
            )
        return [int(group) for group in np.flatnonzero(counts)]

    def mark(self, names: tuple[str, ...], group: int, *, known: bool) -> None:
        """Note that registers of a warp group have a value, or none until a product is waited for."""
        mask = np.zeros(self.block.threads, np.bool_)
        mask[group * GROUP : (group + 1) * GROUP] = True
        everyone = None if mask.all() else mask
        for name in names:
            self.block.mark_written(name, everyone, None if known else mask, "wgmma.mma_async was not waited for")

    def find_accumulator(self, targets: tuple[str, ...], group: int) -> Array | None:
        """The bits that a product under way will leave in these registers, or None if there is no such product."""
        for product in reversed(self.queues[group].under_way()):
            if product.targets == targets:
                return product.bits
            if not set(targets).isdisjoint(product.targets):
                raise PtxError(
                    "wgmma uses a part of the accumulator of another product that nobody has waited for",
                    thread=group * GROUP,
                )
        return None

    def require_fence(self, names: tuple[str, ...], group: int) -> None:
        """Raise unless the registers are what they were at the last wgmma.fence."""
        fenced, numbers = self.queues[group].fenced, self.numbers(names)
        if fenced is None:
            raise PtxError("wgmma.mma_async with no wgmma.fence before it", thread=group * GROUP)
        changed = (fenced[numbers] != self.registers(group)[numbers]).any(axis=1)
        if changed.any():
            raise PtxError(
                f"register {names[int(np.argmax(changed))]} was changed after the last wgmma.fence; "
                "a fence has to come between that and wgmma.mma_async",
                thread=group * GROUP,
            )

    def issue(self, product: Product, group: int) -> None:
        """Start a product."""
        self.registers(group)[self.numbers(product.targets)] = np.iinfo(np.uint32).max
        self.mark(product.targets, group, known=False)
        self.queues[group].open.append(product)

    def wait(self, group: int, remaining: int) -> None:
        """Let all groups of products end except the last `remaining`."""
        queue = self.queues[group]
        count = max(len(queue.groups) - remaining, 0)
        ended, queue.groups = queue.groups[:count], queue.groups[count:]
        products = [product for each in ended for product in each]
        for product in products:
            self._check_operands(product, group)
        waiting = {product.targets for product in queue.under_way()}
        for targets, bits in {product.targets: product.bits for product in products}.items():
            if targets not in waiting:
                self._write(targets, bits, group)

    def _check_operands(self, product: Product, group: int) -> None:
        """Check that nobody changed what a product reads before it was waited for."""
        for reading in product.readings:
            self.proxy.finish(reading)
        changed = (self.registers(group)[self.numbers(product.operands)] != product.operand_bits).any(axis=1)
        if changed.any():
            raise PtxError(
                f"register {product.operands[int(np.argmax(changed))]} was changed before the wgmma.mma_async that "
                "reads it was waited for",
                thread=group * GROUP,
            )

    def _write(self, targets: tuple[str, ...], bits: Array, group: int) -> None:
        registers, numbers, queue = self.registers(group), self.numbers(targets), self.queues[group]
        if (registers[numbers] != np.iinfo(np.uint32).max).any():
            raise PtxError("an accumulator was changed before its wgmma.mma_async was waited for", thread=group * GROUP)
        registers[numbers] = bits
        if queue.fenced is not None:
            queue.fenced[numbers] = bits  # products come after products without a fence
        self.mark(targets, group, known=True)
