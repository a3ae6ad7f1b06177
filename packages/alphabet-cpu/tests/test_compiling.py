"""What is compiled when, what is kept on disk, and what a call allocates."""

import errno
import importlib.util
import re
import shutil
import sys
from pathlib import Path

import alphabet_core
import alphabet_cpu
import pytest
from alphabet_cpu import CpuRuntime, compiling
from alphabet_cpu.compiling import KernelFile, stamp_sources
from alphabet_cpu.kernels.inference import run_tiles
from alphabet_cpu.workers import COMPILING
from alphabet_testing.models import MASKS, make_batch, make_model
from alphabet_testing.processes import run_python
from numba.core import caching

PACKAGES = [Path(module.__file__).parent for module in (alphabet_cpu, alphabet_core)]
SHOW_LIFT = """
import sys; sys.path.insert(0, DIRECTORY)
import numpy as np
from alphabet_cpu.kernels.layout import Mask, Sizes, Tokens
from alphabet_cpu.kernels.lift import Lifted, lift
features, scale, mask = np.ones(64, np.float32), np.empty(2, np.float32), Mask(np.array([1, 0], np.uint8), True)
lift(None, np.zeros(18 * 16, np.float32), 8, Tokens(0, 0, 2), Sizes(1, 16, 16, 32, np.ones(1, np.int64), 1),
     np.zeros(6 * 16, np.float32), mask, Lifted(features, features, scale), False)
print(f"{features[31]:.0f} {scale[0]:.0f}")
"""


def copy_packages(target):
    for package in PACKAGES:
        shutil.copytree(package, target / package.name, ignore=shutil.ignore_patterns("__pycache__"))


def edit(path, old, new):
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_no_call_compiles_the_kernel_again():
    CpuRuntime(make_model())(make_batch(2, 9, 2)[0])
    compiled = len(run_tiles.overloads)
    for length in (1, 5, 6, 30):
        for masks in MASKS:
            values, given_masks = make_batch(2, length, 2, masks)
            CpuRuntime(make_model())(values.mT.contiguous().mT, **given_masks)
    assert len(run_tiles.overloads) == compiled


def test_a_constant_compiles_no_kernel_again():
    callee = compiling.kernel(lambda index, wanted: index + 1 if wanted else index)
    caller = compiling.kernel(lambda index: callee(index, True) + callee(1, False) + callee(2, True))
    assert caller(4) == 5 + 1 + 3
    assert len(callee.overloads) == 1


@pytest.mark.slow
def test_the_first_call_says_that_it_compiles_and_the_next_process_need_not(tmp_path):
    code = (
        "import torch; from alphabet_cpu import CpuRuntime, workers; from alphabet_testing.models import make_model; "
        "{patience}print(CpuRuntime(make_model())(torch.ones(1, 9, 2)))"
    )
    first = run_python(code.format(patience=""), NUMBA_CACHE_DIR=str(tmp_path))
    # Reading kernels takes a fraction of a second, but a busy machine may make two of it.
    patient = code.format(patience="workers.ANNOUNCE_AFTER_SECONDS = 60.0; ")
    second = run_python(patient + "; from alphabet_cpu.kernels.inference import run_tiles; "
                        "print(sum(run_tiles.stats.cache_misses.values()))", NUMBA_CACHE_DIR=str(tmp_path))  # fmt: skip
    assert COMPILING in first.stderr
    assert re.search(r"alphabet-cpu: compiled, after \d+ seconds\n$", first.stderr)
    assert second.stderr == ""
    assert second.stdout == first.stdout + "0\n"


