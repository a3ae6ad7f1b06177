"""Blocks of products: the same sums in any shape, and no sum leaves its register within the inner loop."""

import re

import llvmlite.binding as llvm
import numpy as np
import pytest
from alphabet_cpu.kernels.products import Block, BlockShape, Factors, choose_block, make_outer_products
from numba import njit, types

SHAPES = [BlockShape(8, 2), BlockShape(4, 1), BlockShape(2, 1)]
# What LLVM calls a processor of each kind, and the features by which numba would describe it.
PROCESSORS = {
    "skylake-avx512": "+avx,+avx2,+avx512f,+avx512vl,+fma",
    "znver3": "+avx,+avx2,+fma",
    "x86-64": "+sse2",
}


def compile_product(shape, **options):
    """A function that writes left (rows, inner) times matrix (inner, columns), all flat, block by block."""
    add, (rows, lanes) = make_outer_products(shape), shape

    @njit(**options)
    def multiply(left, matrix, out, count, inner, columns):
        for v in range(0, columns, 16 * lanes):
            second = 16 if v + 16 < columns else 0
            for t in range(0, count, rows):
                add(
                    Factors(left, t * inner, inner, 1), Block(matrix, v, columns, second), inner,
                    Block(out, t * columns + v, columns, second), True,
                )  # fmt: skip

    return multiply


def test_processors_get_the_block_that_fits_their_registers():
    assert [choose_block(features) for features in PROCESSORS.values()] == SHAPES
    assert choose_block("+fp-armv8,+neon") == BlockShape(4, 1)
    assert choose_block("-avx512f,+avx2") == BlockShape(4, 1)  # switched off
    assert choose_block("") == BlockShape(2, 1)


def test_every_shape_adds_up_in_the_same_order():
    rng = np.random.default_rng(0)
    left, matrix = rng.standard_normal((16, 70), np.float32), rng.standard_normal((70, 48), np.float32)
    found = []
    for shape in SHAPES:
        out = np.empty((16, 48), np.float32)
        compile_product(shape)(left.ravel(), matrix.ravel(), out.ravel(), 16, 70, 48)
        np.testing.assert_allclose(out, left @ matrix, rtol=1e-4, atol=1e-4)
        found.append(out)
    assert all(np.array_equal(found[0], other) for other in found[1:])


def inner_loops(assembly):
    """The lines of every loop that has multiply-adds and no other label: from a label to the jump back to it."""
    lines = assembly.splitlines()
    labels = {line.split(":")[0]: number for number, line in enumerate(lines) if re.match(r"\.\w+:", line)}
    for end, line in enumerate(lines):
        jump = re.match(r"\s+j\w+\s+(\.\w+)", line)
        if jump and labels.get(jump[1], end) < end:
            body = lines[labels[jump[1]] + 1 : end]
            text = "\n".join(body)
            if not re.search(r"^\.\w+:", text, re.MULTILINE) and re.search(r"(add|mul)\w*ps", text):
                yield body


@pytest.mark.parametrize("processor", list(PROCESSORS))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_no_sum_leaves_its_register_within_the_inner_loop(processor, shape):
    # LLVM compiles for processors that this one is not: only the text of the assembly is looked at.
    array, number = types.float32[::1], types.intp
    multiply = compile_product(shape, no_cpython_wrapper=True, nogil=True, error_model="numpy")
    multiply.compile((array, array, array, number, number, number))
    module = llvm.parse_assembly(multiply.inspect_llvm(multiply.signatures[0]))
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=processor, features=PROCESSORS[processor], opt=3
    )
    loops = list(inner_loops(machine.emit_assembly(module)))
    assert loops
    spills = [line for body in loops for line in body if re.search(r"ps\b.*\(%rsp", line)]
    chosen = choose_block(PROCESSORS[processor])
    # The check sees what it looks for: every larger block than the chosen one does spill.
    assert bool(spills) == (shape.rows * shape.lanes > chosen.rows * chosen.lanes)
