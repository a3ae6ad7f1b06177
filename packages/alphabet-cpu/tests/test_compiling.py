"""What is compiled when, what is kept, and what a call allocates."""

import shutil
from pathlib import Path

from alphabet_cpu import CpuRuntime, compiling, inference
from alphabet_cpu.workers import COMPILING
from alphabet_testing.models import MASKS, make_batch, make_model
from alphabet_testing.processes import run_python
from numba.core import caching


def test_no_call_compiles_the_kernel_again():
    for length in (1, 5, 6, 30):
        for masks in MASKS:
            values, given_masks = make_batch(2, length, 2, masks)
            CpuRuntime(make_model())(values.mT.contiguous().mT, **given_masks)
    assert len(inference.run_tiles.overloads) == 1


def test_the_first_call_says_that_it_compiles_and_the_next_process_need_not(tmp_path):
    code = (
        "import torch; from alphabet_cpu import CpuRuntime; from alphabet_testing.models import make_model; "
        "print(CpuRuntime(make_model())(torch.ones(1, 9, 2)))"
    )
    first, second = (run_python(code, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert COMPILING in first.stderr
    assert COMPILING not in second.stderr
    assert first.stdout == second.stdout


def test_a_changed_source_is_compiled_again(tmp_path):
    package = tmp_path / "alphabet_cpu"
    shutil.copytree(Path(inference.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import numpy as np\nfrom alphabet_cpu.inference import clear_invalid\n"
        "buffer = np.ones(32, np.float32); clear_invalid(buffer, 0, 2, 16, 0, np.array([1, 0], np.uint8))\n"
        "print(buffer[0], buffer[31])"
    )
    assert run_python(code).stdout.split() == ["1.0", "0.0"]
    callee = package / "arithmetic.py"  # another file than that of `clear_invalid`
    assert "store(buffer, j, splat(0.0))" in callee.read_text()
    callee.write_text(callee.read_text().replace("store(buffer, j, splat(0.0))", "store(buffer, j, splat(7.0))"))
    assert run_python(code).stdout.split() == ["1.0", "7.0"]


def test_where_nothing_can_be_kept_it_compiles_all_the_same(monkeypatch, capsys):
    monkeypatch.setattr(caching.CompileResultCacheImpl, "_locator_classes", [])  # as on a read-only file system
    monkeypatch.setattr(compiling, "_told", False)
    first, second = compiling.kernel(lambda x: x + 1), compiling.kernel(lambda x: x + 2)
    assert (first(1), second(1)) == (2, 3)
    assert capsys.readouterr().err == compiling.NOT_KEPT + "\n"


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
