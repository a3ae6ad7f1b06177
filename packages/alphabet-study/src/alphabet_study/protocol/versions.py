"""What a result depends on beside its job: the code, the libraries and the machine."""

import functools
import hashlib
import platform
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

# Packages whose sources decide an outcome, and the libraries that it is computed with.
SOURCES = ("alphabet_core", "alphabet_cpu", "alphabet_baselines", "alphabet_study.protocol", "alphabet_study.readers")
LIBRARIES = (
    "alphabet-study",
    "alphabet-core",
    "alphabet-cpu",
    "alphabet-baselines",
    "torch",
    "numba",
    "numpy",
    "scikit-learn",
)


@functools.cache
def source_digest() -> str:
    """A short hash of every source that decides an outcome."""
    digest = hashlib.sha256()
    for name in SOURCES:
        spec = find_spec(name)
        assert spec is not None
        assert spec.submodule_search_locations is not None
        folder = Path(next(iter(spec.submodule_search_locations)))
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{name}/{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def package_versions() -> dict[str, str]:
    """The versions of the packages and libraries, and of Python."""
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in LIBRARIES}}


@functools.cache
def machine_name() -> str:
    """The processor's name, or what the platform says where it has none."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
