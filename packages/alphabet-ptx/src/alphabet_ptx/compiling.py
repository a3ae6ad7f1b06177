"""Compile a Triton kernel for a named architecture, with neither GPU nor driver.

Compiled kernels are kept on disk, in `cache`, and found again by the kernel as Triton's front end sees it: the IR that
it makes of the source, of all functions and constants that the source reaches, of the signature and of the line
numbers. Triton has a cache of its own, which is not used here: its key leaves out constants behind an attribute of a
module, types, default values of arguments and the names of source files, and it does not notice damaged files.
"""

import base64
import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from types import ModuleType
from typing import Any

from alphabet_ptx import cache
from alphabet_ptx.arguments import ELEMENTS
from alphabet_ptx.descriptors import is_descriptor
from alphabet_ptx.errors import PtxError

_compiling = Lock()


@dataclass(frozen=True)
class CompiledKernel:
    """A compiled kernel and what it was compiled for; `signature` has the type of each argument, or "constexpr".

    `shared` is what a program needs of shared memory, `scratch` of global memory of its own, in bytes; `descriptors`
    has what Triton says of the tensor maps of arguments.
    """

    name: str
    arch: str
    ptx: str = field(repr=False)
    cubin: bytes = field(repr=False)
    shared: int
    warps: int
    signature: Mapping[str, str]
    constants: Mapping[str, object]
    divisible: frozenset[str]
    triton: str
    scratch: int = 0
    descriptors: Sequence[Mapping[str, Any]] = ()

    def check_specialization(self, values: Mapping[str, object]) -> None:
        """Raise PtxError if an integer that was compiled as divisible by 16 is not."""
        for name in self.divisible & values.keys():
            value = values[name]
            if isinstance(value, int) and value % 16:
                raise PtxError(f"argument {name} was compiled as divisible by 16; got {value}")


