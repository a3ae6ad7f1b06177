"""Everything that a run left, in one file beside its folder, ready to be sent."""

import tarfile
from pathlib import Path


def pack(out: Path) -> Path:
    """Write `out`.tar.gz, whole or not at all, and return its path; names inside begin with the folder's."""
    path = out.with_name(out.name + ".tar.gz")
    half = path.with_name(path.name + ".part")
    with tarfile.open(half, "w:gz") as archive:
        for file in sorted(out.rglob("*")):
            if file.is_file() and not file.name.endswith(".part"):
                archive.add(file, arcname=str(Path(out.name) / file.relative_to(out)), recursive=False)
    half.replace(path)
    return path
