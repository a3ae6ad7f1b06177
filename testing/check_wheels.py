"""What every built wheel and sdist must contain: `python testing/check_wheels.py DIST`."""

import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def find_missing(distribution: str, dist: Path) -> list[str]:
    """What a package's wheel and sdist lack: licence, readme, type marker, and every file under src."""
    module = distribution.replace("-", "_")
    project = ROOT / "packages" / distribution
    sources = [path for path in (project / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    (wheel,), (sdist,) = dist.glob(f"{module}-*.whl"), dist.glob(f"{module}-*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = set(archive.namelist())
        metadata = next(archive.read(name).decode() for name in in_wheel if name.endswith(".dist-info/METADATA"))
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    wanted = [
        *((wheel.name, str(path.relative_to(project / "src")), in_wheel) for path in sources),
        *((sdist.name, str(path.relative_to(project)), in_sdist) for path in sources),
        *((sdist.name, name, in_sdist) for name in ("LICENSE", "README.md", "pyproject.toml")),
        (wheel.name, f"{module}/py.typed", in_wheel),
    ]
    missing = [f"{archive} lacks {name}" for archive, name, found in wanted if name not in found]
    if not any(name.endswith("licenses/LICENSE") for name in in_wheel):
        missing.append(f"{wheel.name} lacks the licence")
    readme = (project / "README.md").read_text(encoding="utf-8").strip()
    if readme not in metadata:
        missing.append(f"{wheel.name} does not carry its readme")
    if "](../" in readme:
        missing.append(f"{distribution}'s readme links files that its distributions do not have")
    return missing


def main() -> None:
    """Check every package of the workspace; exit with what is missing."""
    dist = Path(sys.argv[1])
    names = sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml"))
    if missing := [line for name in names for line in find_missing(name, dist)]:
        sys.exit("\n".join(missing))
    print(f"{len(names)} wheels and sdists are whole: licence, readme, types and package data")


if __name__ == "__main__":
    main()
