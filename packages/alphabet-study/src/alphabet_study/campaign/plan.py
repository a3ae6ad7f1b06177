"""The plan of a campaign: its cells and all keys known beforehand, and the agenda of what can run now."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from alphabet_study.campaign.estimate import declared_size
from alphabet_study.campaign.store import Store
from alphabet_study.errors import StudyError
from alphabet_study.protocol.records import DIVERGED, FAILED, FINAL, Cell, FitKey, Job, Outcome
from alphabet_study.protocol.selection import Frozen, expected_keys, freeze, ready_jobs
from alphabet_study.protocol.settings import FAMILY_NAMES, Settings
from alphabet_study.registry.task import Task

# How many missing keys an error names.
NAMED = 10
RUN_ADVICE = (
    "`alphabet-study run` with the same tasks, families and settings completes them (--retry-failed for what failed)"
)
DIVERGED_ADVICE = "Running again gives the same; `alphabet-study table --partial` shows the rest"


@dataclass(frozen=True)
class Plan:
    """Tasks times families under some settings: 82 x 10 cells of 35 fits in the whole study."""

    tasks: tuple[Task, ...]
    families: tuple[str, ...]
    settings: Settings

    def __post_init__(self) -> None:
        for name, values in (("task", [task.name for task in self.tasks]), ("family", list(self.families))):
            if not values:
                raise StudyError(f"the plan names no {name}; name at least one by --{name}")
            if len(set(values)) != len(values):
                raise StudyError(f"the plan names a {name} twice: {', '.join(values)}")

    @cached_property
    def task_of(self) -> dict[str, Task]:
        """The tasks by name."""
        return {task.name: task for task in self.tasks}

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """The cells, those of the largest task first: what takes longest should not be left for the end."""
        ordered = sorted(self.tasks, key=lambda task: (-declared_size(task), task.name))
        return tuple(Cell(task.name, family) for task in ordered for family in self.families)

    @cached_property
    def keys(self) -> dict[Cell, list[FitKey]]:
        """The keys of all fits by cell."""
        return {cell: expected_keys(cell, self.settings) for cell in self.cells}

    @property
    def size(self) -> int:
        """The number of fits."""
        return sum(len(keys) for keys in self.keys.values())


class Agenda:
    """What of a plan can run now, given the outcomes so far; it changes as jobs are taken and outcomes come in."""

    def __init__(self, plan: Plan, outcomes: Mapping[FitKey, tuple[Job, Outcome]]) -> None:
        self.plan = plan
        # Cells that cannot be completed, with the reason.
        self.blocked: dict[Cell, str] = {}
        self._outcomes: dict[Cell, dict[FitKey, tuple[Job, Outcome]]] = {cell: {} for cell in plan.cells}
        for key, found in outcomes.items():
            self._outcomes[key.cell][key] = found
        self._left: dict[Cell, int] = {}
        self._taken: set[FitKey] = set()
        self._ready: dict[Cell, list[Job]] = {}
        for cell in plan.cells:
            self._refresh(cell)

    def next(self, preferred: str | None, elsewhere: Collection[str]) -> Job | None:
        """The job that a free worker should take, or None if nothing can run now.

        preferred: the task whose data the worker already has. elsewhere: tasks that other workers are at; they are
        joined only when no other task is left.
        """
        candidates = [cell for cell in self.plan.cells if cell in self._ready]
        for wanted in (
            [cell for cell in candidates if cell.task == preferred],
            [cell for cell in candidates if cell.task not in elsewhere],
            candidates,
        ):
            if wanted:
                return self._take(wanted[0])
        return None

    def any_ready(self) -> bool:
        """Whether some job can run now."""
        return bool(self._ready)

    def finish(self, job: Job, outcome: Outcome) -> None:
        """Note an outcome; what it was the last condition for can run from now on."""
        cell = job.key.cell
        self._taken.discard(job.key)
        self._outcomes[cell][job.key] = (job, outcome)
        self._refresh(cell)

    def frozen(self, cell: Cell) -> Frozen:
        """The configuration that selection froze for a cell whose finals can run."""
        return freeze(cell, self.plan.task_of[cell.task], self.plan.settings, self._outcomes[cell])

    @property
    def left(self) -> dict[Cell, int]:
        """The number of fits without a record, by cell, for all cells that are not complete."""
        return {cell: count for cell, count in self._left.items() if count}

    def _take(self, cell: Cell) -> Job:
        job = self._ready[cell].pop(0)
        if not self._ready[cell]:
            del self._ready[cell]
        self._taken.add(job.key)
        return job

    def _refresh(self, cell: Cell) -> None:
        outcomes = self._outcomes[cell]
        # Counted here and not whenever it is asked for: the display asks several times a second. A record that the plan
        # does not know completes nothing.
        self._left[cell] = len(set(self.plan.keys[cell]) - outcomes.keys())
        try:
            jobs = ready_jobs(cell, self.plan.task_of[cell.task], self.plan.settings, outcomes)
        except StudyError as error:
            jobs, self.blocked[cell] = [], str(error)
        self._ready.pop(cell, None)
        if jobs := [job for job in jobs if job.key not in self._taken]:
            self._ready[cell] = jobs
        failed = sum(outcome.status == FAILED for _, outcome in outcomes.values())
        if failed:
            self.blocked[cell] = f"{cell}: {failed} failed fit(s); `--retry-failed` runs them again"
        elif diverged := [key for key in self.plan.keys[cell] if _diverged_final(key, outcomes)]:
            self.blocked[cell] = f"{cell}: {len(diverged)} final fit(s) diverged: {_name(diverged)}. {DIVERGED_ADVICE}"


def complete_outcomes(
    store: Store, cells: Sequence[Cell], tasks: Mapping[str, Task] | None = None
) -> dict[FitKey, tuple[Job, Outcome]]:
    """The outcomes of these cells, all of them: missing or failed fits and diverged finals are refused by name.

    So are records of fits that no plan has. tasks: where given, by name, also require that every final was trained
    under what its selection froze.
    """
    settings = store.settings
    outcomes = store.outcomes(set(cells))
    refuse_beyond_plan(store.path, settings, outcomes)
    expected = [key for cell in cells for key in expected_keys(cell, settings)]
    for words, keys, advice in (
        ("have no record", [key for key in expected if key not in outcomes], RUN_ADVICE),
        ("failed", [key for key in expected if key in outcomes and outcomes[key][1].status == FAILED], RUN_ADVICE),
        ("are finals that diverged", [key for key in expected if _diverged_final(key, outcomes)], DIVERGED_ADVICE),
    ):
        if keys:
            raise StudyError(f"{store.path}: {len(keys):,} of {len(expected):,} fits {words}: {_name(keys)}. {advice}")
    if tasks is not None:
        for cell in cells:
            check_seal(cell, _find_task(cell, tasks), settings, outcomes)
    return outcomes


def find_faults(store: Store, cells: Sequence[Cell], tasks: Mapping[str, Task]) -> dict[Cell, str]:
    """Why the finals of cells cannot be trusted, by cell: their selection is not complete, or froze something else.

    Cells without finals have nothing to distrust yet; that seeds of the final are missing is for others to say. Records
    of fits that no plan has are refused by name.
    """
    settings, outcomes = store.settings, store.outcomes(set(cells))
    refuse_beyond_plan(store.path, settings, outcomes)
    faults = {}
    for cell in cells:
        expected = expected_keys(cell, settings)
        if not any(key.stage == FINAL and key in outcomes for key in expected):
            continue
        selection = [key for key in expected if key.stage != FINAL]
        lacking = [key for key in selection if key not in outcomes or outcomes[key][1].status == FAILED]
        if lacking:
            faults[cell] = f"{len(lacking)} of {len(selection)} fits of the selection are missing: {_name(lacking)}"
            continue
        try:
            check_seal(cell, _find_task(cell, tasks), settings, outcomes)
        except StudyError as error:
            faults[cell] = str(error)
    return faults


def refuse_beyond_plan(path: Path, settings: Settings, keys: Collection[FitKey]) -> None:
    """Refuse, by name, records of fits that no plan with these settings has: whose they are cannot be known."""
    cells = {key.cell for key in keys}
    expected = {key for cell in cells if cell.family in FAMILY_NAMES for key in expected_keys(cell, settings)}
    beyond = [key for key in keys if key not in expected]
    if beyond:
        raise StudyError(
            f"{path}: {len(beyond):,} of {len(keys):,} records are of fits that no plan with the settings "
            f"{settings.name!r} has: {_name(beyond)}. They come from another version, or were written by hand: delete "
            "them from the table `fits` of a copy, or import an export that lacks them into a new store"
        )


def check_seal(cell: Cell, task: Task, settings: Settings, outcomes: Mapping[FitKey, tuple[Job, Outcome]]) -> None:
    """Refuse finals that were trained under something else than what the selection of their cell froze."""
    finals = [key for key in expected_keys(cell, settings) if key.stage == FINAL and key in outcomes]
    if not finals:
        return
    frozen = freeze(cell, task, settings, outcomes)
    given = (frozen.digest(), frozen.candidate, frozen.epochs)
    for key in finals:
        job = outcomes[key][0]
        if (job.frozen, job.candidate, job.epochs) != given:
            raise StudyError(
                f"{key}: trained under the frozen configuration {job.frozen}, but the selection of {cell} gives "
                f"{given[0]} ({job.candidate} and epochs {job.epochs} there, {given[1]} and {given[2]} here): "
                "records of different campaigns were mixed"
            )


def _diverged_final(key: FitKey, outcomes: Mapping[FitKey, tuple[Job, Outcome]]) -> bool:
    return key.stage == FINAL and key in outcomes and outcomes[key][1].status == DIVERGED


def _name(keys: Sequence[FitKey]) -> str:
    return ", ".join(map(str, keys[:NAMED])) + (", ..." if len(keys) > NAMED else "")


def _find_task(cell: Cell, tasks: Mapping[str, Task]) -> Task:
    if cell.task not in tasks:
        raise StudyError(f"{cell}: there is no task {cell.task} here; use the version that recorded it")
    return tasks[cell.task]
