"""Why a prediction is what it is: every margin as a baseline plus one exact contribution per pole.

Scores are affine in the coordinates of the poles, so nothing is approximated and nothing is left over:

    margin = baseline + sum over poles of their contributions

A contribution is measured from the training series' mean: the baseline is what a series gets whose coordinates are all
at their mean. The margin is, in float64,

    two classes         the score, positive for the second class; with target=, the score in favour of that class
    several classes     the score of the predicted class minus the runner-up's; with target=, that class over the best
                        of the others
    labels, values      the score of the label or the predicted value that target= names; needless if there is one
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from alphabet_learn.banks import Lens
from alphabet_learn.closed_form import Doubles
from alphabet_learn.errors import LearnError
from alphabet_learn.poles import Pole, count_poles, lenses_of, list_poles, over_time, read_head, short
from alphabet_learn.pruning import prune
from alphabet_learn.series import Series

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Explanation", "explain", "prune"]
ROWS_AT_ONCE = 256  # series whose coordinates are held in memory at the same time
LONGEST_PERIOD = (
    14  # as a power of two, in steps: with a longer one no pole, in averages of 4 neither, remembers 1/4 turn
)
SHOWN, SHOWN_BANDS = 5, 3  # poles, and bands of periods, in a printed explanation
Aspect = Literal["period", "memory", "channel", "view", "kind", "time"]


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """margin[n] = baseline[n] + contributions[n].sum() for N series; `why[0]` is the explanation of one of them.

    margin, baseline (N,); contributions (N, poles), in the order of `poles`. Poles that the head does not read are
    left out. asked: what each margin is, in words. unit: of periods and memories, "samples"; if times were given, "s"
    for dates and "" for numbers.
    """

    margin: Doubles
    baseline: Doubles
    contributions: Doubles
    poles: tuple[Pole, ...]
    asked: tuple[str, ...]
    unit: str
    series: Series
    lenses: tuple[Lens, ...]
    places: NDArray[np.intp]  # (poles,) of the poles among all that the lenses have

    def __len__(self) -> int:
        return len(self.margin)

    def __getitem__(self, index: int | slice | NDArray[Any]) -> "Explanation":
        """The explanation of one or some of the series, with the axis of series kept."""
        rows = np.atleast_1d(np.arange(len(self))[index])
        asked = tuple(self.asked[row] for row in rows)
        return Explanation(
            self.margin[rows], self.baseline[rows], self.contributions[rows], self.poles, asked, self.unit,
            self.series.take(rows), self.lenses, self.places,
        )  # fmt: skip

    def by(self, aspect: Aspect) -> tuple[NDArray[Any], Doubles]:
        """Labels (G,) and the contributions (N, G) summed by an aspect; each row's sum is margin - baseline.

        "period", "memory": octaves, counted from the sample or the median step, that hold a pole; all periods beyond
        16384 steps are one band. "channel": a pole gives each channel its share. "view". "kind": direct or cascaded.
        "time": the tokens of the series, among which a pole is divided by where its energy lies; 0 to T - 1, or if
        times were given, the time since the first, an instant that several rows share counting once. Series with
        clocks of their own have no labels in common but 0 to T - 1: ask for one of them, `why[n].by("time")`.
        """
        if aspect == "time":
            return _token_labels(self.series), self.over_time(None)[:, :, 0]
        if aspect == "channel":
            shares = np.array([pole.shares for pole in self.poles])  # (poles, C)
            return np.array([f"channel {c}" for c in range(shares.shape[1])]), self.contributions @ shares
        if aspect in ("view", "kind"):
            names = np.array([getattr(pole, aspect) for pole in self.poles])
            labels = list(dict.fromkeys(names.tolist()))
            numbers = np.array([labels.index(name) for name in names])
        elif aspect in ("period", "memory"):
            lengths = np.array([getattr(pole, aspect) for pole in self.poles])
            longest = LONGEST_PERIOD if aspect == "period" else None
            labels, numbers = _octaves(lengths, self.lenses[0].unit, self.unit, longest)
        else:
            raise LearnError(f"by is {aspect!r}: pass period, memory, channel, view, kind or time.")
        return np.array(labels), self.contributions @ (numbers[:, None] == np.arange(len(labels))).astype(np.float64)

    def over_time(self, poles: NDArray[np.intp] | list[int] | None) -> Doubles:
        """Contributions (N, T, k) of k poles, by their place in `poles`, at each token; None: of all, summed (N, T, 1).

        A rule of display, of which only the sum over time is exact: alphabet_learn.poles.over_time says which.
        """
        everything = sum(count_poles(bank) for lens in self.lenses for bank in lens.banks)
        groups = 1 if poles is None else len(poles)
        found = np.empty((len(self), self.series.length, groups))
        for start in range(0, len(self), ROWS_AT_ONCE):
            rows = np.arange(start, min(start + ROWS_AT_ONCE, len(self)))
            amounts = np.zeros((len(rows), everything, groups))
            if poles is None:
                amounts[:, self.places, 0] = self.contributions[rows]
            else:
                amounts[:, self.places[poles], np.arange(groups)] = self.contributions[rows][:, poles]
            found[rows] = over_time(self.lenses, self.series.take(rows), amounts)
        return found

    def order(self) -> NDArray[np.intp]:
        """Places in `poles` by falling mean |contribution| over these series; ties keep their order."""
        return np.argsort(-np.abs(self.contributions).mean(axis=0), kind="stable")

    def strongest(self, k: int = SHOWN) -> list[tuple[Pole, float]]:
        """The k poles with the largest mean |contribution| over these series, each with its mean contribution."""
        mean = self.contributions.mean(axis=0)
        return [(self.poles[place], float(mean[place])) for place in self.order()[:k]]

    def to_frame(self) -> "DataFrame":
        """A pandas frame with a row for each series and pole; with the baseline, a series' rows sum to its margin."""
        try:
            import pandas
        except ImportError as missing:
            raise LearnError("to_frame needs pandas: pip install 'alphabet-learn[plots]'.") from missing

        columns: dict[str, Any] = {"series": np.repeat(np.arange(len(self)), len(self.poles))}
        for column in ("name", "view", "bank", "kind", "mode", "period", "memory", "channels"):
            values = pandas.Series([getattr(pole, column) for pole in self.poles])
            columns[column] = np.tile(values.to_numpy(), len(self))
        return pandas.DataFrame({**columns, "contribution": self.contributions.ravel()})

    def __repr__(self) -> str:
        return f"<Explanation of {len(self)} series by {len(self.poles):,} poles; print shows the strongest>"

    def __str__(self) -> str:
        if len(self) != 1:
            strength = np.abs(self.contributions).mean(axis=0) if len(self) else np.zeros(len(self.poles))
            lines = [f"{len(self)} series explained by {len(self.poles):,} poles; strongest by mean |contribution|:"]
            lines += [f"  {strength[place]:.4f}  {self.poles[place].name}" for place in self.order()[:SHOWN]]
            return "\n".join(lines)
        strongest = self.strongest(SHOWN)
        rest = self.margin[0] - self.baseline[0] - sum(contribution for _, contribution in strongest)
        rows = [(float(self.baseline[0]), "baseline"), *((amount, pole.name) for pole, amount in strongest)]
        if len(self.poles) > len(strongest):
            rows.append((float(rest), f"{len(self.poles) - len(strongest):,} other poles"))
        texts = [f"{amount:+z.4f}" for amount, _ in rows]
        width = max(len(text) for text in texts)
        lines = [f"{self.asked[0]}: {self.margin[0]:+z.4f}"]
        lines += [f"  {text:>{width}}  {name}" for text, (_, name) in zip(texts, rows, strict=True)]
        labels, table = self.by("period")
        bands = np.argsort(-np.abs(table[0]), kind="stable")[:SHOWN_BANDS]
        lines += ["strongest periods: " + "; ".join(f"{labels[band]} {table[0, band]:+z.4f}" for band in bands)]
        return "\n".join(lines)


