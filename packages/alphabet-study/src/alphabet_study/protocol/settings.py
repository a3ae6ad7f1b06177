"""The protocol's numbers, in one place: the paper's own, and a small one that finishes in minutes."""

import hashlib
import json
from dataclasses import asdict, dataclass

from alphabet_baselines import FAMILIES, Candidate, candidates

from alphabet_study.errors import StudyError

# ALPHABET started on the data by `alphabet_core.adapt`: an extension of ours, a row of its own beside the paper's.
ADAPTED = "alphabet-adapted"
FAMILY_NAMES = ("alphabet", *FAMILIES, ADAPTED)


@dataclass(frozen=True)
class Settings:
    """How configurations are selected and trained.

    screen_seed evaluates every candidate, the best `kept` go on to confirm_seeds, the best mean over all of those seeds
    is frozen and trained with final_seeds. recipes and shapes, where given, restrict the candidates of every family:
    shapes are positions in its list of (width, choice).
    """

    name: str = "paper"
    screen_seed: int = 7
    confirm_seeds: tuple[int, ...] = (11, 19)
    final_seeds: tuple[int, ...] = (23, 31, 43, 47, 59)
    kept: int = 6
    epochs: int = 100
    patience: int = 8
    validation_share: float = 0.2
    split_seed: int = 0
    recipes: tuple[str, ...] = ("A", "B", "C")
    shapes: tuple[int, ...] = (0, 1, 2, 3, 4, 5)

    def __post_init__(self) -> None:
        count = len(self.recipes) * len(self.shapes)
        if not 1 <= self.kept <= count:
            raise StudyError(f"kept must lie in 1 ... {count}, the number of candidates; got {self.kept}")
        if not 0.0 < self.validation_share < 1.0:
            raise StudyError(f"validation_share must lie between 0 and 1; got {self.validation_share}")
        seeds = (self.screen_seed, *self.confirm_seeds, *self.final_seeds)
        if len(set(seeds)) != len(seeds):
            raise StudyError(f"seeds of the three stages must be distinct; got {seeds}")

    @property
    def selection_seeds(self) -> tuple[int, ...]:
        """The seeds whose mean validation score decides."""
        return (self.screen_seed, *self.confirm_seeds)

    @property
    def fits_per_cell(self) -> int:
        """The number of fits of one task and family: 35 in the paper's protocol."""
        screened = len(self.recipes) * len(self.shapes)
        return screened + self.kept * len(self.confirm_seeds) + len(self.final_seeds)

    def candidates(self, family: str) -> tuple[Candidate, ...]:
        """The candidates of a family, in the order of their keys."""
        listed = candidates("alphabet" if family == ADAPTED else family)
        shapes = list(dict.fromkeys((candidate.width, candidate.choice) for candidate in listed))
        wanted = [shapes[position] for position in self.shapes]
        return tuple(
            candidate
            for candidate in listed
            if (candidate.width, candidate.choice) in wanted and candidate.recipe_name in self.recipes
        )

    def digest(self) -> str:
        """A hash of every number above: campaigns with different protocols never mix."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


PAPER = Settings()
# One width, one structure, two recipes, two final seeds: the whole path of the protocol in a minute or so.
SMALL = Settings(
    name="small", kept=2, epochs=30, recipes=("B", "C"), shapes=(0, 2), confirm_seeds=(11,), final_seeds=(23, 31)
)
SETTINGS = {settings.name: settings for settings in (PAPER, SMALL)}
