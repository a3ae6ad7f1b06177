"""The files under audit/ that say what is compared and what counts as agreement, with their hashes."""

import hashlib
import tomllib
from dataclasses import dataclass
from pathlib import Path

from alphabet_audit.designs import Designs, parse_designs
from alphabet_audit.errors import AuditError
from alphabet_audit.tolerances import Tolerance, parse_tolerances

DESIGNS, TOLERANCES = FILES = ("designs.toml", "tolerances.toml")


@dataclass(frozen=True)
class Declarations:
    """Designs and tolerances; digests: sha256 of each file as it stands; contents: the files, for a run's own copy."""

    designs: Designs
    tolerances: dict[str, Tolerance]
    contents: dict[str, bytes]

    @property
    def digests(self) -> dict[str, str]:
        return {name: hashlib.sha256(content).hexdigest() for name, content in self.contents.items()}


def read_declarations(folder: Path) -> Declarations:
    """What the two files in a folder say."""
    contents = {}
    parsed = {}
    for name in FILES:
        path = folder / name
        try:
            contents[name] = path.read_bytes()
            parsed[name] = tomllib.loads(contents[name].decode())
        except OSError as error:
            raise AuditError(
                f"{path} cannot be read ({error.strerror}); --audit names the folder that holds it"
            ) from error
        except ValueError as error:  # neither TOML nor text
            raise AuditError(f"{path} is not a TOML file: {error}") from error
    return Declarations(
        parse_designs(parsed[DESIGNS], DESIGNS), parse_tolerances(parsed[TOLERANCES], TOLERANCES), contents
    )


def find_audit(given: Path | None = None) -> Path:
    """The folder that was named, or the project's: the nearest `audit` above here or above this package."""
    if given is not None:
        return given
    for start in (Path.cwd(), Path(__file__).resolve().parent):
        for folder in (start, *start.parents):
            if all((folder / "audit" / name).is_file() for name in FILES):
                return folder / "audit"
    raise AuditError(
        f"no folder audit/ with {' and '.join(FILES)} here or above; run inside the project or give --audit DIR"
    )
