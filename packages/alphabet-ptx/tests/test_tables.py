"""Addresses in tables: what a launch reaches by `data_ptr()` of other tensors."""

import gc

import numpy as np
import pytest
import torch
from alphabet_ptx import PtxError, ptx_device
from alphabet_ptx.tables import Addresses
from alphabet_testing.ptx.misuse_kernels import (
    fill_address_kernel,
    fill_table_kernel,
    follow_kernel,
    sum_table_kernel,
)


def table_of(tensors):
    return torch.tensor([tensor.data_ptr() for tensor in tensors], device="cuda")


def test_arrays_behind_a_table_are_read():
    arrays = [torch.full((8,), float(10**k)) for k in range(3)]
    with ptx_device() as device:
        out = torch.zeros(8)
        sum_table_kernel[(1,)](table_of(arrays), out, 8, COUNT=3, BLOCK=8)
    assert out.tolist() == [111.0] * 8
    assert device.report.races == []


def test_arrays_behind_a_table_are_written():
    with ptx_device():
        arrays = [torch.empty(8, device="cuda") for _ in range(3)]
        fill_table_kernel[(3,)](table_of(arrays), 8, BLOCK=8)
    assert [array.tolist() for array in arrays] == [[float(i + k) for i in range(8)] for k in range(3)]


def test_a_view_is_reached_where_it_lies():
    with ptx_device():
        whole = torch.zeros(24)
        fill_table_kernel[(2,)](table_of([whole[16:], whole[:8]]), 8, BLOCK=8)
    assert whole.tolist() == [*range(1, 9), *[0] * 8, *range(8)]


def test_an_address_is_a_number_like_others():
    with ptx_device():
        out = torch.zeros(4)
        fill_address_kernel[(1,)](out.data_ptr(), 7.0, 4, BLOCK=4)
    assert out.tolist() == [7.0] * 4


def test_tables_of_tables():
    with ptx_device():
        last, out = torch.tensor([5.0]), torch.zeros(1)
        inner = table_of([last])
        follow_kernel[(1,)](table_of([inner]), out)
    assert out.item() == 5.0


def test_a_value_behind_a_table_that_nobody_wrote_is_found():
    with ptx_device():
        arrays = [torch.empty(8)]
        with pytest.raises(PtxError, match="global memory to which nothing known was written"):
            sum_table_kernel[(1,)](table_of(arrays), torch.zeros(8), 8, COUNT=1, BLOCK=8)


def test_an_access_beyond_an_array_behind_a_table_is_out_of_range():
    with ptx_device():
        arrays = [torch.zeros(6)]
        with pytest.raises(PtxError, match=r"out of range.* 'table\[0\]', which has 24"):
            fill_table_kernel[(1,)](table_of(arrays), 8, BLOCK=8)


def test_memory_that_is_gone_is_out_of_range():
    with ptx_device():
        table = table_of([torch.zeros(100_000)])
        gc.collect()
        with pytest.raises(PtxError, match=r"out of range.*data_ptr\(\)` was called inside it and the tensor still"):
            fill_table_kernel[(1,)](table, 8, BLOCK=8)


def test_notes_of_memory_that_is_gone_are_dropped(monkeypatch):
    monkeypatch.setattr("alphabet_ptx.tables.MOST_NOTES", 4)
    addresses = Addresses()
    kept = torch.zeros(3)
    addresses.note(kept)
    for size in range(10_000, 10_020):
        addresses.note(torch.zeros(size))
    assert len(addresses.notes) <= 5
    assert list(addresses.reach({"t": np.array([kept.data_ptr() + 4, 3], np.uint64)})) == ["t[0]"]


def test_a_table_with_negative_or_small_numbers_reaches_nothing():
    addresses = Addresses()
    addresses.note(kept := torch.zeros(3))
    assert addresses.reach({"t": np.array([-1, 0, 3, 2**62], np.int64).view(np.uint64)}) == {}
    del kept
