"""The manifest says what a measurement depends on, and nothing about whose machine it was."""

import getpass
import hashlib
import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import alphabet_core.model
import torch
from alphabet_audit.evidence.canonical import encode
from alphabet_audit.evidence.environment_form import ENVIRONMENT
from alphabet_audit.evidence.forms import find_misfits
from alphabet_audit.measure.environment import (
    describe_checkout,
    describe_environment,
    hash_package,
    query_gpu,
    read_state,
    require_plain_float32,
)


def test_every_package_is_there_with_its_hash():
    found = describe_environment("cpu")
    assert list(find_misfits(found, ENVIRONMENT[2])) == []
    top = Path(alphabet_core.model.__file__).parent
    files = [path for path in top.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    digests = {str(path.relative_to(top)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    assert found["sources"]["alphabet_core"] == hashlib.sha256(encode(digests)).hexdigest()
    assert found["versions"]["torch"] == torch.__version__
    assert found["threads"]["torch"] == torch.get_num_threads()
    assert found["device"]["type"] == "cpu"
    assert len(found["git"]["commit"]) == 40


def test_a_package_that_changes_by_a_byte_or_a_name_has_another_hash(tmp_path, monkeypatch):
    package = tmp_path / "some_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = hash_package("some_package")
    (package / "one.py").write_text("VALUE = 2\n")
    assert hash_package("some_package") != before
    (package / "one.py").write_text("VALUE = 1\n")
    assert hash_package("some_package") == before
    (package / "one.py").rename(package / "two.py")
    assert hash_package("some_package") != before


FRESH = """
import os, pathlib
from alphabet_audit.measure.environment import describe_environment, use_fresh_kernels
assert describe_environment("cpu")["kernels"] == "kept from earlier runs"
use_fresh_kernels()
assert describe_environment("cpu")["kernels"] == "compiled by this run"
import torch
from alphabet_core import Alphabet, AlphabetConfig
from alphabet_cpu import CpuRuntime
from alphabet_cpu.kernels import scan
caches = [getattr(getattr(scan, name), "_cache", None) for name in dir(scan)]
kept = [cache for cache in caches if hasattr(cache, "_cache_path")]  # which a function that is inlined has not
folder = os.environ["NUMBA_CACHE_DIR"]
assert len(kept) >= 3 and all(cache._cache_path.startswith(folder) for cache in kept)
try:
    use_fresh_kernels()
except Exception as error:
    assert "kernels were imported before" in str(error)
    print(folder)
"""


def test_a_ledger_compiles_its_kernels_itself_and_leaves_none_behind():
    """Numba's cache on disk is code that no recorded hash covers: a planted one would be timed."""
    run = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, check=True)
    assert run.stdout.strip()
    assert not Path(run.stdout.strip()).exists()


def test_nothing_private_is_recorded():
    text = json.dumps([describe_environment("cpu"), read_state("cpu")])
    assert str(Path.home()) not in text
    assert str(Path(__file__).parents[3]) not in text
    assert f'"{getpass.getuser()}"' not in text
    assert not re.search(rf"\b{re.escape(socket.gethostname())}\b", text)


def test_plain_float32_is_switched_on():
    torch.backends.cudnn.allow_tf32 = True
    require_plain_float32()
    assert describe_environment("cpu")["settings"] == {
        "matmul_tf32": False,
        "cudnn_tf32": False,
        "autocast": False,
        "matmul_precision": "highest",
    }


def test_a_machine_without_a_gpu_is_no_error(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert query_gpu(("name",)) is None


def test_sources_outside_a_checkout_have_no_commit(tmp_path):
    (tmp_path / "__init__.py").touch()
    assert describe_checkout(tmp_path) is None


def test_a_wheel_inside_another_projects_checkout_does_not_take_its_commit(tmp_path):
    def git(*arguments):
        identity = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
        subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], check=True, capture_output=True)

    git("init")
    git("commit", "--allow-empty", "-m", "another project")
    installed = tmp_path / ".venv" / "alphabet_audit"
    installed.mkdir(parents=True)
    (installed / "__init__.py").touch()
    assert describe_checkout(installed) is None
    git("add", "--all")
    git("commit", "-m", "the sources themselves")
    assert describe_checkout(installed)["dirty"] is False
