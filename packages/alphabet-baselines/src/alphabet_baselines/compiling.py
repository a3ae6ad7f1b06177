"""What the kernels for CPUs share: how numba compiles and keeps them, channels in blocks, sequences on threads.

Only modules with kernels import this one, and they are imported where numba, of the extra [cpu], is installed.
"""

import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from alphabet_core import AlphabetError
from numba import njit
from numba.core.caching import FunctionCache
from torch import Tensor
from torch.nn import functional as F

Array = np.ndarray[Any, Any]
OPERATIONS_PER_THREAD = 1 << 18  # some 100 us of arithmetic: to start a thread takes as long as a fifth of it
CANNOT_KEEP = "alphabet-baselines: compiled kernels could not be kept ({error}): every process will compile them again"
_said: set[str] = set()


class KernelCache(FunctionCache):  # type: ignore[misc]  # numba has no types
    """Numba's files of compiled code, of which damaged ones are as good as absent, and a full disk is no error."""

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The compiled code kept for these types, or None."""
        try:
            return super().load_overload(signature, context)
        except Exception:  # numba unpickles whatever the file holds: anything may come of it
            self._try(self.flush)
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep compiled code, where that is possible."""
        self._try(lambda: super(KernelCache, self).save_overload(signature, compiled))

    def _try(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            if CANNOT_KEEP not in _said:
                _said.add(CANNOT_KEEP)
                print(CANNOT_KEEP.format(error=error.strerror or error), file=sys.stderr, flush=True)


def compile_kernel(function: Any, **options: Any) -> Any:
    """The function, compiled on its first call and kept on disk where there is a place for it.

    Numba looks at one file to see whether its compiled code is still good, so kernels that call each other share one.
    """
    compiled = njit(function, nogil=True, error_model="numpy", **options)
    try:
        compiled._cache = KernelCache(function)
    except RuntimeError:  # numba found no directory that it may write to
        return compiled
    return compiled


def check_shape(name: str, tensor: Tensor, shape: Sequence[int], dtype: torch.dtype) -> None:
    """Refuse what kernels would read past the end of or as another dtype: they trust the first shapes that they see."""
    if tensor.shape != torch.Size(shape) or tensor.dtype != dtype:
        found = f"{tuple(tensor.shape)}, {tensor.dtype}"
        raise AlphabetError(f"{name} must have shape {tuple(shape)} and dtype {dtype}; got {found}")


def as_array(values: Tensor) -> Array:
    """The values in one piece of memory; the tensor's own where they are."""
    array: Array = values.detach().resolve_neg().contiguous().numpy()
    return array


def split_channels(values: Tensor, block: int) -> Array:
    """An array (..., K, block) of the channels, which are last; the last block is filled up with zeros."""
    missing = -values.shape[-1] % block
    padded = as_array(F.pad(values, (0, missing)) if missing else values)
    return padded.reshape(*padded.shape[:-1], -1, block)


def join_channels(blocks: Array, channels: int) -> Tensor:
    """The channels (..., C) of what `split_channels` gave."""
    return torch.from_numpy(blocks).flatten(-2)[..., :channels]


def run_sequences(kernel: Callable[..., None], shared: Sequence[Array], own: Sequence[Array], operations: int) -> None:
    """Run `kernel(*shared, *own)` on all sequences, shares of them on each of torch's threads.

    own: arrays whose first axis counts sequences. operations: how many the whole takes, of which a thread has enough.
    """
    sequences = own[0].shape[0]
    threads = max(1, min(torch.get_num_threads(), sequences, operations // OPERATIONS_PER_THREAD))
    failures: list[BaseException] = []

    def run(thread: int) -> None:
        share = slice(thread * sequences // threads, (thread + 1) * sequences // threads)
        try:
            kernel(*shared, *(array[share] for array in own))
        except BaseException as error:
            failures.append(error)

    others = [threading.Thread(target=run, args=(thread,)) for thread in range(1, threads)]
    for other in others:
        other.start()
    run(0)
    for other in others:
        other.join()
    if failures:
        raise failures[0]
