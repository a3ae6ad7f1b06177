"""One version for all packages, kept in VERSION at the root.

`python testing/versions.py` fails if a package declares another one; with a version, it sets that one everywhere.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "VERSION"
# A package's own version, and the versions that it requires of its siblings.
DECLARED = re.compile(r'(^version = "|"alphabet-[a-z]+==)([^"]+)(")', flags=re.MULTILINE)
CITED = re.compile(r"(^version: )(\S+)($)", flags=re.MULTILINE)


def list_places() -> list[tuple[Path, re.Pattern[str]]]:
    """Every file that repeats the version, with what finds it there."""
    projects = sorted(ROOT.glob("packages/*/pyproject.toml"))
    return [*((path, DECLARED) for path in projects), (ROOT / "CITATION.cff", CITED)]


def find_differences(version: str) -> list[str]:
    """What declares another version, one line each."""
    return [
        f"{path.relative_to(ROOT)} says {found[1].lstrip('^')}{found[2]}; VERSION says {version}"
        for path, pattern in list_places()
        for found in pattern.finditer(path.read_text(encoding="utf-8"))
        if found[2] != version
    ]


def set_version(version: str) -> None:
    """Write a version to VERSION and to every file that repeats it."""
    SOURCE.write_text(version + "\n", encoding="utf-8")
    for path, pattern in list_places():
        text = path.read_text(encoding="utf-8")
        path.write_text(pattern.sub(rf"\g<1>{version}\g<3>", text), encoding="utf-8")


def main() -> None:
    """Set the version that is given, or check that all declarations agree."""
    if len(sys.argv) > 1:
        set_version(sys.argv[1])
    version = SOURCE.read_text(encoding="utf-8").strip()
    if differences := find_differences(version):
        sys.exit("\n".join([*differences, f"run: python testing/versions.py {version}"]))
    print(f"version {version} in {len(list_places())} files")


if __name__ == "__main__":
    main()