def explain(estimator: Any, series: Series, *, target: object = None) -> Explanation:
    """The explanation of a fitted estimator's margins for series; the module's docstring says what target= chooses."""
    engine = estimator.engine_
    lenses, head = lenses_of(engine), read_head(engine)
    unit = "samples" if not estimator.timed_ else "s" if estimator.dated_ else ""
    poles = list_poles(lenses, unit=unit)
    size = len(head.mean) // len(poles)  # coordinates of a pole
    effect = np.abs(head.factor[:, None] * head.weights).reshape(len(poles), -1)
    places = np.flatnonzero(effect.any(axis=1))
    if len(places) == 0:  # constant training series: every score is the intercept
        places = np.arange(len(poles))
    output = _find_output(estimator, head.weights.shape[1], target)

    contributions, baseline, asked = np.empty((series.count, len(places))), np.empty(series.count), []
    for start in range(0, series.count, ROWS_AT_ONCE):
        rows = slice(start, min(start + ROWS_AT_ONCE, series.count))
        few = series.take(np.arange(rows.start, rows.stop))
        blocks = np.concatenate([block for lens in lenses for block in lens.describe(few)], axis=1)
        standardized = head.standardize(blocks, 0)  # (n, P) float64
        sign, words = _choose(estimator, head.intercept + standardized @ head.weights, output)
        standardized *= sign @ head.weights.T
        contributions[rows] = standardized.reshape(len(sign), len(poles), size).sum(axis=2)[:, places]
        baseline[rows] = sign @ head.intercept
        asked += words
    margin = baseline + contributions.sum(axis=1)
    listed = tuple(poles[place] for place in places)
    return Explanation(margin, baseline, contributions, listed, tuple(asked), unit, series, lenses, places)


