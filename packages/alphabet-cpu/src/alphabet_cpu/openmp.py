"""OpenMP, by which torch counts its threads: it has a number for each thread, where torch has one for the process.

`torch.set_num_threads` writes both. A thread whose first operation falls between two such calls would keep what the
process's number was in between.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch

# In torch's own library where it comes with MKL; a thread's number, zero for none of its own, as it was before.
PRODUCTS = "MKL_Set_Num_Threads_Local"
LIBRARIES = ("libgomp*", "libiomp5*", "libomp*")


@cache
def find_setter() -> Callable[[int], object] | None:
    """OpenMP's function that sets the calling thread's number, or None if torch's OpenMP cannot be found."""
    folder = Path(torch.__file__).parent / "lib"
    for path in [*(path for name in LIBRARIES for path in sorted(folder.glob(name))), Path("libgomp.so.1")]:
        try:
            set_threads: Callable[[int], object] = ctypes.CDLL(str(path)).omp_set_num_threads
        except (OSError, AttributeError):
            continue
        if is_obeyed(set_threads):
            return set_threads
    return None


def is_obeyed(set_threads: Callable[[int], object]) -> bool:
    """Whether torch does what this library is told: a process may hold more than one OpenMP."""
    threads = torch.get_num_threads()
    try:
        set_threads(threads + 1)
        return torch.get_num_threads() == threads + 1
    finally:
        set_threads(threads)


@contextmanager
def one_product_thread() -> Iterator[None]:
    """Let matrix products of this thread take no other: MKL, which has a number of its own, adds up otherwise by many.

    Without MKL nothing is set.
    """
    set_threads = find_product_setter()
    if set_threads is None:
        yield
        return
    kept = 0
    try:
        kept = set_threads(1)
        yield
    finally:
        set_threads(kept)


@cache
def find_product_setter() -> Callable[[int], int] | None:
    """MKL's function that sets the calling thread's number and returns what it was, or None without MKL."""
    for path in sorted((Path(torch.__file__).parent / "lib").glob("*torch_cpu*")):
        try:
            set_threads: Callable[[int], int] = getattr(ctypes.CDLL(str(path)), PRODUCTS)
        except (OSError, AttributeError):
            continue
        return set_threads
    return None
