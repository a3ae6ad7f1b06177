"""A run's head can be published and signed; evidence made anew, or signed by somebody else, is found out."""

import shutil
import subprocess

import pytest
from alphabet_audit import AuditError, read_declarations
from alphabet_audit.cli import app
from alphabet_audit.declare.declarations import FILES
from alphabet_audit.evidence.chain import read_manifest
from alphabet_audit.judge import seal
from alphabet_testing.audit.evidence_copy import EvidenceCopy, read_run
from alphabet_testing.audit.fake_bench import run_fake
from alphabet_testing.audit.forger import Forger
from typer.testing import CliRunner

DECLARED = read_declarations()


def command(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def run(tmp_path):
    run_fake(tmp_path / "run", "same-width")
    return tmp_path / "run"


@pytest.fixture
def key(tmp_path):
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    return tmp_path / "key"


def test_the_head_is_printed_and_written(run):
    found = command("seal", run)
    manifest = read_manifest(run)
    assert found.exit_code == 0
    assert f"last record: {manifest['head']}\n" in found.stdout
    assert f"records: {manifest['records']}\n" in found.stdout
    assert (run / "head.txt").read_text() in found.stdout


def test_a_run_that_fails_is_not_sealed(tmp_path):
    run_fake(tmp_path, "same-width", wrong={"same-width 32/512/64 s5 step"})
    found = command("seal", tmp_path)
    assert isinstance(found.exception, AuditError)
    assert "fails and is not sealed" in str(found.exception)
    assert not (tmp_path / "head.txt").exists()


def test_a_signature_is_verified_by_its_public_key(run, key):
    assert command("seal", run, "--key", key).exit_code == 0
    found = command("evaluate", run, "--signature", key.with_suffix(".pub"))
    assert found.exit_code == 3
    assert "the head is signed by the key in" in found.stdout


def test_evidence_made_anew_under_an_old_signature_is_refused(run, key):
    """Samples rewritten with everything that follows from them: the chain holds, the published head does not."""
    command("seal", run, "--key", key)
    forger = Forger(read_run(run, FILES), "anew")
    forged = forger.begin()
    forger.rewrite_samples(forged)
    EvidenceCopy(forged.records, forged.manifest, forged.copies).write(run)
    assert command("evaluate", run).exit_code == 3
    found = command("evaluate", run, "--signature", key.with_suffix(".pub"))
    assert found.exit_code == 1
    assert "is not the head of this evidence" in found.stdout
    seal.write_head(run, read_manifest(run))  # nor does it help to write the head anew
    found = command("evaluate", run, "--signature", key.with_suffix(".pub"))
    assert found.exit_code == 1
    assert "ssh-keygen refused" in found.stdout


def test_a_signature_by_another_key_is_refused(run, key, tmp_path):
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    command("seal", run, "--key", other)
    assert command("evaluate", run, "--signature", key.with_suffix(".pub")).exit_code == 1


def test_a_missing_signature_or_program_is_said(run, key, monkeypatch):
    found = command("evaluate", run, "--signature", key.with_suffix(".pub"))
    assert found.exit_code == 1
    assert "head.txt cannot be read" in found.stdout.replace("\n", "")
    command("seal", run)
    monkeypatch.setenv("PATH", "")
    assert "ssh-keygen is not installed here" in command("evaluate", run, "--signature", key.with_suffix(".pub")).stdout


def test_keys_of_minisign_are_told_apart(tmp_path):
    (tmp_path / "minisign.pub").write_text("untrusted comment: minisign public key\nRWQ\n")
    (tmp_path / "ssh.pub").write_text("ssh-ed25519 AAAA\n")
    assert seal.is_minisign(tmp_path / "minisign.pub")
    assert not seal.is_minisign(tmp_path / "ssh.pub")
