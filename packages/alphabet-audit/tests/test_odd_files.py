"""Whatever a file holds or is, the commands end in a verdict or in one line (points 13, 16 and 19)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from alphabet_audit import AuditError, read_declarations
from alphabet_audit.evidence.chain import MANIFEST, RECORDS
from alphabet_testing.audit.commands import command

DECLARED = read_declarations()
FULL = Path("/dev/full")
ODD_MANIFESTS = {
    "infinity by overflow": lambda text: text.replace('"torch": 2', '"torch": 1e999', 1),
    "a number of 5,000 digits": lambda text: text.replace('"torch": 2', '"torch": ' + "9" * 5000, 1),
    "a hundred thousand brackets": lambda text: "[" * 100_000,
    "a lone surrogate": lambda text: text.replace("a processor", "\\ud800 a processor", 1),
    "a word": lambda text: '"manifest"',
    "nothing": lambda text: "",
    "a version that is true": lambda text: text.replace('"version": 2', '"version": true'),
    "point 16, a name twice": lambda text: text.replace('"device": "cpu"', '"device": "cuda", "device": "cpu"', 1),
    "point 16, a name twice inside": lambda text: text.replace('"cores": 2', '"cores": 64, "cores": 2', 1),
}


@pytest.mark.parametrize("name", ODD_MANIFESTS)
def test_points_13_and_16_an_odd_manifest_is_a_reason(name, part):
    text = (part / MANIFEST).read_text()
    odd = ODD_MANIFESTS[name](text)
    assert odd != text
    (part / MANIFEST).write_text(odd)
    found = command("evaluate", part)
    assert (found.exit_code, found.stdout[:11]) == (1, "status=fail")
    assert isinstance(found.exception, SystemExit)
    for name in ("report", "seal"):
        refused = command(name, part)
        assert isinstance(refused.exception, AuditError), refused.exception


@pytest.mark.parametrize("value", ["inf", "-1", "nan", "true", "1e400", '"two"', "0", "[2]"])
def test_point_13_an_odd_number_in_the_designs_is_refused_in_words(value, tmp_path):
    for name, content in DECLARED.contents.items():
        (tmp_path / name).write_bytes(content.replace(b"channels = 2", b"channels = " + value.encode()))
    with pytest.raises(AuditError, match="channels"):
        read_declarations(tmp_path)


@pytest.mark.parametrize("name", [RECORDS, MANIFEST, "designs.toml", "report.md"])
def test_point_19_a_pipe_or_an_endless_file_does_not_hang(name, part):
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        (part / name).unlink(missing_ok=True)
        make(part / name)
        run = subprocess.run(
            [sys.executable, "-m", "alphabet_audit", "evaluate", str(part)], capture_output=True, text=True, timeout=60
        )
        assert run.returncode == 1
        assert "is not a regular file" in run.stdout
        assert "Traceback" not in run.stderr


def test_a_link_to_itself_or_a_folder_is_no_file(part):
    for name in (MANIFEST, RECORDS):
        whole = (part / name).read_bytes()
        (part / name).unlink()
        (part / name).symlink_to(part / name)
        assert command("evaluate", part).exit_code == 1
        (part / name).unlink()
        (part / name).mkdir()
        assert command("evaluate", part).exit_code == 1
        (part / name).rmdir()
        (part / name).write_bytes(whole)
    assert command("evaluate", part).exit_code == 3


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("name", ["evaluate", "report", "seal"])
def test_a_terminal_that_cannot_be_written_to_ends_in_one_line(name, part):
    with FULL.open("w") as full:
        command_line = [sys.executable, "-m", "alphabet_audit", name, str(part)]
        run = subprocess.run(command_line, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert run.returncode == 2
    assert run.stderr == "alphabet-audit: a file cannot be read or written (No space left on device)\n"
