"""The pytest plugin and the commands, as their users meet them: in a process of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = """
import unittest

import pytest
import torch
import triton
import triton.language as tl
from alphabet_ptx import PtxError
from alphabet_testing.ptx.driver_kernels import shift_kernel


@triton.jit
def last_kernel(out):
    tl.store(out, tl.program_id(0))


@triton.jit
def copy_kernel(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i))


@triton.jit
def hinted_kernel(x, out, start, BLOCK: tl.constexpr):
    i = tl.max_contiguous(tl.multiple_of(start + tl.arange(0, BLOCK), BLOCK), BLOCK)
    tl.store(out + tl.arange(0, BLOCK), tl.load(x + i))


def shift(barrier):
    x, scratch, out = torch.arange(200.0), torch.zeros(200), torch.zeros(200)
    shift_kernel[(1,)](x, scratch, out, 200, BARRIER=barrier, BLOCK=256)
    return out

"""

TESTS = """
@pytest.mark.ptx
def test_right():
    assert shift(True)[5] == 4

@pytest.mark.ptx(arch="sm_80")
def test_architecture_of_the_marker(ptx_device):
    shift(True)
    assert ptx_device.arch == "sm_80"
    assert ".target sm_80" in ptx_device.report[0].ptx

def test_fixture_without_marker(ptx_device):
    assert ptx_device.arch == "sm_90"

@pytest.mark.ptx
def test_race_that_matters():
    last_kernel[(3,)](torch.zeros(1, dtype=torch.int32))

@pytest.mark.ptx
def test_missing_barrier():
    shift(False)

@pytest.mark.ptx
def test_caught_fault():
    with pytest.raises(PtxError):
        copy_kernel[(1,)](torch.zeros(31), torch.zeros(32), BLOCK=32)

@pytest.mark.ptx
def test_misaligned():
    hinted_kernel[(1,)](torch.zeros(514), torch.zeros(512), 2, BLOCK=512)

@pytest.mark.ptx
def test_nobody_wrote():
    out = torch.zeros(32)
    copy_kernel[(1,)](torch.empty(32), out, BLOCK=32)

@pytest.mark.ptx
def test_benign_race():
    x = torch.ones(8)
    copy_kernel[(2,)](torch.ones(8), x, BLOCK=8)

def race():
    last_kernel[(3,)](torch.zeros(1, dtype=torch.int32))

@pytest.mark.ptx
class TestUnit(unittest.TestCase):
    def test_race_in_a_unittest(self):
        race()

@pytest.mark.ptx
class TestClass:
    def test_race_in_a_class(self):
        race()

def test_race_on_a_device_that_was_asked_for_late(request):
    assert request.getfixturevalue("ptx_device").arch == "sm_90"
    race()

@pytest.fixture
def races_at_its_end(ptx_device):
    yield
    race()

def test_race_in_a_fixture(races_at_its_end):
    pass

@pytest.mark.ptx("sm_80")
def test_marker_without_a_name():
    pass

@pytest.mark.ptx(architecture="sm_80")
def test_marker_with_an_unknown_option():
    pass

@pytest.mark.ptx
@pytest.mark.xfail(strict=True)
def test_expected_race():
    race()

def test_without_the_plugin():
    assert not torch.zeros(1).is_cuda
