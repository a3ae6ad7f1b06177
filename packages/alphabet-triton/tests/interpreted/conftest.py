"""Kernels in Triton's interpreter, which must be chosen before triton is imported: `nox -s tests` does so."""

import os
import warnings

import numpy as np
import pytest

collect_ignore_glob = [] if os.environ.get("TRITON_INTERPRET") == "1" else ["test_*.py"]


@pytest.fixture(autouse=True)
def scans_by_columns(monkeypatch):
    """Scans as Triton's interpreter computes them, to the bit, in a fraction of the calls: test_speedups.py."""
    from alphabet_testing.kernels.interpreter import scan_by_columns
    from triton.runtime.interpreter import ScanOps

    monkeypatch.setattr(ScanOps, "generic_scan", scan_by_columns)


@pytest.fixture(autouse=True)
def memory_of_nan():
    """A kernel that leaves out a store is seen, and equal launches have equal bytes in what they are about to write."""
    from alphabet_testing.kernels.chain import nan_before_it_is_written

    with nan_before_it_is_written():
        yield


@pytest.fixture(autouse=True)
def float_arithmetic_of_a_gpu():
    """The interpreter computes in numpy, which warns of overflows and NaN where a GPU goes on."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield
