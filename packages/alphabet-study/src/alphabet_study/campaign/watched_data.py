"""A campaign's data, watched: no record is computed from files other than those whose digest the campaign recorded.

Digests are taken when a campaign starts, and fits read files for hours after that. So every fit asks before it starts
and after it has ended whether the files are still the recorded ones. What the file system says of a file answers at
once; bytes are hashed again only where that has changed, or on another machine.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from alphabet_study.campaign.engines.engine import Fit
from alphabet_study.data_root import data_digest, locate_files
from alphabet_study.errors import StudyError
from alphabet_study.protocol.records import FINAL, Job, Record
from alphabet_study.registry.task import Task

TRAIN, TEST = "train", "test"
# Clocks of file systems tick in steps, of up to two seconds: what was written within one step cannot be told apart.
COARSEST_STEP = 2_000_000_000
# How many changed files an error names.
NAMED = 3


class FileState(NamedTuple):
    """What the file system says of a file, times in nanoseconds; `changed` moves also where `modified` is set back."""

    path: str
    size: int
    modified: int
    changed: int
    inode: int
    device: int


class WatchedData:
    """The digests of a campaign's data, and in which state files were last seen to have them.

    A copy of it goes to every worker, which goes on with what was known when it was made.
    """

    def __init__(self, root: Path | None) -> None:
        self._root = root
        self._recorded: dict[tuple[str, str], str] = {}
        self._first: dict[tuple[str, str], tuple[FileState, ...]] = {}
        self._verified: dict[tuple[str, str], tuple[FileState, ...]] = {}

    def record(self, task: Task) -> dict[str, str]:
        """The digests of a task's files by part, train and test; `verify` holds later ones against them."""
        for part in (TRAIN, TEST):
            digest, states = self._hash(task, part)
            self._recorded[task.name, part], self._first[task.name, part] = digest, states
        return {part: self._recorded[task.name, part] for part in (TRAIN, TEST)}

    def verify(self, task: Task, part: str) -> tuple[FileState, ...]:
        """The states of one part's files, which have the recorded digest; files that have not are refused by name."""
        states = self._read_states(task, part)
        if states == self._verified.get((task.name, part)):
            return states
        digest, states = self._hash(task, part)
        recorded = self._recorded[task.name, part]
        if digest != recorded:
            self._verified.pop((task.name, part), None)
            raise StudyError(
                f"{task.name}: the files of {part.upper()} have changed since this campaign recorded their digest: "
                f"{_describe_changes(self._first[task.name, part], states)}; digest {digest[:16]} in place of "
                f"{recorded[:16]}. No result of them is kept: {_ADVICE}"
            )
        return states

    def verify_unmoved(self, task: Task, before: Mapping[str, Sequence[FileState]]) -> None:
        """Refuse files, by part, that were written since they were in these states, even if they are right again."""
        for part, states in before.items():
            after = self.verify(task, part)
            # Links, owners and permissions may change meanwhile: they move `changed`, and the digest is right.
            if [state[:3] for state in after] != [state[:3] for state in states]:
                raise StudyError(
                    f"{task.name}: the files of {part.upper()} were written while a fit may have read them: "
                    f"{_describe_changes(states, after)}. They are as recorded now, but no result of that fit is "
                    "kept: --retry-failed runs it again"
                )

    def _hash(self, task: Task, part: str) -> tuple[str, tuple[FileState, ...]]:
        """The digest of one part's files and their states, which were the same before and after."""
        began = time.time_ns()
        states = self._read_states(task, part)
        digest = data_digest(task, self._root, part)
        after = self._read_states(task, part)
        if after != states:
            raise StudyError(
                f"{task.name}: the files of {part.upper()} are being written: {_describe_changes(states, after)}. Wait "
                "until they are complete, then run the same command, with --retry-failed if a fit failed by it"
            )
        if all(max(state.modified, state.changed) < began - COARSEST_STEP for state in states):
            self._verified[task.name, part] = states
        else:  # written a moment ago: a change right after this would not show, so the next look hashes again
            self._verified.pop((task.name, part), None)
        return digest, states

    def _read_states(self, task: Task, part: str) -> tuple[FileState, ...]:
        states = []
        for path in locate_files(task, self._root, part):
            try:
                found = path.stat()
            except OSError as error:
                raise StudyError(f"{task.name}: {path} cannot be read ({error.strerror}): {_ADVICE}") from error
            states.append(
                FileState(str(path), found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev)
            )
        return tuple(states)


@dataclass(frozen=True)
class VerifiedFit:
    """A fit that gives a record only if the files that it may read were the recorded ones from its start to its end.

    The files of TEST are looked at for finals alone.
    """

    fit: Fit
    data: WatchedData

    def __call__(self, job: Job, task: Task) -> Record:
        parts = (TRAIN, TEST) if job.key.stage == FINAL else (TRAIN,)
        before = {part: self.data.verify(task, part) for part in parts}
        try:
            return self.fit(job, task)
        finally:  # also after an error: a file that was half written is the better reason
            self.data.verify_unmoved(task, before)


_ADVICE = "restore the files and run the same command with --retry-failed, or begin with the new ones in a new store"


def _describe_changes(then: Sequence[FileState], now: Sequence[FileState]) -> str:
    """How files differ, by size and time of modification; all of them where neither tells."""
    pairs = list(zip(then, now, strict=True)) if len(then) == len(now) else []
    differing = [f"{new.path} had {_describe(old)}, has {_describe(new)}" for old, new in pairs if old[:3] != new[:3]]
    differing = differing or [f"{state.path} has {_describe(state)}" for state in now]
    return "; ".join(differing[:NAMED]) + (f"; and {len(differing) - NAMED} more" if len(differing) > NAMED else "")


def _describe(state: FileState) -> str:
    written = datetime.fromtimestamp(state.modified / 1e9, UTC).isoformat(timespec="seconds")
    return f"{state.size:,} bytes of {written}"
