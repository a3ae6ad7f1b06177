"""What is compared and what counts as agreement: designs and tolerances, read from files that runs carry hashes of."""

import hashlib
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from alphabet_audit.declare.designs import Designs, parse_designs
from alphabet_audit.declare.tolerances import Tolerance, parse_tolerances
from alphabet_audit.errors import AuditError

DESIGNS, TOLERANCES = FILES = ("designs.toml", "tolerances.toml")
PACKAGE_DATA: Traversable = files("alphabet_audit") / "data"


@dataclass(frozen=True)
class Declarations:
    """Designs and tolerances, and the bytes of the two files, which every run copies."""

    designs: Designs
    tolerances: dict[str, Tolerance]
    contents: dict[str, bytes]

    @property
    def digests(self) -> dict[str, str]:
        """The sha256 of each file, by its name."""
        return {name: hashlib.sha256(content).hexdigest() for name, content in self.contents.items()}


def read_declarations(folder: Traversable | None = None) -> Declarations:
    """The declarations in a folder, or those that come with this package."""
    folder = PACKAGE_DATA if folder is None else folder
    contents = {}
    parsed = {}
    for name in FILES:
        path = folder / name
        try:
            contents[name] = path.read_bytes()
            parsed[name] = tomllib.loads(contents[name].decode())
        except OSError as error:
            raise AuditError(
                f"{path} cannot be read ({error.strerror}); give --audit the folder that holds it, or leave it out"
            ) from error
        except ValueError as error:  # neither TOML nor text
            raise AuditError(f"{path} is not a TOML file: {error}") from error
    return Declarations(
        parse_designs(parsed[DESIGNS], DESIGNS), parse_tolerances(parsed[TOLERANCES], TOLERANCES), contents
    )
