"""One suite for two devices: a GPU, or, where there is none, executed PTX with CUDA graphs emulated by address.

ALPHABET_GPU_SUITE=native demands the GPU, ptx demands executed PTX; by default it is the GPU if there is one. On
executed PTX a few small configurations stand for all. With ALPHABET_GPU_OUT=FOLDER what was compared is kept there.
"""

import os
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from alphabet_testing.kernels.graphs import NoHost

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from gpu_suite import Gpu, Ledger

collect_ignore_glob = ["test_*"] if os.environ.get("TRITON_INTERPRET") == "1" else []


def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: runs natively where there is a GPU, and on executed PTX elsewhere")
    config.addinivalue_line("markers", "captures: records CUDA graphs, which need torch's caching allocator")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("gpu")


@pytest.fixture(scope="session")
def suite():
    """native or ptx."""
    wanted = os.environ.get("ALPHABET_GPU_SUITE") or ("native" if torch.cuda.is_available() else "ptx")
    assert wanted in ("native", "ptx"), f"ALPHABET_GPU_SUITE must be native or ptx; got {wanted!r}"
    if wanted == "native":
        assert torch.cuda.is_available(), "ALPHABET_GPU_SUITE=native, and torch finds no CUDA device"
    return wanted


@pytest.fixture(scope="session")
def ledger():
    """What was compared, written to ALPHABET_GPU_OUT/differences.csv as it happens."""
    folder = os.environ.get("ALPHABET_GPU_OUT")
    return Ledger(Path(folder) if folder else None)


@pytest.fixture
def gpu(suite, request):
    """The device of this test: tensors go `to` it, and inside it CUDA graphs can be captured."""
    with ExitStack() as stack:
        yield Gpu(suite, stack, captures=request.node.get_closest_marker("captures") is not None)


@pytest.fixture
def without_waiting(suite):
    """A block in which asking the device for a value is an error: torch's sync debug mode, or its emulation."""
    if suite == "ptx":
        return NoHost

    class Waiting:
        def __enter__(self):
            torch.cuda.set_sync_debug_mode("error")

        def __exit__(self, *_):
            torch.cuda.set_sync_debug_mode("default")

    return Waiting
