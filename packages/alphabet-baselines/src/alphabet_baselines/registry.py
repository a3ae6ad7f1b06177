"""The families, their structural choices and their candidates: the paper's configuration table, literally."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from alphabet_core import RECIPES, SCANS, Alphabet, AlphabetConfig, AlphabetError, Recipe
from torch import nn

from alphabet_baselines import cnn1d, gru, lru, lstm, mamba, s4d, s5, tcn, transformer
from alphabet_baselines.family_model import FamilyModel
from alphabet_baselines.pooling import MEAN, MEAN_MAX, MEAN_MAX_LAST
from alphabet_baselines.tokens import check_metadata, count_inputs

Choice = tuple[int, ...]


@dataclass(frozen=True)
class Family:
    """One family of models.

    title: its name in the paper's tables. axes: what the two numbers of a structural choice are. choices: the two
    choices, the smaller and faster one first. algorithms: the exact algorithms by name, the default first.
    """

    title: str
    backbone: Callable[..., nn.Module]
    axes: tuple[str, str]
    choices: tuple[Choice, Choice]
    pools: tuple[str, ...]
    algorithms: tuple[str, ...]


FAMILIES: dict[str, Family] = {
    "cnn1d": Family("CNN1D", cnn1d.CNN1D, ("depth", "kernel"), ((2, 3), (4, 5)), MEAN_MAX, cnn1d.ALGORITHMS),
    "tcn": Family("TCN", tcn.TCN, ("depth", "kernel"), ((3, 3), (5, 5)), MEAN, tcn.ALGORITHMS),
    "transformer": Family(
        "Transformer", transformer.Transformer, ("depth", "heads"), ((1, 2), (2, 4)), MEAN_MAX, transformer.ALGORITHMS
    ),
    "mamba": Family("Mamba", mamba.Mamba, ("state", "kernel"), ((16, 3), (32, 4)), MEAN_MAX_LAST, mamba.ALGORITHMS),
    "s4d": Family("S4D", s4d.S4D, ("depth", "state"), ((1, 16), (3, 16)), MEAN, s4d.ALGORITHMS),
    "s5": Family("S5", s5.S5, ("depth", "state"), ((1, 16), (2, 32)), MEAN, s5.ALGORITHMS),
    "lru": Family("LRU", lru.LRU, ("depth", "state"), ((1, 16), (2, 32)), MEAN, lru.ALGORITHMS),
    "gru": Family("GRU", gru.GRU, ("depth", "state"), ((1, 16), (2, 32)), MEAN_MAX_LAST, gru.ALGORITHMS),
    "lstm": Family("LSTM", lstm.LSTM, ("depth", "state"), ((1, 16), (2, 32)), MEAN_MAX_LAST, lstm.ALGORITHMS),
}

WIDTHS = (32, 64, 128)
# ALPHABET's own schedule of (width, modes), with the same three recipes.
ALPHABET_PAIRS = ((32, 8), (32, 16), (64, 16), (64, 32), (128, 16), (128, 32))
MICROBATCHES = {128: 32}


@dataclass(frozen=True, order=True)
class Candidate:
    """One configuration that selection may choose. Candidates sort by their key, which breaks exact ties."""

    key: str
    family: str
    width: int
    choice: Choice
    recipe_name: str

    @property
    def recipe(self) -> Recipe:
        """The recipe by which this candidate is optimized."""
        return RECIPES[self.recipe_name]

    @property
    def microbatch(self) -> int | None:
        """The size of a microbatch: 32 at width 128, of which two make a batch; None elsewhere, for the whole batch."""
        return MICROBATCHES.get(self.width)

    def build(self, *, channels: int, outputs: int, metadata: Sequence[str] = ()) -> nn.Module:
        """A fresh model of this configuration, drawn with torch's current random state."""
        return build(
            self.family,
            channels=channels,
            outputs=outputs,
            width=self.width,
            choice=self.choice,
            metadata=metadata,
        )


def candidates(family: str) -> tuple[Candidate, ...]:
    """The 18 candidates of a family or of "alphabet", in the order of their keys: smaller models first."""
    if family == "alphabet":
        shapes: list[tuple[int, Choice]] = [(width, (modes,)) for width, modes in ALPHABET_PAIRS]
    else:
        shapes = [(width, choice) for width in WIDTHS for choice in find_family(family).choices]
    return tuple(
        Candidate(_key(family, width, choice, recipe), family, width, choice, recipe)
        for width, choice in shapes
        for recipe in RECIPES
    )


def build(
    family: str,
    *,
    channels: int,
    outputs: int,
    width: int,
    choice: Choice,
    metadata: Sequence[str] = (),
    algorithm: str | None = None,
) -> nn.Module:
    """A fresh model of a family at any width, drawn with torch's current random state.

    choice: one of `FAMILIES[family].choices`; for "alphabet", (modes,). metadata: what enters a model as extra
    channels, out of "observed" and "time_delta"; ALPHABET reads all metadata as they are and needs no channel.
    algorithm: one of `FAMILIES[family].algorithms`; all compute the same function from the same state dict.
    """
    for name, size in (("channels", channels), ("outputs", outputs), ("width", width)):
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise AlphabetError(f"{name} must be a positive integer; got {size!r}")
    metadata = check_metadata(metadata)
    if family == "alphabet":
        return _build_alphabet(channels, outputs, width, choice, algorithm)
    entry = find_family(family)
    if not isinstance(choice, tuple) or repr(choice) not in map(repr, entry.choices):  # (1.0, 16) == (1, 16)
        axes = ", ".join(entry.axes)
        raise AlphabetError(
            f"choice of {family} must be one of the tuples {entry.choices}, each ({axes}); got {choice!r}"
        )
    algorithm = _check_algorithm(family, algorithm, entry.algorithms)
    backbone = entry.backbone(count_inputs(channels, metadata), width, *choice, algorithm=algorithm)
    return FamilyModel(backbone, channels=channels, outputs=outputs, width=width, pools=entry.pools, metadata=metadata)


def find_family(family: str) -> Family:
    """The family's entry, or an error that lists the names."""
    if not isinstance(family, str) or family not in FAMILIES:
        raise AlphabetError(
            f"family must be one of {', '.join(FAMILIES)}, or alphabet for the model itself; got {family!r}"
        )
    return FAMILIES[family]


def _build_alphabet(channels: int, outputs: int, width: int, choice: Choice, algorithm: str | None) -> Alphabet:
    if not isinstance(choice, tuple) or len(choice) != 1:
        raise AlphabetError(f"choice of alphabet must be (modes,); got {choice!r}")
    scan = SCANS[_check_algorithm("alphabet", algorithm, ("chunked", "associative", "sequential"))]
    return Alphabet(AlphabetConfig(channels=channels, width=width, modes=choice[0], outputs=outputs), scan=scan)


def _check_algorithm(family: str, algorithm: str | None, known: tuple[str, ...]) -> str:
    if algorithm is None:
        return known[0]
    if algorithm not in known:
        raise AlphabetError(f"algorithm of {family} must be one of {', '.join(known)}; got {algorithm!r}")
    return algorithm


def _key(family: str, width: int, choice: Choice, recipe: str) -> str:
    """The key of a candidate, zero-padded so that text order is the order of capacity."""
    return f"{family}/{width:03d}/{'x'.join(f'{size:02d}' for size in choice)}/{recipe}"
