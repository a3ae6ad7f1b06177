"""A run's head can be published and signed; evidence made anew, or signed by somebody else, is found out."""

import shutil
import subprocess

import pytest
from alphabet_audit import AuditError, evaluate, read_declarations
from alphabet_audit.declare.declarations import FILES
from alphabet_audit.evidence.chain import read_manifest
from alphabet_audit.judge import seal
from alphabet_testing.audit.commands import command
from alphabet_testing.audit.evidence_copy import EvidenceCopy, read_run
from alphabet_testing.audit.fake_bench import run_fake
from alphabet_testing.audit.forger import Forger

DECLARED = read_declarations()


PROGRAMS = {"ssh": "ssh-keygen", "minisign": "minisign"}


def make_key(kind, path):
    """A new secret key without a passphrase; its public key lies beside it, with the ending .pub."""
    if shutil.which(PROGRAMS[kind]) is None:
        pytest.skip(f"{PROGRAMS[kind]} is not installed")
    makers = {
        "ssh": ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)],
        "minisign": ["minisign", "-G", "-W", "-s", str(path), "-p", str(path.with_suffix(".pub"))],
    }
    subprocess.run(makers[kind], check=True, capture_output=True)
    return path


@pytest.fixture(params=list(PROGRAMS))
def kind(request):
    """A kind of key."""
    return request.param


@pytest.fixture
def key(kind, tmp_path):
    return make_key(kind, tmp_path / "key")


def test_the_head_is_printed_and_written(part):
    found = command("seal", part)
    manifest = read_manifest(part)
    assert found.exit_code == 0
    assert f"last record: {manifest['head']}\n" in found.stdout
    assert f"records: {manifest['records']}\n" in found.stdout
    assert (part / "head.txt").read_text() in found.stdout


def test_a_run_that_fails_is_not_sealed(tmp_path):
    run_fake(tmp_path, "same-width", wrong={"same-width 32/512/64 s5 step"})
    found = command("seal", tmp_path)
    assert isinstance(found.exception, AuditError)
    assert "fails and is not sealed" in str(found.exception)
    assert not (tmp_path / "head.txt").exists()


def test_a_signature_is_verified_by_its_public_key(part, key):
    assert command("seal", part, "--key", key).exit_code == 0
    found = command("evaluate", part, "--signature", key.with_suffix(".pub"))
    assert found.exit_code == 3
    assert "the head is signed by the key in" in found.stdout


def test_evidence_made_anew_under_an_old_signature_is_refused(part, kind, key):
    """Samples rewritten with everything that follows from them: the chain holds, the published head does not."""
    command("seal", part, "--key", key)
    forger = Forger(read_run(part, FILES), "anew")
    forged = forger.begin()
    forger.rewrite_samples(forged)
    EvidenceCopy(forged.records, forged.manifest, forged.copies).write(part)
    assert evaluate(part, DECLARED).status == "partial"  # the evidence alone, without the head that lies beside it
    found = command("evaluate", part, "--signature", key.with_suffix(".pub"))
    assert found.exit_code == 1
    assert "is not the head of this evidence" in found.stdout
    seal.write_head(part, read_manifest(part))  # nor does it help to write the head anew
    found = command("evaluate", part, "--signature", key.with_suffix(".pub"))
    assert found.exit_code == 1
    assert f"{PROGRAMS[kind]} refused" in found.stdout


def test_a_signature_of_another_file_is_refused(part, kind, key):
    """Of one line more, by the owner of the key, laid under the head's name."""
    command("seal", part, "--key", key)
    head = (part / "head.txt").read_bytes()
    (part / "head.txt").write_bytes(head + b"finished: yes\n")
    seal.sign_head(part, key)
    (part / "head.txt").write_bytes(head)
    found = command("evaluate", part, "--signature", key.with_suffix(".pub"))
    assert found.exit_code == 1
    assert f"{PROGRAMS[kind]} refused" in found.stdout


def test_a_signature_by_another_key_is_refused(part, kind, key, tmp_path):
    assert command("seal", part, "--key", make_key(kind, tmp_path / "other")).exit_code == 0
    assert command("evaluate", part, "--signature", key.with_suffix(".pub")).exit_code == 1


def test_a_key_with_a_passphrase_says_how_to_sign_by_hand(part, kind, tmp_path, monkeypatch):
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")  # or ssh-keygen would ask at the terminal, if there is one
    monkeypatch.setenv("SSH_ASKPASS", "false")
    key = make_key(kind, tmp_path / "key")
    locked = {
        "ssh": ["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret words", "-f", str(key)],
        "minisign": ["minisign", "-G", "-f", "-s", str(key), "-p", str(key.with_suffix(".pub"))],
    }
    subprocess.run(locked[kind], check=True, capture_output=True, input=b"secret words\nsecret words\n")
    found = command("seal", part, "--key", key)
    assert isinstance(found.exception, AuditError)
    said = str(found.exception)
    assert said.isprintable()
    assert "a key with a passphrase signs by hand" in said
    assert (part / "head.txt").is_file()


def test_a_missing_signature_or_program_is_said(part, kind, key, monkeypatch):
    found = command("evaluate", part, "--signature", key.with_suffix(".pub"))
    assert found.exit_code == 1
    assert "head.txt cannot be read" in found.stdout.replace("\n", "")
    command("seal", part)
    monkeypatch.setenv("PATH", "")
    said = command("evaluate", part, "--signature", key.with_suffix(".pub")).stdout
    assert f"{PROGRAMS[kind]} is not installed here" in said


def test_keys_of_minisign_are_told_apart(tmp_path):
    (tmp_path / "minisign.pub").write_text("untrusted comment: minisign public key\nRWQ\n")
    (tmp_path / "ssh.pub").write_text("ssh-ed25519 AAAA\n")
    assert seal.is_minisign(tmp_path / "minisign.pub")
    assert not seal.is_minisign(tmp_path / "ssh.pub")
