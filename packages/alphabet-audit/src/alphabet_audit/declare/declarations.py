"""What is compared and what counts as agreement: designs and tolerances, which runs carry by value and by hash."""

import hashlib
import json
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from alphabet_audit.declare.designs import Designs, parse_designs
from alphabet_audit.declare.tolerances import Tolerance, parse_tolerances
from alphabet_audit.errors import AuditError, printable

DESIGNS, TOLERANCES = FILES = ("designs.toml", "tolerances.toml")
PACKAGE_DATA: Traversable = files("alphabet_audit") / "data"
# What a rule holds in each version of the evidence; how it was derived may be written better at any time.
RULE_FIELDS = {1: ("floor", "slack"), 2: ("floor", "slack", "ceiling")}
LARGEST_FILE = 1 << 20


@dataclass(frozen=True)
class Declarations:
    """Designs and tolerances, the bytes of the two files, which every run copies, and where they were read."""

    designs: Designs
    tolerances: dict[str, Tolerance]
    contents: dict[str, bytes]
    source: str = "alphabet-audit's own"

    @property
    def digests(self) -> dict[str, str]:
        """The sha256 of what each file declares, whatever its comments, its reasons and its layout."""
        values = read_values(self.contents, 2)
        return {name.removesuffix(".toml"): digest_value(values[name]) for name in FILES}


def read_declarations(folder: Traversable | None = None) -> Declarations:
    """The declarations in a folder, or those that come with this package."""
    source = "alphabet-audit's own" if folder is None else str(folder)
    folder = PACKAGE_DATA if folder is None else folder
    contents = {}
    for name in FILES:
        path = folder / name
        try:
            if not path.is_file():
                raise FileNotFoundError(0, "no such file")
            with path.open("rb") as file:
                contents[name] = file.read(LARGEST_FILE + 1)
        except OSError as error:
            raise AuditError(
                f"{path} cannot be read ({error.strerror}); give --audit the folder that holds it, or leave it out"
            ) from error
    parsed = {name: parse_toml(contents[name], str(folder / name)) for name in FILES}
    return Declarations(
        parse_designs(parsed[DESIGNS], DESIGNS), parse_tolerances(parsed[TOLERANCES], TOLERANCES), contents, source
    )


@lru_cache(maxsize=16)
def parse_toml(content: bytes, source: str) -> dict[str, Any]:
    """What a TOML file declares, which nobody changes; `source` names it in errors."""
    if len(content) > LARGEST_FILE:
        raise AuditError(f"{source} is larger than {LARGEST_FILE:,} bytes: it is no file of declarations")
    try:
        return tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:  # neither TOML nor text
        raise AuditError(f"{source} is not a TOML file: {printable(error)}") from error


def read_values(contents: dict[str, bytes], version: int) -> dict[str, Any]:
    """What two files declare, as plain values, by their names: designs in their order, and each rule's numbers."""
    designs = parse_toml(contents[DESIGNS], DESIGNS)
    ordered = {name: list(value.items()) if isinstance(value, dict) else value for name, value in designs.items()}
    rules = parse_toml(contents[TOLERANCES], TOLERANCES)
    numbers = {
        name: [rule.get(field) if isinstance(rule, dict) else None for field in RULE_FIELDS[version]]
        for name, rule in rules.items()
    }
    return {DESIGNS: ordered, TOLERANCES: numbers}


def digest_value(value: object) -> str:
    """The sha256 of a value's canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
