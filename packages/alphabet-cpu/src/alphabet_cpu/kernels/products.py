"""Products with small matrices, in blocks whose sums fill the vector registers of the processor and no more."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from alphabet_cpu.compiling import inlined, kernel
from alphabet_cpu.kernels.lanes import LANES, load_lanes, multiply_into, spread, store_lanes

STRIP = 64  # rows of both factors that stay in the first-level cache


class BlockShape(NamedTuple):
    """How many rows and how many times sixteen columns of a product are summed at once."""

    rows: int
    lanes: int


def choose_block(features: str) -> BlockShape:
    """The block for a processor with these LLVM features, such as "+avx,+avx2".

    Sums, one step's lanes and a broadcast factor must fit the registers, or every multiply-add moves a sum to the stack
    and back. Sixteen lanes are one of 32 registers of AVX-512, two of 16 of AVX2, four of 32 of NEON or of 16 of SSE.
    """
    present = set(features.split(","))
    if "+avx512f" in present:
        return BlockShape(rows=8, lanes=2)  # 16 sums, 2 lanes
    if "+avx2" in present or "+neon" in present:
        return BlockShape(rows=4, lanes=1)  # 8 sums, 2 lanes; NEON: 16 and 4
    return BlockShape(rows=2, lanes=1)  # 8 sums, 4 lanes


BLOCK = choose_block(cpu_target.target_context.codegen()._tm_features)


class Rows(NamedTuple):
    """Rows of so many columns, one after the other, that begin at `start` of a flat buffer."""

    buffer: Any
    start: Any
    columns: Any


class Factors(NamedTuple):
    """The left side of a product: number k of row i is values[start + i * row_stride + k * stride]."""

    values: Any
    start: Any
    row_stride: Any
    stride: Any


class Block(NamedTuple):
    """A block of a matrix: row i has sixteen columns at start + i * columns, and sixteen more `second` further on.

    Without those `second` is zero.
    """

    values: Any
    start: Any
    columns: Any
    second: Any


@contextmanager
def for_range_as_written(builder: Any, count: Any) -> Iterator[Any]:
    """`cgutils.for_range`, which LLVM is told not to unroll.

    For some processors it would take two steps at once and load factors early, and sums would leave the registers.
    """
    with cgutils.for_range(builder, count) as loop:
        yield loop
        latch = builder.block
    module = builder.module
    identity = module.add_metadata([ir.MetaDataString(module, f"loop {len(module.metadata)}")])
    identity.operands = (identity, module.add_metadata([ir.MetaDataString(module, "llvm.loop.unroll.disable")]))
    latch.terminator.set_metadata("llvm.loop", identity)


def make_outer_products(shape: BlockShape) -> Any:
    """The function that adds outer products to one block of such a shape; every product of the kernels runs through it.

    However a product is cut into blocks, each sum is added up in the same order: results are the same bit by bit.
    """

    @intrinsic
    def add_outer_products(_typing, left, right, steps, out, fresh):
        """Add products of `steps` numbers of each row (Factors) with rows (Block) to the rows of out (Block).

        If `fresh`, what `out` holds is overwritten instead.
        """

        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            def read(argument: int, *names: str) -> list[Any]:
                kind = signature.args[argument]
                fields = [builder.extract_value(given[argument], kind.fields.index(name)) for name in names]
                kinds = [kind.types[kind.fields.index(name)] for name in names]
                return [context.cast(builder, *each, types.intp) for each in zip(fields, kinds, strict=True)]

            def address(argument: int) -> Any:
                kind = signature.args[argument]
                array = builder.extract_value(given[argument], kind.fields.index("values"))
                return context.make_array(kind.types[kind.fields.index("values")])(context, builder, value=array).data

            start, row_stride, stride = read(0, "start", "row_stride", "stride")
            matrix_start, matrix_columns, matrix_second = read(1, "start", "columns", "second")
            out_start, out_columns, out_second = read(3, "start", "columns", "second")
            place = [(row, lane) for row in range(shape.rows) for lane in range(shape.lanes)]

            def number(value: int) -> Any:
                return ir.Constant(start.type, value)

            def out_address(row: int, lane: int) -> Any:
                offset = builder.add(builder.mul(out_columns, number(row)), builder.mul(out_second, number(lane)))
                return builder.gep(address(3), [builder.add(out_start, offset)])

            sums = {each: cgutils.alloca_once(builder, ir.VectorType(ir.FloatType(), LANES)) for each in place}
            with builder.if_else(context.cast(builder, given[4], signature.args[4], types.boolean)) as (anew, further):
                with anew:
                    for each in place:
                        builder.store(spread(builder, ir.Constant(ir.FloatType(), 0.0)), sums[each])
                with further:
                    for each in place:
                        builder.store(load_lanes(builder, out_address(*each)), sums[each])
            rows = [
                builder.gep(address(0), [builder.add(start, builder.mul(row_stride, number(row)))])
                for row in range(shape.rows)
            ]
            count = context.cast(builder, given[2], signature.args[2], types.intp)
            with for_range_as_written(builder, count) as step:
                row = builder.gep(address(1), [builder.add(matrix_start, builder.mul(step.index, matrix_columns))])
                offsets = [builder.mul(matrix_second, number(lane)) for lane in range(shape.lanes)]
                matrix = [load_lanes(builder, builder.gep(row, [offset])) for offset in offsets]
                factor_offset = builder.mul(step.index, stride)
                for row, lane in place:
                    if lane == 0:
                        factor = spread(builder, builder.load(builder.gep(rows[row], [factor_offset])))
                    multiply_into(builder, sums[row, lane], factor, matrix[lane])
            for each in place:
                store_lanes(builder, builder.load(sums[each]), out_address(*each))
            return context.get_dummy_value()

        return types.void(left, right, steps, out, fresh), generate

    return add_outer_products


BLOCK_ROWS, BLOCK_LANES = BLOCK
add_outer_products = make_outer_products(BLOCK)
add_last_products = make_outer_products(BlockShape(BLOCK_ROWS, 1))  # of the last sixteen columns, where they are odd


@inlined
def add_products(left, right, steps, out, fresh):
    """Add outer products to a block of so many lanes as it has left."""
    if BLOCK_LANES == 1 or right.second > 0:
        add_outer_products(left, right, steps, out, fresh)
    else:
        add_last_products(left, right, steps, out, fresh)


@kernel
def multiply_rows(left, matrix, out, count):
    """Set the first `count` of the rows `out` to those of `left` times the flat matrix (left.columns, out.columns).

    `count` is rounded up to whole blocks of at most eight rows, for which both must have room. `out.columns` is a
    multiple of sixteen.
    """
    inner, columns = left.columns, out.columns
    for v in range(0, columns, BLOCK_LANES * LANES):
        second = LANES if v + LANES < columns else 0
        for t in range(0, count, BLOCK_ROWS):
            add_products(
                Factors(left.buffer, left.start + t * inner, inner, 1),
                Block(matrix, v, columns, second),
                inner,
                Block(out.buffer, out.start + t * columns + v, columns, second),
                True,
            )


@kernel
def accumulate_outer(left, right, count, out):
    """Add left^T right over the first `count` rows of both to the flat matrix out (left.columns, right.columns).

    `left.columns` is a multiple of eight, `right.columns` one of sixteen.
    """
    inner, columns = left.columns, right.columns
    for t in range(0, count, STRIP):
        steps = min(STRIP, count - t)
        for v in range(0, columns, BLOCK_LANES * LANES):
            second = LANES if v + LANES < columns else 0
            for k in range(0, inner, BLOCK_ROWS):
                add_products(
                    Factors(left.buffer, left.start + t * inner + k, 1, inner),
                    Block(right.buffer, right.start + t * columns + v, columns, second),
                    steps,
                    Block(out, k * columns + v, columns, second),
                    False,
                )
