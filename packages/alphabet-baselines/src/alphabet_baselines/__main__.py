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
from alphabet_baselines.sanity import PUBLISHED_SCORES, spectral_control_scores


def main(arguments: list[str] | None = None) -> None:
    """Read the arguments and run one of the commands."""
    parser = argparse.ArgumentParser(
        prog="python -m alphabet_baselines", description="The nine families that ALPHABET is compared with."
    )
    commands = parser.add_subparsers(required=True, metavar="command")

    match = commands.add_parser("match", help="print the model of each family that is nearest to a parameter count")
    match.add_argument(
        "--target", type=int, help="number of trainable parameters; without it, the table of the audit's designs"
    )
    match.add_argument("--family", choices=list(FAMILIES), nargs="+", help="families to match (default: all nine)")
    match.add_argument("--channels", type=int, help=f"input channels (default: {DESIGN_CHANNELS})")
    match.add_argument("--outputs", type=int, help=f"outputs (default: {DESIGN_OUTPUTS})")
    match.set_defaults(run=_match)

    table = commands.add_parser("candidates", help="list the 18 candidates of a family, their keys and sizes")
    table.add_argument("family", choices=[*FAMILIES, "alphabet"])
    table.add_argument("--channels", type=int, default=DESIGN_CHANNELS)
    table.add_argument("--outputs", type=int, default=DESIGN_OUTPUTS)
    table.set_defaults(run=_candidates)

    spectral = commands.add_parser("spectral-control", help="train families on the moment-matched control")
    spectral.add_argument("--family", choices=list(FAMILIES), nargs="+", default=list(PUBLISHED_SCORES))
    spectral.add_argument("--eps", type=float, default=0.4, help="spectral separation, 0 < eps < 1")
    spectral.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    spectral.add_argument("--epochs", type=int, default=60)
    spectral.set_defaults(run=_spectral_control)

    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except AlphabetError as error:
        parser.error(str(error))


def _match(options: argparse.Namespace) -> None:
    if options.target is None:
        if (options.family, options.channels, options.outputs) != (None, None, None):
            raise AlphabetError(
                "--family, --channels and --outputs need a --target; the audit's table takes none of them"
            )
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


def _spectral_control(options: argparse.Namespace) -> None:
    if not 0.0 < options.eps < 1.0:
        raise AlphabetError(f"--eps must lie strictly between 0 and 1; got {options.eps}")
    if options.epochs < 1:
        raise AlphabetError(f"--epochs must be at least 1; got {options.epochs}")
    as_published = (options.eps, options.epochs, options.seeds) == (0.4, 60, list(SEEDS))
    torch.set_num_threads(1)  # sums are then rounded alike on any number of cores
    for family in options.family:
        scores = []
        for seed in options.seeds:
            ((score, ceiling),) = spectral_control_scores(family, eps=options.eps, seeds=[seed], epochs=options.epochs)
            print(f"{family} seed {seed:3d}: balanced accuracy {score:.3f}, Bayes {ceiling:.3f}", flush=True)
            scores.append(score)
        published = PUBLISHED_SCORES.get(family) if as_published else None
        mean = statistics.fmean(scores)
        beside = "" if published is None else f"; published {published:.3f}, difference {mean - published:+.3f}"
        print(f"{family}: mean {mean:.3f}{beside}", flush=True)


if __name__ == "__main__":
    main()
