"""Whether a manifest belongs to its records, was held to this project's rules, and lets its result be repeated."""

from collections.abc import Mapping
from datetime import datetime

from alphabet_audit.declare.declarations import FILES, Declarations, digest_value, read_values
from alphabet_audit.declare.vectors import find_disobedience
from alphabet_audit.errors import AuditError
from alphabet_audit.evidence.canonical import GENESIS, Record, encode, hash_of
from alphabet_audit.evidence.chain import identity_of
from alphabet_audit.evidence.environment_form import FRESH_KERNELS, LIBRARIES, OURS
from alphabet_audit.judge.run import Failure, Reasons

# Sources whose hashes every run of version 1 records: without them nothing of the sort could have been measured.
AUTHORITATIVE = (
    "alphabet_audit/ledger.py",
    "alphabet_baselines/registry.py",
    "alphabet_core/model.py",
    "torch/__init__.py",
    *(f"{name}/__init__.py" for name in OURS),
)
RUNTIMES = {"cpu": "alphabet_cpu/runtime.py", "cuda": "alphabet_triton/runtime.py"}
COMPILERS = {"cpu": ("llvmlite", "numba"), "cuda": ("triton",)}
# Since then runs record more, so that leaving it out is no way around.
VERSION_2_SINCE = "2026-11-18T12:00:00+00:00"
# Since then a ledger on a CPU records its vector instructions.
VECTORS_SINCE = "2026-11-18T21:00:00+00:00"
PLAIN_FLOAT32 = {"matmul_tf32": False, "cudnn_tf32": False, "autocast": False, "matmul_precision": "highest"}


def check_manifest(manifest: Record, records: list[Record]) -> Reasons:
    """Reasons why a manifest does not belong to these records."""
    head = hash_of(encode(records[-1])) if records else GENESIS
    if manifest.get("head") != head:
        yield "the manifest names another last record: records were lost, added or changed after it was sealed"
    if manifest.get("records") != len(records):
        yield f"the manifest counts {manifest.get('records')} records; there are {len(records)}"
    if manifest.get("finished") is not True:
        yield "the run is not finished: repeat its command, which resumes it"
    yield from check_beginning(manifest, records)


def check_beginning(manifest: Record, records: list[Record]) -> Reasons:
    """The first record, and no other, is the beginning of a run with this manifest; yields a reason if it is not."""
    if not records or records[0].get("kind") != "begin" or records[0].get("manifest") != identity_of(manifest):
        yield "the manifest is not the one that the records began with"
    yield from (
        f"record {record['index']}: a run must begin once, with its first record"
        for record in records[1:]
        if record.get("kind") == "begin"
    )


def check_copies(copies: Mapping[str, bytes], manifest: Record, declarations: Declarations) -> Reasons:
    """Reasons why designs and tolerances, in the run's copies or by the manifest's hashes, are not the project's.

    Values count, not bytes: a comment may be mended. Version 1 names its own copies by the hashes of their bytes.
    """
    version = manifest["version"]
    missing = [name for name in FILES if name not in copies]
    if missing:
        yield from (f"the run's copy of {name} is missing" for name in missing)
        return
    try:
        found = read_values(dict(copies), version)
    except AuditError as error:
        yield f"the run's copy cannot be read: {error}"
        return
    wanted = read_values(declarations.contents, version)
    for name in FILES:
        if digest_value(found[name]) != digest_value(wanted[name]):
            yield f"the run's copy of {name} does not declare what this project's does: it was held to other rules"
        named = manifest["declarations"][name if version == 1 else name.removesuffix(".toml")]
        if named != (hash_of(copies[name]) if version == 1 else digest_value(found[name])):
            yield f"the manifest names another {name} than the run's copy"


def check_environment(manifest: Record) -> Reasons:
    """Reasons why the recorded device, settings and sources do not let the result be repeated."""
    environment, device = manifest["environment"], manifest["device"]
    if not is_time(manifest["created"]):
        yield f"the run was created at {manifest['created']}, which is no time"
    if manifest["version"] == 1 and manifest["created"] >= VERSION_2_SINCE:
        yield Failure("the run is of version 1, begun after runs were written in version 2: run the code of today")
    if environment["device"]["type"] != device:
        yield f"the environment does not describe the run's device, {device}"
    if environment["settings"] != PLAIN_FLOAT32:
        yield Failure(f"TF32, autocast and reduced precision must be off; settings are {environment['settings']}")
    cores, usable = environment["device"].get("cores"), environment["threads"]["usable"]
    if cores is not None and usable > cores:
        yield f"{usable} cores were usable of a device that has {cores}"
    versions = environment["versions"]
    yield from (
        f"the version of {name} is not recorded, without which nothing runs on {device}"
        for name in ("torch", "numpy", *COMPILERS[device])
        if not versions[name]
    )
    if device == "cuda" and "+" in (versions["torch"] or "") and "+cu" not in versions["torch"]:
        yield f"torch {versions['torch']} is no build for CUDA"
    if device == "cuda" and environment["threads"]["variables"]["TRITON_INTERPRET"] not in (None, "", "0"):
        yield "Triton's interpreter was chosen: its kernels did not run on the device"
    if manifest["kind"] == "ledger" and environment.get("kernels", FRESH_KERNELS) != FRESH_KERNELS:
        yield Failure("kernels were kept from earlier runs, so that no recorded hash covers what was timed")
    if manifest["kind"] == "ledger":
        yield from check_vectors(manifest)
    elif (environment.get("vectors") or {}).get("restricted") is not None:
        yield "a parity run is restricted to nothing: its gates are for the processor's own vector instructions"
    yield from check_sources(environment, device) if manifest["version"] == 1 else check_libraries(environment)
    git = environment["git"]
    if git is None:
        yield Failure(
            "the commit is not recorded, since the packages did not come from a checkout: install them from one"
        )
    elif git["dirty"]:
        yield Failure("the sources differed from their commit: commit them and run again")


def check_vectors(manifest: Record) -> Reasons:
    """Reasons why the recorded vector instructions are not what the run claims: the processor's own, or AVX2."""
    if "vectors" not in manifest["environment"]:
        if manifest["version"] > 1 and manifest["created"] >= VECTORS_SINCE:
            yield "the vector instructions in force are not recorded"
        return
    vectors = manifest["environment"]["vectors"]
    if (vectors is not None) != (manifest["device"] == "cpu"):
        yield "vector instructions must be recorded of a run on a CPU, and of no other"
    elif vectors is not None:
        if (vectors["inductor"] is not None) != manifest["compiled"]:
            yield "what inductor compiles for must be recorded where torch.compile is tried, and nowhere else"
        yield from find_disobedience(vectors)


def is_time(text: str) -> bool:
    """Whether a text that has the form of a time is one: no month has a 32nd day."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def check_sources(environment: Record, device: str) -> Reasons:
    """Version 1 has a hash of every source file; yields those that are missing although nothing runs without them."""
    for name in (*AUTHORITATIVE, RUNTIMES[device]):
        if name not in environment["imports"]:
            yield f"the hash of {name} is not recorded"
    for name, version in environment["versions"].items():
        if version and name in LIBRARIES and f"{name}/__init__.py" not in environment["imports"]:
            yield f"the hash of {name}/__init__.py is not recorded"


def check_libraries(environment: Record) -> Reasons:
    """Version 2 has a hash of every library that has a version; yields those without one."""
    for name, digest in environment["libraries"].items():
        if (digest is None) != (environment["versions"][name] is None):
            yield f"{name} must have a version and a hash, or neither"