def compile_kernel(
    kernel: Any,
    signature: Mapping[str, str],
    constants: Mapping[str, object],
    *,
    arch: str = "sm_89",
    warps: int = 4,
    stages: int = 2,
    divisible: Collection[str] = (),
    unaligned: Collection[str] = (),
    fp_fusion: bool = True,
    **options: object,
) -> CompiledKernel:
    """Compile a `@triton.jit` function as a launch with such arguments would.

    `signature` maps each argument that is not constant to its type, such as "*fp32", "i32" or "fp32", and `constants`
    each `tl.constexpr` to its value; an integer that a launch would specialise because it is 1 goes there, too.
    Pointers are taken to be aligned to 16 bytes, except those in `unaligned`; integers in `divisible` to be multiples
    of 16. Other options go to Triton's CUDA backend by their names there.
    """
    triton = import_triton()
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    if not isinstance(kernel, triton.JITFunction):
        raise PtxError(f"kernel must be a @triton.jit function; got {_describe(kernel)}")
    capability = _capability(arch)
    full = _full_signature(kernel.arg_names, signature, constants)
    _check_names("divisible", divisible, [name for name, kind in signature.items() if re.match(r"[iu]\d", kind)])
    _check_names("unaligned", unaligned, [name for name, kind in signature.items() if kind.startswith("*")])
    specialised = [
        name for name, kind in full.items() if name in divisible or (kind[0] == "*" and name not in unaligned)
    ]
    source = ASTSource(
        kernel,
        full,
        constexprs=dict(constants),
        attrs={(kernel.arg_names.index(name),): [["tt.divisibility", 16]] for name in specialised},
    )
    settings = {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": fp_fusion, **options}
    target = GPUTarget("cuda", capability, 32)
    key = _cache_key(source, target, settings)
    made = cache.load(key) if key else None
    if made is None:
        try:
            made = _compile(source, target, settings)
        except Exception as error:  # Triton has no common base for what its passes raise
            raise PtxError(f"kernel {kernel.__name__} does not compile for {arch}: {error}") from error
        if key:
            cache.save(key, made)
    return CompiledKernel(
        name=made["name"],
        arch=arch,
        ptx=made["ptx"],
        cubin=base64.b64decode(made["cubin"]),
        shared=made["shared"],
        warps=made["warps"],
        signature=full,
        constants=dict(constants),
        divisible=frozenset(divisible),
        triton=triton.__version__,
        scratch=made["scratch"],
        descriptors=made["descriptors"],
    )


def _compile(source: Any, target: Any, settings: Mapping[str, object]) -> dict[str, Any]:
    """What the cache keeps of a kernel, compiled afresh: Triton gets a cache of its own that is empty."""
    import triton

    with _compiling, tempfile.TemporaryDirectory() as folder, triton.knobs.cache.scope():
        triton.knobs.cache.dir = folder
        compiled = triton.compile(source, target=target, options=dict(settings))
    return {
        "name": compiled.metadata.name,
        "ptx": compiled.asm["ptx"],
        "cubin": base64.b64encode(compiled.asm["cubin"]).decode(),
        "shared": compiled.metadata.shared,
        "warps": compiled.metadata.num_warps,
        "scratch": compiled.metadata.global_scratch_size,
        "descriptors": getattr(compiled.metadata, "tensordesc_meta", None) or [],
    }


def _cache_key(source: Any, target: Any, settings: Mapping[str, object]) -> str | None:
    """The digest of all that decides what Triton compiles; None if not all of it can be told, or nothing is kept."""
    if cache.folder() is None:
        return None
    try:
        import triton
        from triton import knobs
        from triton._C.libtriton import get_cache_invalidating_env_vars, ir
        from triton.compiler.compiler import make_backend
        from triton.runtime.cache import triton_key

        backend = make_backend(target)
        options = backend.parse_options(dict(settings))
        context = ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        functions = backend.get_codegen_implementation(options)
        kernel = str(source.make_ir(target, options, functions, backend.get_module_map(), context))
        ptxas = knobs.nvidia.ptxas_blackwell if target.arch >= 100 else knobs.nvidia.ptxas
        hooks = [getattr(knobs.runtime, "add_stages_inspection_hook", None), getattr(backend, "instrumentation", None)]
        switches = {**knobs.compilation.knobs, **knobs.nvidia.knobs}
        if any(hooks) or knobs.compilation.override or getattr(options, "ir_override", None):
            return None  # passes or files of the user's take part
        return cache.digest(
            kernel,
            str(target),
            options.hash(),
            triton.__version__,
            triton_key(),  # the bytes of Triton's compiler
            cache.digest_file(ptxas.path),
            repr(sorted(get_cache_invalidating_env_vars().items())),
            repr({name: value for name, value in switches.items() if value is None or isinstance(value, bool | str)}),
            cache.digest_file(__file__),
        )
    except Exception:  # Triton's compiler says better what is wrong with a kernel
        return None


def import_triton() -> ModuleType:
    """The module triton; raises PtxError where it is not installed."""
    try:
        import triton
    except ImportError as error:
        raise PtxError("compiling needs the package triton, which exists for Linux: pip install triton") from error
    return triton  # type: ignore[no-any-return]  # triton ships no types


def _describe(kernel: object) -> str:
    """What was passed in place of a kernel, and what to do about it."""
    name = type(kernel).__name__
    if name == "InterpretedFunction":
        return "a function of Triton's interpreter; unset TRITON_INTERPRET before triton is imported"
    if name in ("Autotuner", "Heuristics"):
        return f"{name}, which wraps one; pass its `.fn` and the constants of one configuration"
    return name


def _capability(arch: str) -> int:
    found = re.fullmatch(r"sm_(\d+)a?", arch)
    if found is None:
        raise PtxError(f'arch must be an NVIDIA architecture such as "sm_80", "sm_89" or "sm_90"; got {arch!r}')
    return int(found[1])


def _full_signature(names: list[str], signature: Mapping[str, str], constants: Mapping[str, object]) -> dict[str, str]:
    """The types of all arguments in the kernel's order, "constexpr" for constants."""
    both = sorted(signature.keys() & constants.keys())
    missing = [name for name in names if name not in signature and name not in constants]
    unknown = sorted((signature.keys() | constants.keys()) - set(names))
    if both or missing or unknown:
        raise PtxError(
            f"signature and constants must name each argument of ({', '.join(names)}) once; "
            f"missing {missing}, unknown {unknown}, in both {both}"
        )
    for name, kind in signature.items():
        if kind.removeprefix("*") not in ELEMENTS and not is_descriptor(kind):
            raise PtxError(
                f"signature of {name} must be one of {', '.join(ELEMENTS)}, a pointer such as *fp32 or a descriptor "
                f"such as tensordesc<fp32[64,64]>; got {kind!r}"
            )
    return {name: signature.get(name, "constexpr") for name in names}


def _check_names(option: str, given: Collection[str], allowed: list[str]) -> None:
    wrong = sorted(set(given) - set(allowed))
    if wrong:
        raise PtxError(
            f"{option} may name {', '.join(allowed) or 'no argument of this kernel'}; got {', '.join(wrong)}"
        )
