"""What a compiled kernel needs of a GPU, as reported by the tools in the triton wheel."""

import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alphabet_ptx import cache
from alphabet_ptx.compiling import CompiledKernel, import_triton
from alphabet_ptx.errors import PtxError


@dataclass(frozen=True)
class Resources:
    """What a kernel needs: registers, stack and spills (bytes) per thread, shared memory (bytes) per block.

    `instructions` counts the opcodes of the machine code (SASS), without their modifiers.
    """

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int
    instructions: Counter[str] = field(repr=False)


def resources(compiled: CompiledKernel) -> Resources:
    """What the kernel needs: registers and stack by cuobjdump, spills by ptxas, the instruction mix by nvdisasm.

    Their answers are kept on disk, in `cache`.
    """
    target = _find(r"\.target\s+(sm_\w+)", compiled.ptx, "the PTX")
    blackwell = int(re.sub(r"\D", "", target)) >= 100 and _tool("ptxas-blackwell").exists()
    ptxas = "ptxas-blackwell" if blackwell else "ptxas"
    tools = [cache.digest_file(_existing_tool(name)) for name in ("cuobjdump", "nvdisasm", ptxas)]
    key = cache.digest(compiled.ptx, compiled.cubin, *tools, cache.digest_file(__file__))
    found = cache.load(key)
    if found is None:
        found = _measure(compiled, target, ptxas)
        cache.save(key, found)
    return Resources(**{**found, "instructions": Counter(found["instructions"])}, shared=compiled.shared)


def _measure(compiled: CompiledKernel, target: str, ptxas: str) -> dict[str, Any]:
    """The fields of `Resources` that the tools find out."""
    with tempfile.TemporaryDirectory() as folder:
        cubin, ptx = Path(folder) / "kernel.cubin", Path(folder) / "kernel.ptx"
        cubin.write_bytes(compiled.cubin)
        ptx.write_text(compiled.ptx, encoding="utf-8")
        listing = _run("nvdisasm", "-c", str(cubin))
        verbose = _run(ptxas, "-v", f"--gpu-name={target}", str(ptx), "-o", str(Path(folder) / "again.cubin"))
    registers, stack = read_usage(compiled.cubin)
    return {
        "registers": registers,
        "stack": stack,
        "spill_stores": int(_find(r"(\d+) bytes spill stores", verbose, "the output of ptxas")),
        "spill_loads": int(_find(r"(\d+) bytes spill loads", verbose, "the output of ptxas")),
        "instructions": Counter(re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)", listing)),
    }


def read_usage(cubin: bytes) -> tuple[int, int]:
    """Registers and bytes of stack per thread of a compiled kernel, by cuobjdump."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        usage = _run("cuobjdump", "--dump-resource-usage", str(file))
    registers, stack = (int(_find(rf"{name}:(\d+)", usage, "the output of cuobjdump")) for name in ("REG", "STACK"))
    return registers, stack


def _tool(name: str) -> Path:
    triton = import_triton()
    assert triton.__file__ is not None
    return Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name


def _existing_tool(name: str) -> Path:
    tool = _tool(name)
    if not tool.exists():
        raise PtxError(f"resources needs {name}, which the triton wheel carries as {tool}; it is not there")
    return tool


def _run(name: str, *arguments: str) -> str:
    result = subprocess.run([str(_existing_tool(name)), *arguments], capture_output=True, text=True, check=False)
    if result.returncode:
        raise PtxError(f"{name} failed: {result.stderr.strip() or result.stdout.strip()}")
    return result.stdout + result.stderr


def _find(pattern: str, text: str, origin: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise PtxError(f"no match for {pattern} in {origin}, which begins with {text[:200]!r}")
    return found[1]
