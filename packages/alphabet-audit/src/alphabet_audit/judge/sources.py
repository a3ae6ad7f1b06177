"""Whether the sources that a run recorded are those of the commit that it names, asked of a checkout by git."""

import subprocess
from pathlib import Path

from alphabet_audit.errors import AuditError, printable
from alphabet_audit.evidence.canonical import Record, hash_of, hash_tree
from alphabet_audit.evidence.environment_form import OURS
from alphabet_audit.judge.run import Reasons

TIMEOUT_SECONDS = 60.0


def check_commit(manifest: Record, checkout: Path) -> Reasons:
    """Every recorded hash of our packages is that of the commit; yields what is not so, or why it cannot be said."""
    git = manifest["environment"]["git"]
    if git is None:
        yield "no commit is recorded to compare the sources with"
        return
    for name in OURS:
        try:
            files = hash_commit(checkout, git["commit"], name)
        except AuditError as error:
            yield str(error)
            return
        if manifest["version"] > 1:
            if manifest["environment"]["sources"][name] != hash_tree(files):
                yield f"the sources of {name} are not those of commit {git['commit'][:12]}"
            continue
        found = {
            path.removeprefix(f"{name}/"): digest
            for path, digest in manifest["environment"]["imports"].items()
            if path.startswith(f"{name}/")
        }
        wanted = {path: digest for path, digest in files.items() if path.endswith(".py")}
        odd = sorted(path for path in {*found, *wanted} if found.get(path) != wanted.get(path))
        if odd:
            shown = ", ".join(odd[:3])
            yield f"{name}: {len(odd)} recorded sources are not those of commit {git['commit'][:12]}: {shown}"


def hash_commit(checkout: Path, commit: str, package: str) -> dict[str, str]:
    """The sha256 of every file of a package in a commit, by its path below the package."""
    folder = f"packages/{package.replace('_', '-')}/src/{package}"
    listed = ask_git(checkout, "ls-tree", "-r", "-z", "--name-only", commit, "--", f"{folder}/").split(b"\0")
    paths = [path.decode() for path in listed if path]
    return {
        path.removeprefix(f"{folder}/"): hash_of(ask_git(checkout, "cat-file", "blob", f"{commit}:{path}"))
        for path in paths
    }


def ask_git(checkout: Path, *arguments: str) -> bytes:
    """What git answers in a checkout."""
    command = ["git", "-C", str(checkout), *arguments]
    try:
        return subprocess.run(command, capture_output=True, timeout=TIMEOUT_SECONDS, check=True).stdout
    except subprocess.CalledProcessError as error:
        complaint = printable(error.stderr.decode(errors="replace").strip(), 200)
        raise AuditError(f"git cannot answer in {checkout}: {complaint}") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise AuditError(f"git cannot be asked in {checkout}: {printable(error)}") from error
