"""resources: what the tools of the triton wheel say about a kernel, asked once and kept."""

import shutil
import sys

import pytest
import triton
from alphabet_ptx import PtxError, cache, resources
from alphabet_testing.ptx import kernels
from alphabet_testing.ptx.kernels import compile_once, pointers


def compile_add(**options):
    return compile_once(kernels.add_kernel, {**pointers("x y out"), "n": "i32"}, {"BLOCK": 256}, **options)


def test_resources_are_plausible():
    found = resources(compile_add())
    assert 8 <= found.registers <= 40
    assert (found.stack, found.spill_stores, found.spill_loads, found.shared) == (0, 0, 0, 0)
    assert found.instructions["LDG"] >= 2
    assert found.instructions["STG"] >= 1
    assert found.instructions["EXIT"] >= 1
    assert found.instructions["FADD"] == 2  # 256 elements on 128 threads


def test_a_kernel_with_too_few_registers_spills():
    signature, constants = pointers("x out"), {"N": 4096}
    roomy = resources(compile_once(kernels.spilling_kernel, signature, constants, warps=1))
    tight = resources(compile_once(kernels.spilling_kernel, signature, constants, warps=1, maxnreg=64))
    assert (roomy.spill_stores, roomy.spill_loads) == (0, 0)
    assert roomy.registers > 64 >= tight.registers
    assert tight.spill_stores > 0
    assert tight.spill_loads > 0
    assert tight.stack > 0


def test_a_missing_tool_is_named(monkeypatch, tmp_path):
    compiled = compile_add()
    monkeypatch.setattr(triton, "__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(PtxError, match="resources needs cuobjdump"):
        resources(compiled)


@pytest.fixture
def calls(monkeypatch, tmp_path):
    """The names of the tools that ran since, with an empty cache."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    module = sys.modules["alphabet_ptx.resources"]
    names, run = [], module._run
    monkeypatch.setattr(module, "_run", lambda name, *arguments: names.append(name) or run(name, *arguments))
    return names


def test_the_tools_run_once(calls):
    first = resources(compile_add())
    assert sorted(calls) == ["cuobjdump", "nvdisasm", "ptxas"]
    again = resources(compile_add())
    assert again == first
    assert again.instructions["no such opcode"] == 0
    assert len(calls) == 3
    resources(compile_add(arch="sm_80"))
    assert len(calls) == 6


def test_another_tool_is_asked_again(calls, monkeypatch, tmp_path):
    resources(compile_add())
    folder = tmp_path / "backends" / "nvidia" / "bin"
    folder.mkdir(parents=True)
    for name in calls:
        shutil.copy(sys.modules["alphabet_ptx.resources"]._tool(name), folder)
    monkeypatch.setattr(triton, "__file__", str(tmp_path / "__init__.py"))
    resources(compile_add())
    assert len(calls) == 3  # the same bytes in another place
    with (folder / "nvdisasm").open("ab") as file:
        file.write(b"another build")  # behind the end, where nothing reads it
    resources(compile_add())
    assert len(calls) == 6