"""


def run(*command, folder):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(folder)])}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False, env=environment
    )


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugin")
    Path(folder, "test_kernels.py").write_text(HEAD + TESTS)
    done = run("-m", "pytest", "-rA", "-q", "-pno:cacheprovider", "--ptx-arch=sm_90", "test_kernels.py", folder=folder)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("right", "PASSED"),
        ("architecture_of_the_marker", "PASSED"),
        ("fixture_without_marker", "PASSED"),
        ("race_that_matters", "FAILED"),
        ("missing_barrier", "FAILED"),
        ("caught_fault", "FAILED"),
        ("misaligned", "FAILED"),
        ("nobody_wrote", "FAILED"),
        ("benign_race", "PASSED"),
        ("TestUnit::test_race_in_a_unittest", "FAILED"),
        ("TestClass::test_race_in_a_class", "FAILED"),
        ("race_on_a_device_that_was_asked_for_late", "FAILED"),
        ("race_in_a_fixture", "ERROR"),
        ("marker_without_a_name", "ERROR"),
        ("marker_with_an_unknown_option", "ERROR"),
        ("expected_race", "XFAIL"),
        ("without_the_plugin", "PASSED"),
    ],
)
def test_outcomes(session, name, outcome):
    test = name if "::" in name else f"test_{name}"
    assert f"{outcome} test_kernels.py::{test}" in session, session


@pytest.mark.parametrize(
    "text",
    [
        "last_kernel: race, in the opposite order out gets other values",
        "tl.store(out, tl.program_id(0))",  # the source line
        "out of range: 4 bytes",
        "misaligned access",
        "the marker ptx takes options by name, such as arch='sm_80'; got 'sm_80'",
        "the marker ptx takes the options of ptx_device",
    ],
)
def test_messages(session, text):
    assert text in session, session


def test_workers_find_the_same(tmp_path):
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    Path(tmp_path, "test_kernels.py").write_text(HEAD + TESTS)
    chosen = ["-k", "right or missing_barrier or benign or unittest", "test_kernels.py"]
    done = run("-m", "pytest", "-rA", "-q", "-n2", "-pno:cacheprovider", *chosen, folder=tmp_path)
    assert "2 failed, 2 passed" in done.stdout, done.stdout
    assert "shift_kernel: race, in the opposite order" in done.stdout


def test_without_the_plugin_there_is_no_device(tmp_path):
    Path(tmp_path, "test_kernels.py").write_text(HEAD + TESTS)
    options = ["-pno:alphabet-ptx", "-pno:cacheprovider", "-q", "-rA", "-k", "without or fixture_without"]
    done = run("-m", "pytest", *options, "test_kernels.py", folder=tmp_path)
    assert "fixture 'ptx_device' not found" in done.stdout
    assert "PASSED test_kernels.py::test_without_the_plugin" in done.stdout


def test_the_marker_is_declared(tmp_path):
    done = run("-m", "pytest", "--markers", folder=tmp_path)
    assert "@pytest.mark.ptx(" in done.stdout


def test_run_a_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        HEAD + "import sys\nprint('argument', sys.argv[1], shift(True)[5].item(), torch.ones(1).is_cuda)\n"
    )
    done = run("-m", "alphabet_ptx", "run", str(script), "7", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "argument 7 4.0 True" in done.stdout
    assert "sm_89, 1 launches:\nshift_kernel, grid 1 x 1 x 1, 4 warps:" in done.stdout


def test_a_script_with_a_fault(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(HEAD + "copy_kernel[(1,)](torch.zeros(31), torch.zeros(32), BLOCK=32)\n")
    done = run("-m", "alphabet_ptx", "run", "--arch", "sm_80", str(script), folder=tmp_path)
    assert done.returncode == 1
    assert "error: copy_kernel: read of global memory out of range" in done.stdout


def test_inspect(tmp_path):
    Path(tmp_path, "own.py").write_text(HEAD)
    values = ["x=*fp32", "out=*fp32", "BLOCK=1024"]
    done = run("-m", "alphabet_ptx", "inspect", "own:copy_kernel", *values, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "copy_kernel for sm_89, 4 warps\n  registers " in done.stdout
    assert "LDG 2" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "absent.py"], "there is no script absent.py"),
        (["inspect", "own"], "kernel must be MODULE:KERNEL"),
        (["inspect", "own:absent"], "kernel must be MODULE:KERNEL"),
        (["inspect", "own:copy_kernel", "x"], "give each argument as NAME=VALUE; got 'x'"),
    ],
)
def test_commands_that_are_refused(tmp_path, arguments, message):
    Path(tmp_path, "own.py").write_text(HEAD)
    done = run("-m", "alphabet_ptx", *arguments, folder=tmp_path)
    assert done.returncode == 2
    assert f"alphabet-ptx: {message}" in done.stderr
