"""The model's configuration: frozen, validated, serializable."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

from alphabet_core.arguments import require_count
from alphabet_core.errors import AlphabetError

# Each structural variant of the paper's ablation is a few fields of the same configuration.
VARIANTS: dict[str, dict[str, Any]] = {
    "full": {},
    "one-scan": {"cascaded": False, "synthesis": False},
    "no-synthesis": {"synthesis": False},
    "fixed-poles": {"trainable_poles": False},
    "energy-only": {"energy_hidden": 13},
}


@dataclass(frozen=True)
class AlphabetConfig:
    """The sizes and the structure of an `Alphabet`.

    channels C, width D, modes M per bank (2M <= D), outputs K, lags of the modal moments.
    cascaded: the second, analysis-only bank exists.
    synthesis: the direct bank's states are synthesized back into the feature trajectory.
    trainable_poles: poles are learned; otherwise they are drawn at random and stay.
    energy_hidden: None for the affine head on the whole descriptor; a number of hidden units for an MLP that reads
    only the lag-zero energies.
    """

    channels: int
    width: int
    modes: int
    outputs: int
    lags: tuple[int, ...] = (1, 2, 4)
    cascaded: bool = True
    synthesis: bool = True
    trainable_poles: bool = True
    energy_hidden: int | None = None

    def __post_init__(self) -> None:
        for name in ("channels", "width", "modes", "outputs"):
            require_count(name, getattr(self, name))
        if not isinstance(self.lags, tuple | list) or len(self.lags) == 0:
            raise AlphabetError(f"lags must be a non-empty tuple of token lags, such as (1, 2, 4); got {self.lags!r}")
        object.__setattr__(self, "lags", tuple(self.lags))
        for position, lag in enumerate(self.lags):
            require_count(f"lags[{position}]", lag)
        if len(set(self.lags)) != len(self.lags):
            raise AlphabetError(f"lags must be distinct; got {self.lags}")
        for name in ("cascaded", "synthesis", "trainable_poles"):
            if not isinstance(getattr(self, name), bool):
                raise AlphabetError(f"{name} must be True or False; got {getattr(self, name)!r}")
        if self.energy_hidden is not None:
            require_count("energy_hidden", self.energy_hidden)
        if 2 * self.modes > self.width:
            raise AlphabetError(
                f"modes={self.modes} needs a frame of 2 * modes = {2 * self.modes} orthonormal columns, but "
                f"width={self.width} allows at most {self.width}; use modes <= {self.width // 2} or "
                f"width >= {2 * self.modes}"
            )
        if self.synthesis and not self.cascaded:
            raise AlphabetError(
                "synthesis=True needs the cascaded bank, which reads the synthesized trajectory; "
                "with cascaded=False pass synthesis=False"
            )

    @classmethod
    def variant(cls, name: str, /, **sizes: Any) -> Self:
        """The configuration of a structural variant, one of `VARIANTS`, at the given sizes."""
        if not isinstance(name, str) or name not in VARIANTS:
            raise AlphabetError(f"variant must be one of {', '.join(VARIANTS)}; got {name!r}")
        return cls(**{**VARIANTS[name], **sizes})

    @property
    def banks(self) -> int:
        """The number of banks: two, or one without the cascaded bank."""
        return 2 if self.cascaded else 1

    @property
    def coordinates(self) -> int:
        """The number of descriptor coordinates of one pole: its log energy, then two per lag."""
        return 1 + 2 * len(self.lags)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values, ready for JSON."""
        return {**dataclasses.asdict(self), "lags": list(self.lags)}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """The configuration that `to_dict` wrote."""
        if not isinstance(fields, dict):
            raise AlphabetError(f"fields must be a dictionary, as to_dict returns; got {type(fields).__name__}")
        known = {field.name for field in dataclasses.fields(cls)}
        if unknown := sorted(set(fields) - known):
            raise AlphabetError(f"unknown configuration fields {unknown}; expected a subset of {sorted(known)}")
        if missing := sorted({"channels", "width", "modes", "outputs"} - set(fields)):
            raise AlphabetError(f"configuration fields {missing} are missing; a configuration needs all four sizes")
        return cls(**fields)
