"""Two-stage selection as pure functions of the records so far: what can run next, and what is frozen."""

import hashlib
import json
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from alphabet_study.errors import StudyError
from alphabet_study.protocol.records import CONFIRM, DIVERGED, DONE, FAILED, FINAL, SCREEN, Cell, FitKey, Job, Outcome
from alphabet_study.protocol.settings import Settings
from alphabet_study.registry.task import DIRECTIONS, Task

Outcomes = Mapping[FitKey, tuple[Job, Outcome]]


@dataclass(frozen=True)
class Frozen:
    """The configuration that selection froze for a cell: all that final training may depend on.

    epochs: the rounded median of the checkpoint epochs at the selection seeds, where the final trains on all of TRAIN;
    None where it restores the checkpoint of the lowest validation loss.
    """

    cell: Cell
    candidate: str
    epochs: int | None
    mean_score: float
    settings: str

    def digest(self) -> str:
        """The hash under which TEST is opened."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def expected_keys(cell: Cell, settings: Settings) -> list[FitKey]:
    """The keys of all fits of a cell, known before anything has run."""
    count = len(settings.candidates(cell.family))
    slots = [(SCREEN, slot, settings.screen_seed) for slot in range(count)]
    slots += [(CONFIRM, slot, seed) for slot in range(settings.kept) for seed in settings.confirm_seeds]
    slots += [(FINAL, 0, seed) for seed in settings.final_seeds]
    return [FitKey(cell.task, cell.family, stage, slot, seed) for stage, slot, seed in slots]


def ready_jobs(cell: Cell, task: Task, settings: Settings, outcomes: Outcomes) -> list[Job]:
    """The jobs of a cell that can run now and have no record yet.

    A failed fit blocks the stages behind it: a choice among survivors would depend on what crashed.
    """
    listed = settings.candidates(cell.family)
    jobs = [
        Job(FitKey(cell.task, cell.family, SCREEN, slot, settings.screen_seed), candidate.key)
        for slot, candidate in enumerate(listed)
    ]
    if _complete(jobs, outcomes):
        kept = _screened(cell, task, settings, outcomes)
        confirm = [
            Job(FitKey(cell.task, cell.family, CONFIRM, slot, seed), candidate)
            for slot, candidate in enumerate(kept)
            for seed in settings.confirm_seeds
        ]
        jobs += confirm
        if _complete(confirm, outcomes):
            frozen = freeze(cell, task, settings, outcomes)
            jobs += [
                Job(FitKey(cell.task, cell.family, FINAL, 0, seed), frozen.candidate, frozen.epochs, frozen.digest())
                for seed in settings.final_seeds
            ]
    return [job for job in jobs if job.key not in outcomes]


def freeze(cell: Cell, task: Task, settings: Settings, outcomes: Outcomes) -> Frozen:
    """The configuration with the best mean validation score over the selection seeds; exact ties by the lower key."""
    kept = _screened(cell, task, settings, outcomes)
    scores: dict[str, list[float]] = {}
    epochs: dict[str, list[int]] = {}
    for slot, candidate in enumerate(kept):
        position = [listed.key for listed in settings.candidates(cell.family)].index(candidate)
        keys = [FitKey(cell.task, cell.family, SCREEN, position, settings.screen_seed)]
        keys += [FitKey(cell.task, cell.family, CONFIRM, slot, seed) for seed in settings.confirm_seeds]
        found = [_finished(key, candidate, outcomes) for key in keys]
        scores[candidate] = [_comparable(outcome, task) for outcome in found]
        epochs[candidate] = [outcome.best_epoch or 1 for outcome in found]
    means = {candidate: statistics.fmean(values) for candidate, values in scores.items()}
    best = min(means, key=lambda candidate: (-means[candidate], candidate))
    if means[best] == float("-inf"):
        raise StudyError(f"{cell}: every confirmed candidate diverged at some seed; nothing can be frozen")
    full = task.final_training == "full-train"
    mean = means[best] if DIRECTIONS[task.selection_metric] == "max" else -means[best]
    return Frozen(
        cell=cell,
        candidate=best,
        epochs=round_half_up(statistics.median(epochs[best])) if full else None,
        mean_score=mean,
        settings=settings.digest(),
    )


def round_half_up(value: float) -> int:
    """The nearest integer; a half goes up, where Python's own rounding would go to the even neighbour."""
    return int(value + 0.5)


def _screened(cell: Cell, task: Task, settings: Settings, outcomes: Outcomes) -> list[str]:
    """The candidates that go on to the confirmation, best first; exact ties by the lower key."""
    ranked = []
    for slot, candidate in enumerate(settings.candidates(cell.family)):
        key = FitKey(cell.task, cell.family, SCREEN, slot, settings.screen_seed)
        outcome = _finished(key, candidate.key, outcomes)
        ranked.append((-_comparable(outcome, task), candidate.key))
    return [key for _, key in sorted(ranked)[: settings.kept]]


def _comparable(outcome: Outcome, task: Task) -> float:
    """The validation score with larger as better; what diverged ranks behind everything."""
    if outcome.status == DIVERGED:
        return float("-inf")
    assert outcome.score is not None
    return outcome.score if DIRECTIONS[task.selection_metric] == "max" else -outcome.score


def _finished(key: FitKey, candidate: str, outcomes: Outcomes) -> Outcome:
    """The outcome of a fit that selection reads, which must be one of the candidate that belongs in its slot."""
    if key not in outcomes:
        raise StudyError(f"{key} has no record yet; run the campaign again, it goes on where it stopped")
    job, outcome = outcomes[key]
    if job.candidate != candidate:
        raise StudyError(
            f"{key}: the record is of the candidate {job.candidate}, but {candidate} belongs in this slot: records of "
            "different campaigns or versions were mixed; use a new store"
        )
    if outcome.status == FAILED:
        raise StudyError(f"{key} failed; `alphabet-study run --retry-failed` runs it again")
    return outcome


def _complete(jobs: list[Job], outcomes: Outcomes) -> bool:
    return all(job.key in outcomes and outcomes[job.key][1].status in (DONE, DIVERGED) for job in jobs)