EDITS = {
    # A file of this package other than the kernel's own: masked features become 7.
    "callee": ("alphabet_cpu/kernels/arithmetic.py", "store(buffer, j, splat(0.0))", "store(buffer, j, splat(7.0))",
               "7 1000\n"),
    # A constant of the core that the kernel froze: the norm's scale of zeros is 1 / sqrt(epsilon).
    "constant of the core": ("alphabet_core/norm.py", "EPSILON = 1e-6", "EPSILON = 1e-2", "0 10\n"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("edited", EDITS)
def test_a_changed_source_is_compiled_again(tmp_path, edited):
    file, old, new, shown = EDITS[edited]
    copy_packages(tmp_path)
    code = SHOW_LIFT.replace("DIRECTORY", repr(str(tmp_path)))
    assert run_python(code).stdout == "0 1000\n"
    edit(tmp_path / file, old, new)
    assert run_python(code).stdout == shown


def test_the_stamp_covers_every_source_of_both_packages(tmp_path):
    copy_packages(tmp_path)
    packages = [tmp_path / package.name for package in PACKAGES]
    stamps = [stamp_sources(packages)]
    assert stamps[0] == stamp_sources(PACKAGES) == compiling.STAMP
    files = sorted(file for package in packages for file in package.rglob("*.py"))
    assert any(file.parent.name == "kernels" for file in files)
    assert any(file.parent.name == "fused" for file in files)
    for file in files:
        file.write_text(file.read_text() + "\n")
        stamps.append(stamp_sources(packages))
    files[-1].rename(files[-1].with_name("renamed.py"))
    stamps.append(stamp_sources(packages))
    assert len(set(stamps)) == len(files) + 2


def test_what_is_compiled_for_another_processor_or_by_another_numba_is_not_taken(tmp_path):
    codegen = run_tiles.targetctx.codegen()
    key = caching.FunctionCache(stamp_sources)._index_key((), codegen)  # numba's own
    assert key[1] == codegen.magic_tuple()
    triple, processor, features = key[1]
    kept = KernelFile(tmp_path, "f", "stamp")
    kept.save(key, "code")
    assert kept.load(key) == "code"
    for machine in ((triple, "another", features), (triple, processor, "+another"), ("another", processor, features)):
        assert kept.load((key[0], machine, key[2])) is None
    kept._version = "another"
    assert kept.load(key) is None


FLOAT, DOUBLE = ("float32", "processor", "bytecode"), ("float64", "processor", "bytecode")


def test_a_process_that_ends_while_it_writes_leaves_nothing_stale_behind(tmp_path, monkeypatch):
    KernelFile(tmp_path, "f", "old sources").save(FLOAT, "old code")
    fresh = KernelFile(tmp_path, "f", "new sources")
    with monkeypatch.context() as patch:
        patch.setattr(KernelFile, "_save_data", lambda *_: (_ for _ in ()).throw(SystemExit("planted")))
        with pytest.raises(SystemExit, match="planted"):
            fresh.save(FLOAT, "new code")
    assert fresh.load(FLOAT) is None
    fresh.save(FLOAT, "new code")
    assert fresh.load(FLOAT) == "new code"
    assert KernelFile(tmp_path, "f", "old sources").load(FLOAT) is None


def test_a_process_of_older_sources_never_overwrites_newer_code(tmp_path, monkeypatch):
    KernelFile(tmp_path, "f", "new sources").save(FLOAT, "new code")
    with monkeypatch.context() as patch:  # it began before the sources changed, and ends before it writes the index
        patch.setattr(KernelFile, "_save_index", lambda *_: (_ for _ in ()).throw(SystemExit("planted")))
        with pytest.raises(SystemExit, match="planted"):
            KernelFile(tmp_path, "f", "old sources").save(FLOAT, "old code")
    assert KernelFile(tmp_path, "f", "new sources").load(FLOAT) == "new code"


def test_functions_that_differ_in_their_bytecode_have_files_of_their_own(tmp_path):
    kept = KernelFile(tmp_path, "f", "stamp")
    kept.save(FLOAT, "code 1")
    kept.save((*FLOAT[:2], "other bytecode"), "code 2")
    assert kept.load(FLOAT) == "code 1"


def test_two_processes_that_write_at_once_do_not_mix_up_their_code(tmp_path, monkeypatch):
    one, other = KernelFile(tmp_path, "f", "stamp"), KernelFile(tmp_path, "f", "stamp")
    with monkeypatch.context() as patch:  # neither sees what the other has written
        patch.setattr(KernelFile, "_load_index", lambda self: {})
        one.save(FLOAT, "code for float32")
        other.save(DOUBLE, "code for float64")
    assert len(list(tmp_path.glob("*.nbc"))) == 2
    assert one.load(DOUBLE) == "code for float64"
    assert one.load(FLOAT) in (None, "code for float32")  # None: it is compiled once more


DAMAGE = {
    "empty": lambda content: b"",
    "cut off": lambda content: content[: len(content) // 2],
    "one bit": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    "garbage": lambda content: b"\x80\x05garbage" * 40,
    "numba's own format": lambda content: content[compiling.DIGEST_SIZE :],
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("files", ["*.nbi", "*.nbc", "*.nb?"])
def test_damaged_files_are_compiled_again(damage, files, tmp_path, monkeypatch):
    source = tmp_path / "planted.py"
    source.write_text("def add(x):\n    return x + 2.5\n")
    spec = importlib.util.spec_from_file_location("planted", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "planted", module)  # where numba looks for what a function's globals are

    def misses():
        compiled = compiling.kernel(module.add)
        assert compiled(1.0) == 3.5
        return sum(compiled.stats.cache_misses.values())

    assert (misses(), misses()) == (1, 0)
    kept = list(tmp_path.rglob(files))
    assert kept
    for file in kept:
        file.write_bytes(DAMAGE[damage](file.read_bytes()))
    assert (misses(), misses()) == (1, 0)


def test_a_full_disk_costs_no_more_than_compiling_again(tmp_path, monkeypatch, capsys):
    def refuse(self, path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(KernelFile, "_open_for_write", refuse)
    monkeypatch.setattr(compiling, "_said", set())
    kept = KernelFile(tmp_path, "f", "stamp")
    for _ in range(2):
        kept.save(FLOAT, "code")
    assert kept.load(FLOAT) is None
    assert capsys.readouterr().err == compiling.CANNOT_KEEP.format(error="No space left on device") + "\n"


def test_where_nothing_can_be_kept_it_compiles_all_the_same(monkeypatch, capsys):
    monkeypatch.setattr(caching.CompileResultCacheImpl, "_locator_classes", [])  # as on a read-only file system
    monkeypatch.setattr(compiling, "_said", set())
    first, second = compiling.kernel(lambda x: x + 1), compiling.kernel(lambda x: x + 2)
    assert (first(1), second(1)) == (2, 3)
    assert capsys.readouterr().err == compiling.NOT_KEPT + "\n"


@pytest.mark.slow
def test_extra_memory_does_not_grow_with_the_length():
    code = (
        "import resource, torch\n"
        "from alphabet_core import value_checks\n"
        "from alphabet_cpu import CpuRuntime\n"
        "from alphabet_testing.models import make_model\n"
        "runtime, values = CpuRuntime(make_model()), torch.randn(1, 1 << 20, 2)\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "with value_checks(False):\n"
        "    runtime(values[:, :8192]); before = peak(); runtime(values); print(peak() - before)\n"
    )
    grown = int(run_python(code).stdout)  # kilobytes; the input alone is 8 MB, one feature of each token 4 MB
    assert grown < 1000