def _find_output(estimator: Any, outputs: int, target: object) -> int | None:
    """The number of the class, label or value that target names; None: the margin is the usual one."""
    if estimator.kind_ == "regression":
        names: list[object] = list(range(outputs))
    else:
        names = list(estimator.classes_)
    if target is None:
        if estimator.kind_ == "classification":
            return None
        if outputs == 1:
            return 0
        raise LearnError(f"There are {outputs} outputs: pass target= one of {_listed(names)}, to say which to explain.")
    if not isinstance(target, list | tuple) and np.ndim(target) == 0:  # type: ignore[arg-type]
        for number, name in enumerate(names):
            if name == target:
                return number
        numbered = estimator.kind_ == "multilabel" and all(isinstance(name, str) for name in names)
        if numbered and target in range(outputs):
            return int(target)  # type: ignore[call-overload,no-any-return]
    raise LearnError(f"target is {target!r}, which is no output of this model: pass one of {_listed(names)}.")


def _listed(names: list[object]) -> str:
    shown = ", ".join(str(name) for name in names[:10])
    return shown if len(names) <= 10 else f"{shown}, ... ({len(names)} in all)"


def _choose(estimator: Any, scores: Doubles, output: int | None) -> tuple[Doubles, list[str]]:
    """How scores (n, K) add up to each margin, (n, K), and what it is in words."""
    sign = np.zeros(scores.shape)
    rows = np.arange(len(scores))
    if estimator.kind_ == "regression":
        sign[:, output] = 1.0
        return sign, ["prediction" if scores.shape[1] == 1 else f"prediction {output}"] * len(scores)
    names = [str(name) for name in estimator.classes_]
    if estimator.kind_ == "multilabel":
        assert output is not None
        sign[:, output] = 1.0
        return sign, [f"score of {names[output]}"] * len(scores)
    if scores.shape[1] == 1:
        sign[:] = -1.0 if output == 0 else 1.0
        first, second = (0, 1) if output == 0 else (1, 0)
        return sign, [f"score of {names[first]} over {names[second]}"] * len(scores)
    winner = scores.argmax(axis=1) if output is None else np.full(len(scores), output)
    others = scores.copy()
    others[rows, winner] = -np.inf
    runner_up = others.argmax(axis=1)
    sign[rows, winner], sign[rows, runner_up] = 1.0, -1.0
    return sign, [f"margin of {names[a]} over {names[b]}" for a, b in zip(winner, runner_up, strict=True)]


def _token_labels(series: Series) -> NDArray[Any]:
    """(T,): the elapsed times of the longest series if all share them; else the numbers of the tokens."""
    tokens = np.arange(series.length)
    if series.times is None or series.count == 0:
        return tokens
    clock = series.times[int(np.argmax(series.lengths))]
    shared = (series.times == clock) | (tokens >= series.lengths[:, None])
    return clock if shared.all() else tokens


def _octaves(lengths: Doubles, step: float, unit: str, longest: int | None) -> tuple[list[str], NDArray[np.intp]]:
    """The bands from one power of two to the next, in steps, that hold a length, and the band's number of each."""
    behind = f" {unit}" if unit else ""
    with np.errstate(divide="ignore"):
        exponents = np.floor(np.log2(lengths / step))
    if longest is not None:
        exponents = np.minimum(exponents, longest)
    present, numbers = np.unique(exponents, return_inverse=True)
    labels = []
    for exponent in present:
        low = short(2.0**exponent * step)
        if longest is not None and exponent == longest:
            labels.append(f"{low}{behind} or more")
        else:
            labels.append(f"{low}–{short(2.0 ** (exponent + 1) * step)}{behind}")
    return labels, numbers.astype(np.intp)
