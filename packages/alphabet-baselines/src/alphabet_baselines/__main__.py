"""The command line: `python -m alphabet_baselines match | candidates | spectral-control`."""

import argparse
import statistics

import torch
from alphabet_core import AlphabetError
from alphabet_core.spectral_control import SEEDS

from alphabet_baselines.matching import (
    DESIGN_CHANNELS,
    DESIGN_OUTPUTS,
    count_parameters,
    find_neighbours,
    format_table,
)
from alphabet_baselines.registry import FAMILIES, candidates
from alphabet_baselines.sanity import CONTROL_PUBLISHED, control_scores


def main(arguments: list[str] | None = None) -> None:
    """Read the arguments and run one of the commands."""
    parser = argparse.ArgumentParser(prog="python -m alphabet_baselines", description="The nine control families.")
    commands = parser.add_subparsers(required=True, metavar="command")

    match = commands.add_parser("match", help="the model of each family that is nearest to a parameter count")
    match.add_argument("--target", type=int, help="number of trainable parameters; without it, the audit's whole table")
    match.add_argument("--family", choices=list(FAMILIES), nargs="+", help="all nine unless given")
    match.add_argument("--channels", type=int, help=f"{DESIGN_CHANNELS} unless given")
    match.add_argument("--outputs", type=int, help=f"{DESIGN_OUTPUTS} unless given")
    match.set_defaults(run=_match)

    table = commands.add_parser("candidates", help="the 18 candidates of a family, their keys and sizes")
    table.add_argument("family", choices=[*FAMILIES, "alphabet"])
    table.add_argument("--channels", type=int, default=DESIGN_CHANNELS)
    table.add_argument("--outputs", type=int, default=DESIGN_OUTPUTS)
    table.set_defaults(run=_candidates)

    control = commands.add_parser("spectral-control", help="train families on the moment-matched control")
    control.add_argument("--family", choices=list(FAMILIES), nargs="+", default=list(CONTROL_PUBLISHED))
    control.add_argument("--eps", type=float, default=0.4, help="spectral separation, 0 < eps < 1")
    control.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    control.add_argument("--epochs", type=int, default=60)
    control.set_defaults(run=_control)

    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except AlphabetError as error:
        parser.error(str(error))


def _match(options: argparse.Namespace) -> None:
    if options.target is None:
        if (options.family, options.channels, options.outputs) != (None, None, None):
            raise AlphabetError("--family, --channels and --outputs need a --target; the audit's table is fixed")
        print(format_table(), end="")
        return
    channels = DESIGN_CHANNELS if options.channels is None else options.channels
    outputs = DESIGN_OUTPUTS if options.outputs is None else options.outputs
    for family in options.family or FAMILIES:
        found = find_neighbours(family, options.target, channels=channels, outputs=outputs)
        best = found[0]
        print(f"{family:12s} choice {best.choice!s:8s} width {best.width:4d} {best.parameters:9,d} {best.gap:+.2%}")


def _candidates(options: argparse.Namespace) -> None:
    for candidate in candidates(options.family):
        sizes = {"channels": options.channels, "outputs": options.outputs}
        count = count_parameters(candidate.family, width=candidate.width, choice=candidate.choice, **sizes)
        print(f"{candidate.key:28s} {count:9,d} parameters")


def _control(options: argparse.Namespace) -> None:
    if not 0.0 < options.eps < 1.0:
        raise AlphabetError(f"--eps must lie strictly between 0 and 1; got {options.eps}")
    if options.epochs < 1:
        raise AlphabetError(f"--epochs must be at least 1; got {options.epochs}")
    as_published = (options.eps, options.epochs, options.seeds) == (0.4, 60, list(SEEDS))
    torch.set_num_threads(1)  # sums are then rounded alike on any number of cores
    for family in options.family:
        scores = []
        for seed in options.seeds:
            ((score, ceiling),) = control_scores(family, eps=options.eps, seeds=[seed], epochs=options.epochs)
            print(f"{family} seed {seed:3d}: balanced accuracy {score:.3f}, Bayes {ceiling:.3f}", flush=True)
            scores.append(score)
        published = CONTROL_PUBLISHED.get(family) if as_published else None
        mean = statistics.fmean(scores)
        beside = "" if published is None else f"; published {published:.3f}, difference {mean - published:+.3f}"
        print(f"{family}: mean {mean:.3f}{beside}", flush=True)


if __name__ == "__main__":
    main()
