"""What every package carries: the one version, the licence, a readme that stands alone, and no pointer elsewhere."""

import importlib.util
import re
import subprocess

import pytest
from alphabet_testing.places import ROOT

PACKAGES = sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))
# Names of things that a reader of this repository does not have.
ELSEWHERE = re.compile(r"\bSPEC\b|\.\./shared\b|DEVELOPERS\.md")
# The accepted ledger carries hashes of these two; their wording is frozen until evidence hashes values, not bytes.
FROZEN = ("designs.toml", "tolerances.toml")


@pytest.fixture(scope="module")
def versions():
    found = importlib.util.spec_from_file_location("versions", ROOT / "testing" / "versions.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_there_is_one_version(versions):
    assert versions.find_differences((ROOT / "VERSION").read_text().strip()) == []


def test_another_version_is_found_wherever_it_stands(versions):
    found = versions.find_differences("9.9.9")
    assert {line.split(" says ")[0] for line in found} == {
        *(str((package / "pyproject.toml").relative_to(ROOT)) for package in PACKAGES), "CITATION.cff",
    }  # fmt: skip
    assert any('"alphabet-core==' in line for line in found)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_a_package_carries_the_licence(package):
    assert (package / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert 'license-files = ["LICENSE"]' in (package / "pyproject.toml").read_text()


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_a_readme_links_nothing_outside_its_package(package):
    assert "](../" not in (package / "README.md").read_text(encoding="utf-8")


def test_no_file_points_outside_the_repository():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [
        name for name in listed.stdout.split("\0") if name.endswith((".py", ".md", ".toml", ".txt", ".cff", ".yaml"))
    ]
    assert names
    pointing = [
        f"{name}: {line.strip()}"
        for name in names
        if name != "tests/test_packaging.py" and not name.endswith(FROZEN) and (ROOT / name).exists()
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines()
        if ELSEWHERE.search(line)
    ]
    assert pointing == []
