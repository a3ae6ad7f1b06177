"""The vector arithmetic against numpy."""

import numpy as np
import pytest
from alphabet_cpu.kernels.arithmetic import allocate, clear, copy, sigmoid
from alphabet_cpu.kernels.lanes import broadcast, load, splat, store, total
from alphabet_cpu.kernels.products import Rows, accumulate_outer, multiply_rows
from hypothesis import given
from hypothesis import strategies as st
from numba import njit


@njit
def apply_sigmoid(x, out):
    for i in range(0, x.size, 16):
        store(out, i, sigmoid(load(x, i)))


@njit
def combine(x, y, out):
    a, b = load(x, 0), load(y, 0)
    store(out, 0, a * b + 2.0 * a - b * broadcast(y, 3) + splat(1.5))
    return total(a)


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_sigmoid_is_right_everywhere():
    x = np.concatenate([np.linspace(-200, 200, 1 << 14), np.linspace(-1, 1, 1 << 14)]).astype(np.float32)
    out = np.empty_like(x)
    apply_sigmoid(x, out)
    with np.errstate(over="ignore"):
        exact = 1.0 / (1.0 + np.exp(-x.astype(np.float64)))
    assert np.abs(out - exact).max() < 3e-7
    assert (out[x < -60] == 0).all()  # or x times it would grow again
    inside = np.abs(x) < 60
    # log2(e) and its product with x are rounded at exponents up to 87: 87 * 2**-24 * log(2), and some last places.
    assert (np.abs(out - exact) / exact)[inside].max() < 4e-6


def test_operators_mix_lanes_and_scalars():
    x, y, out = draw(16), draw(16, seed=1), np.empty(16, np.float32)
    found = combine(x, y, out)
    np.testing.assert_allclose(out, x * y + 2 * x - y * y[3] + 1.5, rtol=1e-5, atol=1e-6)
    assert found == pytest.approx(x.sum(), abs=1e-5)


@given(rows=st.integers(1, 40), inner=st.integers(1, 70), blocks=st.integers(1, 3))
def test_products_of_rows_are_matrix_products(rows, inner, blocks):
    count = rows + 8
    x, matrix = draw(count, inner), draw(inner, 16 * blocks, seed=1)
    out = np.full((count, 16 * blocks), 7.0, np.float32)
    multiply_rows(Rows(x.ravel(), 0, inner), matrix.ravel(), Rows(out.ravel(), 0, 16 * blocks), rows)
    np.testing.assert_allclose(out[:rows], x[:rows] @ matrix, rtol=1e-4, atol=1e-4)
    assert (out[-(-rows // 8) * 8 :] == 7.0).all()  # nothing behind the last group of eight is touched


@given(rows=st.integers(1, 150), inner=st.integers(1, 3), blocks=st.integers(1, 3))
def test_outer_products_accumulate(rows, inner, blocks):
    left, right = draw(rows, 8 * inner), draw(rows, 16 * blocks, seed=1)
    out = draw(8 * inner, 16 * blocks, seed=2)
    expected = out + left.T @ right
    accumulate_outer(Rows(left.ravel(), 0, 8 * inner), Rows(right.ravel(), 0, 16 * blocks), rows, out.ravel())
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


def test_lanes_are_copied_and_cleared():
    source, target = np.arange(96, dtype=np.float32), np.zeros(64, np.float32)
    copy(source, 33, target, 16, 32)
    assert (target[16:48] == np.arange(33, 65)).all()
    assert not target[:16].any()
    assert not target[48:].any()
    clear(source, 16, 48)
    assert (source[16:48] == 0).all()
    assert source[48] == 48


@given(count=st.integers(0, 300))
def test_a_buffer_begins_a_cache_line_and_is_zero(count):
    buffer = allocate(count)
    assert buffer.shape == (count,)
    assert buffer.ctypes.data % 64 == 0
    assert not buffer.any()
