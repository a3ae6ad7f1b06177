"""`kernel`: compiled with the interpreter's lock released, and kept on disk until any of our sources changes."""

import hashlib
import sys
from pathlib import Path
from typing import Any

import alphabet_core
from numba import njit

NOT_KEPT = "alphabet-cpu: no directory for compiled kernels can be written, so they are compiled in every process"
_told = False


def _stamp_sources() -> str:
    """Numba looks at the file of a function only; ours call each other across files and hold constants of the core."""
    core = Path(alphabet_core.__file__).parent
    files = [*sorted(Path(__file__).parent.glob("*.py")), core / "frame.py", core / "poles.py"]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


STAMP = _stamp_sources()


def kernel(function: Any) -> Any:
    """A compiled function. No fast-math: it adds in the order in which it is written, so results repeat bit by bit."""
    global _told
    options = {"nogil": True, "error_model": "numpy"}
    try:
        compiled = njit(function, cache=True, **options)
    except RuntimeError:  # neither the package's directory nor the user's can be written
        if not _told:
            print(NOT_KEPT, file=sys.stderr, flush=True)
        _told = True
        return njit(function, **options)
    compiled._cache._cache_file._source_stamp = STAMP
    return compiled
