"""Kernels for CPUs: where they run, what they say where they do not, and what is kept of them on disk."""

import errno
import importlib.util

import pytest
import torch
from alphabet_baselines import adjoint, compiling
from alphabet_testing.families import make_model
from alphabet_testing.processes import run_python

COMPILED = ("mamba", "s4d", "s5", "lru")
TRAIN = """
import torch
from alphabet_baselines import FAMILIES, build
for family in ("mamba", "s4d", "s5", "lru"):
    torch.manual_seed(0)
    model = build(family, channels=1, outputs=2, width=4, choice=FAMILIES[family].choices[0], algorithm="adjoint")
    model.double()(torch.linspace(-1, 1, 10, dtype=torch.float64).view(2, 5, 1)).square().sum().backward()
    total = sum(p.grad.abs().sum() for p in model.parameters())
    says = next(line for line in repr(model).splitlines() if "algorithm=" in line)
    print(family, f"{total:.10e}", says.split("algorithm=")[1])
"""


@pytest.mark.parametrize("family", COMPILED)
def test_a_model_says_that_its_loops_are_compiled(family):
    assert "algorithm=adjoint, compiled by numba" in repr(make_model(family, algorithm="adjoint"))


def test_a_model_says_what_runs_it_elsewhere(monkeypatch):
    assert adjoint.describe_algorithm("fft", torch.device("cpu")) == "algorithm=fft"
    found = adjoint.describe_algorithm("adjoint", torch.device("cuda"))
    assert found == "algorithm=adjoint, in torch's operations: cuda has no kernels"
    monkeypatch.setattr(adjoint, "why_not_compiled", lambda: "planted")
    assert not adjoint.is_compiled(torch.device("cpu"))
    assert adjoint.describe_algorithm("adjoint", torch.device("cpu")).endswith("in torch's operations: planted")


@pytest.mark.slow
def test_without_numba_torch_computes_the_same_and_models_say_so():
    """In processes of their own, in one of which numba cannot be imported."""
    compiled = run_python(TRAIN).stdout.splitlines()
    plain = run_python("import sys; sys.modules['numba'] = None\n" + TRAIN).stdout.splitlines()
    assert len(compiled) == len(plain) == len(COMPILED)
    for one, other in zip(compiled, plain, strict=True):
        assert one.split()[0] == other.split()[0]
        assert float(one.split()[1]) == pytest.approx(float(other.split()[1]), rel=1e-8)
        assert "adjoint, compiled by numba" in one
        assert "adjoint, in torch's operations: numba is not installed (pip install 'alphabet-baselines[cpu]')" in other


def test_a_fault_in_any_thread_is_raised(monkeypatch):
    monkeypatch.setattr(compiling, "OPERATIONS_PER_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    seen = []

    def kernel(rows):
        seen.append(len(rows))
        if rows[0] == 2:
            raise ValueError("planted")

    with pytest.raises(ValueError, match="planted"):
        compiling.run_sequences(kernel, [], [torch.arange(3).numpy()], operations=100)
    assert sorted(seen) == [1, 1, 1]


def test_little_work_is_not_shared_out(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    seen = []
    for operations in (1, 2 * compiling.OPERATIONS_PER_THREAD):
        compiling.run_sequences(lambda rows: seen.append(len(rows)), [], [torch.arange(6).numpy()], operations)
    assert seen == [6, 3, 3]


@pytest.fixture
def planted(tmp_path):
    """A function in a file of its own, whose compiled code numba keeps beside it."""
    source = tmp_path / "planted.py"
    source.write_text("def add(x):\n    return x + 2.5\n")
    spec = importlib.util.spec_from_file_location("planted", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.add


def count_misses(function):
    compiled = compiling.compile_kernel(function)
    assert compiled(1.0) == 3.5
    return sum(compiled.stats.cache_misses.values())


@pytest.mark.parametrize("content", [b"", b"\x80\x05", b"\x80\x05garbage" * 40], ids=["empty", "cut off", "garbage"])
@pytest.mark.parametrize("files", ["*.nbi", "*.nbc", "*.nb?"])
def test_damaged_files_are_compiled_again(content, files, planted, tmp_path):
    assert (count_misses(planted), count_misses(planted)) == (1, 0)
    kept = list(tmp_path.rglob(files))
    assert kept
    for file in kept:
        file.write_bytes(content)
    assert (count_misses(planted), count_misses(planted)) == (1, 0)


def test_a_full_disk_costs_no_more_than_compiling_again(planted, monkeypatch, capsys):
    def refuse(self, path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile._open_for_write", refuse)
    monkeypatch.setattr(compiling, "_said", set())
    assert (count_misses(planted), count_misses(planted)) == (1, 1)
    assert capsys.readouterr().err == compiling.CANNOT_KEEP.format(error="No space left on device") + "\n"


def test_where_nothing_can_be_kept_it_compiles_all_the_same(monkeypatch):
    monkeypatch.setattr("numba.core.caching.CompileResultCacheImpl._locator_classes", [])
    assert compiling.compile_kernel(lambda x: x + 1)(1) == 2
