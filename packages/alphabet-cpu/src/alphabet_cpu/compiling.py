"""`kernel`: how this package's functions are compiled, and how they are kept on disk until any source changes."""

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import alphabet_core
from numba import njit
from numba.core.caching import IndexDataCacheFile

NOT_KEPT = (
    "alphabet-cpu: found no directory to keep compiled kernels in, so every process compiles them again; "
    "set NUMBA_CACHE_DIR to a directory that can be written"
)
_said = False


def stamp_sources(packages: Sequence[Path]) -> str:
    """A digest of every source below the directories of some packages."""
    digest = hashlib.sha256()
    for package in packages:
        for file in sorted(package.rglob("*.py")):
            digest.update(f"{package.name}/{file.relative_to(package).as_posix()}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


# Numba itself looks at the one file that a function is in. But kernels call each other across files, and freeze
# constants of the core: whatever changes in either package, they must be compiled again. Its own index has the rest:
# its version, which fixes LLVM's, and the processor with its features.
STAMP = stamp_sources([Path(__file__).parent, Path(alphabet_core.__file__).parent])


class KernelFile(IndexDataCacheFile):  # type: ignore[misc]  # numba has no types
    """Where one function's compiled code is kept, safe for processes that compile at the same time.

    Numba's own writes the index first and numbers the data files. A process that looks in between finds the fresh index
    and, under the same number, code that was compiled from older sources. Here data comes first, and the name of its
    file is a digest of what it was compiled from and for: no other code is ever written there.
    """

    def save(self, key: tuple[Any, Any, Any], data: Any) -> None:
        """Keep compiled code; `key` holds the argument types, the processor, and a digest of the bytecode."""
        digest = hashlib.sha256(repr((self._source_stamp, key)).encode()).hexdigest()
        name = self._data_name(int(digest[:12], 16))
        self._save_data(name, data)
        self._save_index({**self._load_index(), key: name})


def kernel(function: Any) -> Any:
    """The function, compiled on its first call with the interpreter's lock released.

    There is no fast-math: sums are added up in the order in which they are written, so that results repeat bit by bit.
    """
    global _said
    options = {"nogil": True, "error_model": "numpy"}
    try:
        compiled = njit(function, cache=True, **options)
    except RuntimeError:  # numba can write neither to the package's directory nor to the user's
        if not _said:
            print(NOT_KEPT, file=sys.stderr, flush=True)
        _said = True
        return njit(function, **options)
    cache = compiled._cache
    cache._cache_file = KernelFile(cache._cache_path, cache._impl.filename_base, STAMP)
    return compiled
