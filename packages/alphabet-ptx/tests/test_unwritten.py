"""Memory that nobody wrote: found by what lies in it, and refused where it would show."""

import numpy as np
import pytest
import torch
from alphabet_ptx import PtxError, ptx_device, unwritten
from alphabet_testing.ptx.driver_kernels import add_kernel, double_kernel
from hypothesis import given
from hypothesis import strategies as st


@given(size=st.integers(0, 100), start=st.integers(0, 40), written=st.sets(st.integers(0, 99)))
def test_what_is_found_is_a_plain_loop(size, start, written):
    storage = torch.zeros(200, dtype=torch.uint8)
    unwritten.fill(storage)
    octets = storage.numpy()[start : start + size]
    for place in written:
        octets[place : place + 1] ^= 1
    address = storage.data_ptr() + start
    expected = np.zeros(size, np.bool_)
    for place in range(size - 7):
        if (address + place) % 8 == 0:
            expected[place : place + 8] = not set(range(place, place + 8)) & written
    found = unwritten.find(octets, address)
    assert (expected if found is None else found).tolist() == expected.tolist()
    assert (found is None) == (not expected.any())


def test_zeros_ones_and_random_numbers_are_written():
    for values in (torch.zeros(64), torch.ones(64), torch.randn(64), torch.full((64,), -1), torch.arange(64)):
        assert unwritten.find(values.numpy().view(np.uint8), values.data_ptr()) is None


def launch(x, y):
    out = torch.zeros(64)
    add_kernel[(1,)](x, y, out, 64, 1, BLOCK=64)
    return out


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(64),
        lambda: torch.empty_like(torch.zeros(64)),
        lambda: torch.zeros(1).new_empty(64),
        lambda: torch.empty_strided((64,), (1,)),
        lambda: torch.empty(64, device="cuda"),
    ],
)
def test_a_fresh_tensor_may_be_written_but_not_read(make):
    with ptx_device():
        with pytest.raises(PtxError, match=r"stored to global memory is unknown.*to which nothing known was written"):
            launch(make(), torch.ones(64))
        fresh = make()
        launch(fresh.fill_(2.0), torch.ones(64))
        out = make()
        add_kernel[(1,)](torch.ones(64), torch.ones(64), out, 64, 1, BLOCK=64)  # writes it
        double_kernel[(1,)](out, 64, BLOCK=64)  # and now it can be read
        assert (out == 4).all()


def test_what_nobody_asks_for_does_not_matter():
    with ptx_device():
        x = torch.empty(64)
        x[:32] = 1.0
        out = torch.zeros(64)
        add_kernel[(1,)](x, torch.ones(64), out, 32, 1, BLOCK=64)
    assert out.tolist() == [2.0] * 32 + [0.0] * 32
