"""Vector instructions: how both arms are restricted to AVX2, and what every part really uses."""

import contextlib
import ctypes
import os
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from typing import Any

from alphabet_audit.declare.vectors import AVX2, RESTRICTIONS, WIDER, find_disobedience
from alphabet_audit.errors import AuditError

FEATURES = "NUMBA_CPU_FEATURES"
SHOWN_FEATURES = ("avx", "fma", "neon", "sve")
ONEDNN_LINE, MKL_LINE = "info,cpu,isa:", "MKL_VERBOSE oneMKL"


def restrict_vectors(vectors: str) -> None:
    """Return if this process was started under the variables that restrict every part; else start it again under them.

    Torch, oneDNN, MKL and numba read theirs once, when they are loaded: a running process cannot be restricted.
    """
    if vectors != AVX2:
        raise AuditError(f"--vectors {vectors!r} is unknown; use {AVX2}, or leave it out for the processor's own")
    wanted = {**RESTRICTIONS, FEATURES: choose_features()}
    if all(os.environ.get(name) == value for name, value in wanted.items()):
        return
    environment = {name: value for name, value in os.environ.items() if name not in wanted}
    environment |= {name: value for name, value in wanted.items() if value is not None}
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


def choose_features() -> str:
    """The processor's LLVM features without those beyond AVX2; an error if it has no AVX2."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    if not features.get(AVX2):
        raise AuditError("--vectors avx2 needs a processor with AVX2, which this one has not")
    kept = {name: on and not name.replace("-", "").startswith((*WIDER, "evex512")) for name, on in features.items()}
    return ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(kept.items()))


def describe_vectors(restricted: str | None, *, compiled: bool) -> dict[str, Any]:
    """What a run's manifest says of vector instructions: the claim, the variables, and what each part reports.

    compiled: whether torch.compile is among what is tried; it is asked only then, for that takes seconds
    """
    import torch

    onednn, mkl = read_headers()
    return {
        "restricted": restricted,
        "variables": {name: shorten(name, os.environ.get(name)) for name in RESTRICTIONS},
        "torch": torch.backends.cpu.get_cpu_capability(),
        "onednn": onednn,
        "mkl": mkl,
        "numba": describe_numba(),
        "inductor": describe_inductor() if compiled else None,
    }


def require_vectors(vectors: dict[str, Any]) -> None:
    """Raise if what is in force is not what the command asked for."""
    for reason in find_disobedience(vectors):
        raise AuditError(reason)


def shorten(name: str, value: str | None) -> str | None:
    """The value of a variable; of numba's features, of which there are a hundred, those of vectors."""
    if value is None or name != FEATURES:
        return value
    return ",".join(each for each in value.split(",") if each[1:].startswith(SHOWN_FEATURES))


def describe_numba() -> str:
    """The processor and the features of vectors for which numba compiles in this process."""
    from numba.core.registry import cpu_target

    _, processor, features = cpu_target.target_context.codegen().magic_tuple()
    present = [each[1:] for each in features.split(",") if each.startswith("+")]
    return f"{processor}: {','.join(sorted(each for each in present if each.startswith(SHOWN_FEATURES)))}"


def describe_inductor() -> str:
    """The instructions for which torch.compile writes code, and the processor for which its compiler is asked."""
    from torch._inductor import config
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    return f"{pick_vec_isa()}, march={getattr(config.cpp, 'march', None) or 'native'}"


@cache
def read_headers() -> tuple[str | None, str | None]:
    """What oneDNN and MKL say of the processor, in their own words; None where torch has them not.

    Both print it at the first call after they were asked, once in a process.
    """
    import torch
    from torch.backends import mkl, mkldnn

    square, values = torch.zeros(64, 64), torch.zeros(4, 16, 32)

    def run() -> None:
        verbose = contextlib.ExitStack()
        if mkl.is_available():
            verbose.enter_context(mkl.verbose(mkl.VERBOSE_ON))
        if mkldnn.is_available():
            verbose.enter_context(mkldnn.verbose(mkldnn.VERBOSE_ON))
        with verbose, torch.no_grad():
            torch.mm(square, square)
            torch.nn.functional.conv1d(values, torch.zeros(16, 16, 3))

    said = capture_output(run)
    onednn = [line.partition(ONEDNN_LINE)[2] for line in said if ONEDNN_LINE in line]
    mkl_line = [line for line in said if line.startswith(MKL_LINE)]
    # "MKL_VERBOSE oneMKL 2024.0 ... for Intel(R) 64 architecture <processors>, Lnx 2.60GHz lp64 gnu_thread"
    processors = mkl_line[0].partition("64 architecture ")[2].rpartition(", ")[0] if mkl_line else None
    return (onednn[0].strip() or None) if onednn else None, processors or None


def capture_output(run: Callable[[], None]) -> list[str]:
    """The lines that libraries in C print to this process's standard output while something runs."""
    library = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
    sys.stdout.flush()
    library.fflush(None)
    kept = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            run()
        finally:
            library.fflush(None)
            os.dup2(kept, 1)
            os.close(kept)
        file.seek(0)
        return file.read().decode(errors="replace").splitlines()
