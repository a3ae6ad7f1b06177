"""`kernel`: how this package's functions are compiled, and how they are kept on disk until any source changes."""

import hashlib
import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import alphabet_core
from numba import njit, types
from numba.core.caching import IndexDataCacheFile
from numba.core.registry import CPUDispatcher

NOT_KEPT = (
    "alphabet-cpu: found no directory to keep compiled kernels in, so every process compiles them again; "
    "set NUMBA_CACHE_DIR to a directory that can be written"
)
DIGEST_SIZE = hashlib.sha256().digest_size
CANNOT_KEEP = (
    "alphabet-cpu: compiled kernels could not be kept ({error}), so the next process compiles them again; free some "
    "space, or set NUMBA_CACHE_DIR to a directory that can be written"
)
_said: set[str] = set()


def say_once(message: str, **details: object) -> None:
    """Print a message to stderr, the first time that it is asked for."""
    if message not in _said:
        _said.add(message)
        print(message.format(**details), file=sys.stderr, flush=True)


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
    """Where one function's compiled code is kept, safe for processes that compile at the same time, and from damage.

    Numba's own writes the index first and numbers the data files. A process that looks in between finds the fresh index
    and, under the same number, code that was compiled from older sources. Here data comes first, and the name of its
    file is a digest of what it was compiled from and for: no other code is ever written there. Every file begins with a
    digest of the rest. One that does not fit is as good as absent: the function is compiled again.
    """

    def save(self, key: tuple[Any, Any, Any], data: Any) -> None:
        """Keep compiled code; `key` holds the argument types, the processor, and a digest of the bytecode."""
        digest = hashlib.sha256(repr((self._source_stamp, key)).encode()).hexdigest()
        name = self._data_name(int(digest[:12], 16))
        try:
            self._save_data(name, data)
            self._save_index({**self._load_index(), key: name})
        except OSError as error:  # a full disk, or one that has become read-only: this process has its code
            say_once(CANNOT_KEEP, error=error.strerror or error)

    def _header(self) -> bytes:
        return f"{self._version} {self._source_stamp}\n".encode()

    def _load_index(self) -> dict[Any, str]:
        try:
            content = self._read(self._index_path)
        except OSError:
            return {}
        header = self._header()
        # Types of another version of numba may not be there to be unpickled.
        return pickle.loads(content[len(header) :]) if content.startswith(header) else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_path, self._header() + self._dump(overloads))

    def _load_data(self, name: str) -> Any:
        return pickle.loads(self._read(self._data_path(name)))

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), self._dump(data))

    def _read(self, path: str) -> bytes:
        """What `_write` was given; an OSError if the file is absent, unreadable or damaged."""
        content = Path(path).read_bytes()
        digest, content = content[:DIGEST_SIZE], content[DIGEST_SIZE:]
        if hashlib.sha256(content).digest() != digest:
            raise OSError(f"{path} is damaged")
        return content

    def _write(self, path: str, content: bytes) -> None:
        with self._open_for_write(path) as file:
            file.write(hashlib.sha256(content).digest() + content)


def holds_array(kind: Any) -> bool:
    """Whether values of a numba type are arrays, or tuples with arrays in them."""
    return isinstance(kind, types.Array) or (isinstance(kind, types.BaseTuple) and any(map(holds_array, kind)))


class Kernel(CPUDispatcher):  # type: ignore[misc]  # numba has no types
    """A compiled function that is the same whether a kernel calls it with a constant or with a variable.

    Numba's own is compiled anew for every constant that an argument takes: `lift` twice, `wait_until` eight times.
    """

    def compile(self, sig: Any) -> Any:
        """Compile for a signature; an array may be returned only where its references are counted."""
        entry = super().compile(sig)
        for compiled in self.overloads.values():
            returned = compiled.signature.return_type
            if not self.targetoptions["_nrt"] and holds_array(returned):
                raise TypeError(f"{self.py_func.__name__} returns {returned}: make it an array_kernel")
        return entry

    def get_call_template(self, args: Sequence[Any], kws: dict[str, Any]) -> Any:
        """What numba asks for at a call from another kernel, given the types of the arguments."""
        plain = {name: types.unliteral(kind) for name, kind in kws.items()}
        return super().get_call_template(tuple(map(types.unliteral, args)), plain)


def inlined(function: Any) -> Any:
    """The function as a part of every kernel that calls it: for what has a name to be read by.

    Each kernel of its own is optimized once by itself and once more in every kernel around it.
    """
    return njit(function, inline="always")


def kernel(function: Any) -> Any:
    """The function, compiled on its first call with the interpreter's lock released.

    There is no fast-math: sums are added up in the order in which they are written, so that results repeat bit by bit.
    Arrays are the caller's and may be neither made nor returned: no references are counted. Numba would count some in
    inner loops, where a call for every token costs as much as all else and empties the vector registers.
    """
    return _compile(function, counted=False)


def array_kernel(function: Any) -> Any:
    """The same for a function that makes arrays, or returns views of them: references are counted."""
    return _compile(function, counted=True)


def _compile(function: Any, *, counted: bool) -> Any:
    options = {"nopython": True, "nogil": True, "error_model": "numpy", "_nrt": counted}
    compiled = Kernel(function, targetoptions=options)
    try:
        compiled.enable_caching()
    except RuntimeError:  # numba can write neither to the package's directory nor to the user's
        say_once(NOT_KEPT)
        return compiled
    cache = compiled._cache
    cache._cache_file = KernelFile(cache._cache_path, cache._impl.filename_base, STAMP)
    return compiled
