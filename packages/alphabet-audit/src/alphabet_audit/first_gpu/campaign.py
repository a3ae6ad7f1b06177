"""All stages, one after another: a failure is kept and the next one runs; the same command goes on after a stop."""

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from alphabet_audit.first_gpu.archive import pack
from alphabet_audit.first_gpu.running import FAILED, INTERRUPTED, PASSED, Outcome, load, run_stage, save
from alphabet_audit.first_gpu.stages import Stage
from alphabet_audit.first_gpu.summary import write_summary


def run_campaign(
    stages: Sequence[Stage],
    root: Path,
    out: Path,
    *,
    no_gpu: str | None,
    again: Sequence[str] = (),
    show: Callable[[str], None] = print,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[list[Outcome], Path]:
    """Run the stages that have no outcome yet, or are named in `again`; returns all outcomes and the archive's path.

    Stages that passed or failed are not repeated; those that were not run or interrupted are. After Ctrl-C the stage is
    ended, the rest counts as interrupted, and what there is is packed all the same.
    """
    out.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    stopped = False
    for number, stage in enumerate(stages, 1):
        head = f"{number} of {len(stages)}, {stage.name}: {stage.shows}"
        known = None if stage.name in again else load(stage, out)
        if known is not None and known.status in (PASSED, FAILED) and known.command == stage.command:
            show(f"{head}: {known.status} before")
            outcomes.append(known)
            continue
        if stopped:
            outcomes.append(Outcome(stage.name, INTERRUPTED, "the run was stopped before it", 0.0))
            continue
        left = sum(each.limit for each in stages[number - 1 :])
        begun = time.monotonic()
        try:
            say = partial(_say, progress, head, left)
            outcome = run_stage(stage, root, out, no_gpu=no_gpu, say=say)
        except KeyboardInterrupt:
            stopped = True
            outcome = Outcome(stage.name, INTERRUPTED, "stopped; the same command goes on", time.monotonic() - begun)
        save(outcome, out)
        outcomes.append(outcome)
        show(f"{head}: {outcome.status}" + (f" ({outcome.reason})" if outcome.reason else f", {outcome.seconds:.0f} s"))
    write_summary(outcomes, stages, out)
    return outcomes, pack(out)


def _say(progress: Callable[[str], None], head: str, left: float, text: str) -> None:
    progress(f"{head}: {text}; all that is left: at most {left:.0f} min")


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """0 if nothing failed, 1 if a stage did, 130 if the run was stopped; what was not run is no failure."""
    if any(outcome.status == INTERRUPTED for outcome in outcomes):
        return 130
    return 1 if any(outcome.status == FAILED for outcome in outcomes) else 0


def find_gpu() -> str | None:
    """Why there is no GPU for torch here, or None if there is one."""
    try:
        import torch
    except ImportError as error:
        return f"torch cannot be imported: {error}"
    if torch.cuda.is_available():
        return None
    if torch.version.cuda is None:
        return f"torch {torch.__version__} was built without CUDA"
    if shutil.which("nvidia-smi"):
        return (
            f"torch {torch.__version__} finds no CUDA device, though nvidia-smi is installed: the driver may be too "
            f"old for CUDA {torch.version.cuda}"
        )
    return f"torch {torch.__version__} finds no CUDA device"


def terminal_progress(text: str) -> None:
    """Show how far it is in one line of a terminal; elsewhere nothing."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text[:150]}", end="", file=sys.stderr, flush=True)
