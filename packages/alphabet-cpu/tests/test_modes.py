"""Rows of states: where each mode's parts lie, and that kernels take them apart and put them back."""

import numpy as np
import pytest
import torch
from alphabet_core.fused import fold_parts
from alphabet_cpu import CpuRuntime
from alphabet_cpu.compiling import kernel
from alphabet_cpu.kernels.lanes import store
from alphabet_cpu.kernels.layout import Sizes, unpack
from alphabet_cpu.kernels.modes import (
    add_modes,
    count_columns,
    group_columns,
    imaginary,
    is_narrow,
    load_modes,
    real_column,
    store_modes,
)
from alphabet_cpu.weights import fold_and_pack
from alphabet_testing.models import make_model

MODES = [1, 4, 7, 8, 9, 16, 17, 40]


@kernel
def take_apart(row, narrow, re, im, copy, twice):
    for column in range(0, row.size, group_columns(row.size)):
        parts = load_modes(row, column, narrow)
        store(re, column // 2, parts[0])
        store(im, column // 2, parts[1])
        store_modes(copy, column, narrow, parts[0], parts[1])
        add_modes(twice, column, narrow, parts[0], parts[1])


@pytest.mark.parametrize("modes", MODES)
def test_a_row_is_taken_apart_and_put_back(modes):
    columns, narrow = count_columns(modes), is_narrow(modes)
    assert columns % 16 == 0
    assert (columns == 16) == (modes <= 8)
    row = np.arange(1.0, columns + 1.0, dtype=np.float32)
    parts, copy, twice = np.full((2, max(16, columns // 2)), np.nan, np.float32), np.zeros_like(row), row.copy()
    take_apart(row, narrow, *parts, copy, twice)
    assert np.array_equal(copy, row)
    assert np.array_equal(twice, 2.0 * row)
    for m in range(modes):
        c = real_column(m, columns)
        assert (parts[0, m], parts[1, m]) == (row[c], row[c + imaginary(columns)])
    if narrow:
        assert not parts[:, 8:].any()  # nothing of other lanes gets into sums


@pytest.mark.parametrize("modes", MODES)
def test_weights_are_packed_where_kernels_look_for_them(modes):
    model = make_model(2, 2 * modes + 1, modes, 3)
    folded, (sizes, arrays) = fold_parts(model), fold_and_pack(model)
    assert isinstance(sizes, Sizes)
    packed, columns = unpack(arrays.packed, sizes), sizes.columns
    at = [real_column(m, columns) for m in range(modes)]
    at += [c + imaginary(columns) for c in at]
    transition = packed.direct.transition
    assert np.array_equal(transition[at], folded.direct.transition.detach().float().numpy())
    assert np.count_nonzero(transition) <= 2 * modes
    drive = packed.direct.drive.reshape(sizes.width, columns)[: sizes.features]
    assert np.array_equal(drive[:, at], folded.direct.drive.detach().float().numpy())


@pytest.mark.parametrize("modes", MODES)
def test_logits_are_those_of_the_reference(modes):
    model, values = make_model(2, 2 * modes + 1, modes, 3), torch.randn(3, 150, 2)
    with torch.no_grad():
        torch.testing.assert_close(CpuRuntime(model)(values), model(values), atol=2e-6, rtol=0.0)
