"""The vocabulary of a campaign: the key of a fit, the job that it is, and the record that remains of it."""

from dataclasses import dataclass, field

SCREEN, CONFIRM, FINAL = "screen", "confirm", "final"
STAGES = (SCREEN, CONFIRM, FINAL)
DONE, DIVERGED, FAILED = "done", "diverged", "failed"


@dataclass(frozen=True, order=True)
class Cell:
    """One task and one family: what selection freezes one configuration for."""

    task: str
    family: str

    def __str__(self) -> str:
        return f"{self.task}/{self.family}"


@dataclass(frozen=True, order=True)
class FitKey:
    """The name of one fit, known before anything has run.

    slot: in the screen the candidate's position in its family's list, in the confirmation the rank that the screen gave
    it (0 is best), 0 in the final.
    """

    task: str
    family: str
    stage: str
    slot: int
    seed: int

    @property
    def cell(self) -> Cell:
        """The task and family that this fit belongs to."""
        return Cell(self.task, self.family)

    def __str__(self) -> str:
        return f"{self.task}/{self.family}/{self.stage}/{self.slot}/{self.seed}"


@dataclass(frozen=True)
class Job:
    """A fit that can run now: the key, the candidate that fills its slot, and what the final needs to know.

    epochs: how long to train without validation, for a final on all of TRAIN; None elsewhere. frozen: in the final, the
    hash of the frozen configuration under which TEST was opened.
    """

    key: FitKey
    candidate: str
    epochs: int | None = None
    frozen: str | None = None


@dataclass(frozen=True)
class Outcome:
    """What a fit gave. The same job gives the same outcome on any engine, to the last bit.

    status: done; diverged, which is a result (the candidate ranks last); failed, which is none (retry it).
    score: the selection metric on validation at the checkpoint. best_epoch and epochs: the checkpoint's epoch and the
    number that ran. parameters: trainable ones. path: how the training steps were computed, "fused" or why not.
    test: metrics on TEST by name, in the final only.
    """

    status: str
    reason: str | None = None
    score: float | None = None
    validation_loss: float | None = None
    best_epoch: int | None = None
    epochs: int | None = None
    parameters: int | None = None
    path: str | None = None
    test: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Record:
    """A fit's job and outcome, with where and when it ran; seconds is the time of the fit alone.

    sources: digest of the code that ran. machine: the processor's name.
    """

    job: Job
    outcome: Outcome
    seconds: float
    finished: str
    machine: str
    sources: str
