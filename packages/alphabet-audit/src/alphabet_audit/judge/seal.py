"""The head of a run in a form that can be published, signed and compared: what protects against evidence made anew.

Signing is left to programs that people have: ssh-keygen with an ssh key, or minisign with a key of its own.
"""

import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from alphabet_audit.errors import AuditError, printable
from alphabet_audit.evidence.canonical import Record
from alphabet_audit.evidence.chain import identity_of, read_manifest
from alphabet_audit.evidence.files import read_bounded, write_whole

HEAD, SSH_SIGNATURE, MINISIGN_SIGNATURE = "head.txt", "head.txt.sig", "head.txt.minisig"
NAMESPACE = "alphabet-audit"
MINISIGN_COMMENT = b"untrusted comment:"
LARGEST_KEY = 1 << 16
TIMEOUT_SECONDS = 60.0


def describe_head(manifest: Record) -> str:
    """The text that is published: it names one manifest and one last record, and so every byte of the evidence."""
    lines = {
        "alphabet-audit head, version": manifest["version"],
        "kind": manifest["kind"],
        "device": manifest["device"],
        "created": manifest["created"],
        "finished": "yes" if manifest["finished"] else "no",
        "records": manifest["records"],
        "last record": manifest["head"],
        "manifest": identity_of(manifest),
    }
    return "".join(f"{name}: {value}\n" for name, value in lines.items())


def write_head(folder: Path, manifest: Record) -> Path:
    """Write the head of a run into its folder; returns the path."""
    write_whole(folder / HEAD, describe_head(manifest).encode())
    return folder / HEAD


def sign_head(folder: Path, key: Path) -> Path:
    """Sign a run's head with a secret key, of ssh or of minisign; returns the path of the signature."""
    # Both programs write beside the head, under the name that the signature has here.
    if is_minisign(key):
        signature, command = folder / MINISIGN_SIGNATURE, ["minisign", "-S", "-s", str(key), "-m", str(folder / HEAD)]
    else:
        signature = folder / SSH_SIGNATURE
        command = ["ssh-keygen", "-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(folder / HEAD)]
    signature.unlink(missing_ok=True)  # or ssh-keygen would ask
    try:
        run_tool(command)
    except AuditError as error:
        raise AuditError(f"{error}; a key with a passphrase signs by hand: {shlex.join(command)}") from error
    return signature


def verify_head(folder: Path, key: Path) -> str:
    """Check that a run's head is its evidence's and is signed by the owner of a public key; returns that in words."""
    require_own_head(folder)
    if is_minisign(key):
        run_tool(["minisign", "-V", "-p", str(key), "-m", str(folder / HEAD), "-x", str(folder / MINISIGN_SIGNATURE)])
        return f"the head is signed by the key in {key}"
    public = [line for line in read_bounded(key, LARGEST_KEY).decode(errors="replace").splitlines() if line.strip()]
    signature = str(folder / SSH_SIGNATURE)
    with tempfile.TemporaryDirectory() as place:
        allowed = Path(place) / "allowed_signers"
        allowed.write_text("".join(f"signer {line}\n" for line in public), encoding="utf-8")
        command = ["ssh-keygen", "-Y", "verify", "-f", str(allowed), "-I", "signer", "-n", NAMESPACE, "-s", signature]
        run_tool(command, given=read_bounded(folder / HEAD, LARGEST_KEY))
    return f"the head is signed by the key in {key}"


def require_own_head(folder: Path) -> None:
    """Raise unless the head in a run's folder is that of its evidence."""
    if read_bounded(folder / HEAD, LARGEST_KEY) != describe_head(read_manifest(folder)).encode():
        raise AuditError(f"{folder / HEAD} is not the head of this evidence: one of them was made anew")


def is_minisign(key: Path) -> bool:
    """Whether a file holds a key of minisign; an error if it cannot be read."""
    return read_bounded(key, LARGEST_KEY).startswith(MINISIGN_COMMENT)


def run_tool(command: list[str], given: bytes = b"") -> None:
    """Run a program that signs or verifies; its complaint, or that it is not installed, is the error."""
    if shutil.which(command[0]) is None:
        raise AuditError(f"{command[0]} is not installed here: install it, or use a key of the other kind")
    try:
        done = subprocess.run(command, capture_output=True, input=given, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise AuditError(f"{command[0]} did not answer") from error
    if done.returncode:
        complaint = (done.stderr or done.stdout).decode(errors="replace").strip() or "without a message"
        raise AuditError(f"{command[0]} refused: {printable(complaint, 300)}")
