"""OpenMP, by which torch counts its threads: it has a number for each thread, where torch has one for the process.

`torch.set_num_threads` writes both. A thread whose first operation falls between two such calls would keep what the
process's number was in between.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch

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
