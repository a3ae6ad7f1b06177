"""One stage as a process of its own: its output in a log, its outcome in a file that is written whole or not at all."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from alphabet_audit.first_gpu.stages import Stage

PASSED, FAILED, NOT_RUN, INTERRUPTED = "passed", "failed", "not-run", "interrupted"
SECONDS_TO_END = 10.0  # between asking a stage to end and ending it
SECONDS_BETWEEN_LOOKS = 0.2


@dataclass(frozen=True)
class Outcome:
    """How a stage ended, why, after how many seconds, and the command that was run."""

    stage: str
    status: str
    reason: str
    seconds: float
    command: tuple[str, ...] = ()


def run_stage(
    stage: Stage, root: Path, out: Path, *, no_gpu: str | None, say: Callable[[str], None] = lambda _: None
) -> Outcome:
    """Run a stage in the checkout `root` and return its outcome; only KeyboardInterrupt is raised, after ending it.

    no_gpu: why there is no GPU, or None. say: gets how far it is.
    """
    if stage.needs_gpu and no_gpu is not None:
        return Outcome(stage.name, NOT_RUN, no_gpu, 0.0)
    if stage.tool is not None and shutil.which(stage.tool) is None:
        return Outcome(stage.name, NOT_RUN, f"{stage.tool} is not installed", 0.0)
    begun = time.monotonic()
    log = out / "logs" / f"{stage.name}.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        try:
            process = subprocess.Popen(
                stage.command,
                cwd=root,
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **stage.environment},
                start_new_session=True,  # its own children end with it
            )
        except OSError as error:
            return Outcome(stage.name, FAILED, f"it did not start: {error}", 0.0, stage.command)
        try:
            while process.poll() is None:
                passed = time.monotonic() - begun
                say(f"{passed:.0f} s of at most {stage.limit * 60:.0f}")
                if passed > stage.limit * 60:
                    end(process)
                    reason = f"not ready after {stage.limit:g} minutes; --again {stage.name} runs it once more"
                    return Outcome(stage.name, FAILED, reason, passed, stage.command)
                time.sleep(SECONDS_BETWEEN_LOOKS)
        except BaseException:
            end(process)
            raise
    passed = time.monotonic() - begun
    if process.returncode == 0:
        return Outcome(stage.name, PASSED, "", passed, stage.command)
    reason = f"exit code {process.returncode}; see {log.relative_to(out)}"
    return Outcome(stage.name, FAILED, reason, passed, stage.command)


def end(process: "subprocess.Popen[bytes]") -> None:
    """End a stage and all that it started: first as Ctrl-C would, then by force."""
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(SECONDS_TO_END)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def save(outcome: Outcome, out: Path) -> None:
    """Write an outcome so that it is there whole or not at all."""
    folder = out / "outcomes"
    folder.mkdir(parents=True, exist_ok=True)
    half = folder / f"{outcome.stage}.json.part"
    half.write_text(json.dumps(asdict(outcome), indent=1) + "\n", encoding="utf-8")
    half.replace(folder / f"{outcome.stage}.json")


def load(stage: Stage, out: Path) -> Outcome | None:
    """The outcome of an earlier run of the same command, or None if there is none or it cannot be read."""
    try:
        found = json.loads((out / "outcomes" / f"{stage.name}.json").read_text(encoding="utf-8"))
        outcome = Outcome(**{**found, "command": tuple(found["command"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return outcome
