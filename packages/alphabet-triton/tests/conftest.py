"""Compiled kernels are for the compiler; the interpreter, where it is chosen, has its own folder."""

import os

import pytest
from alphabet_triton import dispatch

collect_ignore = ["test_compiled.py", "test_memo.py"] if os.environ.get("TRITON_INTERPRET") == "1" else []


@pytest.fixture
def pretend_gpu(monkeypatch):
    """As if Triton could launch here; where launches go is said by the device that is passed in."""
    monkeypatch.setattr(dispatch, "_machine_fallback_reason", lambda device: None)
