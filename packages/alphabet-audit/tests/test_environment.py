"""The manifest says what a measurement depends on, and nothing about whose machine it was."""

import getpass
import hashlib
import json
import re
import socket
import subprocess
from pathlib import Path

import alphabet_core.model
import torch
from alphabet_audit.measure.environment import (
    describe_checkout,
    describe_environment,
    query_gpu,
    read_state,
    require_plain_float32,
)


def test_every_source_is_there_with_its_hash():
    found = describe_environment("cpu")
    assert (
        found["imports"]["alphabet_core/model.py"]
        == hashlib.sha256(Path(alphabet_core.model.__file__).read_bytes()).hexdigest()
    )
    tops = {name.partition("/")[0] for name in found["imports"]}
    assert {"alphabet_audit", "alphabet_baselines", "alphabet_core", "alphabet_cpu", "alphabet_triton", "torch"} <= tops
    assert found["versions"]["torch"] == torch.__version__
    assert found["threads"]["torch"] == torch.get_num_threads()
    assert found["device"]["type"] == "cpu"
    assert len(found["git"]["commit"]) == 40


def test_nothing_private_is_recorded():
    text = json.dumps([describe_environment("cpu"), read_state("cpu")])
    assert str(Path.home()) not in text
    assert str(Path(__file__).parents[3]) not in text
    assert f'"{getpass.getuser()}"' not in text
    assert not re.search(rf"\b{re.escape(socket.gethostname())}\b", text)
    assert not [name for name in describe_environment("cpu")["imports"] if name.startswith(("/", "."))]


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
