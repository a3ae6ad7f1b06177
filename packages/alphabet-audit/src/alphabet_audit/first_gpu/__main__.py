"""`python -m alphabet_audit.first_gpu [FOLDER]`, in the root of a checkout; `nox -s first-gpu` installs and runs it."""

import argparse
import sys
from pathlib import Path

from alphabet_audit.first_gpu.campaign import exit_code, find_gpu, run_campaign, terminal_progress
from alphabet_audit.first_gpu.stages import GPU_TESTS, list_stages

OUT = Path("audit-runs") / "first-gpu"
OUT_ON_PTX = Path("audit-runs") / "first-gpu-on-ptx"


def main() -> None:
    """Run the stages that are left, print the summary and the archive's path."""
    parser = argparse.ArgumentParser(
        prog="first-gpu", description="What is run once on a GPU; the same command goes on."
    )
    parser.add_argument("out", type=Path, nargs="?", help=f"folder for all that the run leaves; {OUT} or {OUT_ON_PTX}")
    parser.add_argument("--on-ptx", action="store_true", help="the suite on executed PTX, small, where there is no GPU")
    parser.add_argument(
        "--again", action="append", default=[], metavar="STAGE", help="repeat a stage that has an outcome"
    )
    options = parser.parse_args()
    root, out = Path.cwd(), (options.out or (OUT_ON_PTX if options.on_ptx else OUT)).resolve()
    if not (root / GPU_TESTS).is_dir():
        parser.error(f"run it in the root of a checkout: {root} has no {GPU_TESTS}")
    stages = list_stages(out, on_ptx=options.on_ptx)
    unknown = set(options.again) - {stage.name for stage in stages}
    if unknown:
        parser.error(
            f"no stage is named {', '.join(sorted(unknown))}; they are {', '.join(each.name for each in stages)}"
        )
    no_gpu = find_gpu()
    print(f"{len(stages)} stages, at most {sum(stage.limit for stage in stages):.0f} minutes; everything goes to {out}")
    print("Ctrl-C stops it; the same command goes on.")
    if no_gpu is not None and any(stage.needs_gpu for stage in stages):
        print(f"Stages that need a GPU are not run: {no_gpu}.")
    clear = "\r\033[K" if sys.stderr.isatty() else ""

    def show(text: str) -> None:
        print(clear, end="", file=sys.stderr, flush=True)
        print(text, flush=True)

    outcomes, archive = run_campaign(
        stages, root, out, no_gpu=no_gpu, again=options.again, show=show, progress=terminal_progress
    )
    print(f"\n{(out / 'summary.md').read_text(encoding='utf-8')}\nready to be sent: {archive}")
    raise SystemExit(exit_code(outcomes))


if __name__ == "__main__":
    main()
