"""Stream: a fitted estimator fed token by token, with a prediction for everything so far at any moment.

Memory does not grow with the number of tokens. A view of changes keeps the token before, a view of averages the sums of
the block that is not full yet, and every bank the state of its kernels. Tokens of which nothing is observed are held
back until an observed one follows: at the end of a series they would be padding, as `series.py` reads it.
"""

from typing import Any, Self

import numpy as np
import torch
from alphabet_cpu import CpuStream
from numpy.typing import ArrayLike, NDArray

from alphabet_learn.banks import Lens, count_coordinates
from alphabet_learn.errors import LearnError
from alphabet_learn.poles import lenses_of, read_head
from alphabet_learn.problem import Doubles

Token = NDArray[np.float32]  # (channels,), NaN where missing


class Stream:
    """`push` a token or `feed` a chunk; `scores`, `predict_proba` and `predict` answer for all tokens so far.

    A token is one number per channel, NaN where it was not measured. A stream belongs to one thread, and does not see
    later changes of the estimator. Estimators that were fitted with times cannot stream: an irregular clock has no next
    token to wait for.
    """

    def __init__(self, estimator: Any) -> None:
        if estimator.timed_:
            raise LearnError(
                "The model was fitted with times=, which a stream has not: fit without times, or use predict."
            )
        engine = estimator.engine_
        self._estimator, self._engine, self._channels = estimator, engine, int(estimator.channels_in_)
        self._weights, self._intercept = read_head(engine).folded
        self._views = [_View(lens, self._channels) for lens in lenses_of(engine)]
        self.reset()

    def reset(self) -> None:
        """Forget everything that was pushed."""
        self.tokens = 0
        self._held_back = 0
        for view in self._views:
            view.reset()

    def push(self, token: ArrayLike) -> Self:
        """Append one token (channels,); a bare number where there is one channel."""
        values = np.atleast_1d(np.asarray(token, np.float32))
        if values.shape != (self._channels,):
            raise LearnError(f"A token has {self._channels} numbers, one per channel; got the shape {values.shape}.")
        if np.isinf(values).any():
            channel = int(np.argmax(np.isinf(values)))
            raise LearnError(f"Token {self.tokens} is infinite in channel {channel}: pass NaN if it is missing.")
        self.tokens += 1
        if np.isnan(values).all():
            self._held_back += 1
            return self
        missing = np.full(self._channels, np.nan, np.float32)
        for view in self._views:
            for _ in range(self._held_back):
                view.push(missing)
            view.push(values)
        self._held_back = 0
        return self

    def feed(self, chunk: ArrayLike) -> Self:
        """Append a chunk (channels, time), or (time,) where there is one channel."""
        values = np.atleast_2d(np.asarray(chunk, np.float32))
        if values.ndim != 2 or len(values) != self._channels:
            raise LearnError(f"A chunk is (channels, time) with {self._channels} channels; got {np.shape(chunk)}.")
        for token in values.T:
            self.push(token)
        return self

    def scores(self) -> Doubles:
        """The scores (K,) of everything so far."""
        if self.tokens == self._held_back:
            raise LearnError("Nothing has been observed yet: push a token first.")
        coordinates = np.concatenate([view.describe() for view in self._views])
        scores: Doubles = self._intercept + coordinates @ self._weights
        return scores

    def predict_proba(self) -> Doubles:
        """The probabilities (classes or labels,) of everything so far."""
        if self._engine.calibration is None:
            raise LearnError("A regression has no probabilities; use predict in place of predict_proba.")
        probabilities: Doubles = self._engine.calibration.probabilities(self.scores()[None])[0]
        return probabilities

    def predict(self) -> Any:
        """The class, the labels or the values of everything so far, as the estimator's predict gives for one series."""
        scores, kind = self.scores(), self._estimator.kind_
        if kind == "multilabel":
            return (scores > 0).astype(np.int64)
        if kind == "classification":
            code = int(scores[0] > 0) if len(scores) == 1 else int(scores.argmax())
            return self._estimator.classes_[code]
        return float(scores[0]) if self._estimator.regression_1d_ else scores


class _View:
    """One view of the stream and its banks."""

    def __init__(self, lens: Lens, channels: int) -> None:
        self._lens = lens
        self._channels = channels
        self._banks = [CpuStream(bank) for bank in lens.banks]
        self._mean = lens.scaler.mean
        self._deviation = lens.scaler.deviation

    def reset(self) -> None:
        for bank in self._banks:
            bank.reset()
        self._before: Token | None = None
        self._block: list[Token] = []

    def push(self, token: Token) -> None:
        view = self._lens.view
        if view.kind == "values":
            self._feed(token)
        elif view.kind == "changes":
            if self._before is not None:
                self._feed(token - self._before)
            self._before = token
        else:
            self._block.append(token)
            if len(self._block) == view.span:
                self._feed(_average(self._block))
                self._block = []

    def describe(self) -> Doubles:
        """The coordinates of all banks; a block that is not full counts as it is, and goes on afterwards."""
        states = [bank.state() for bank in self._banks] if self._block else []
        if self._block:
            self._feed(_average(self._block))
        found = [
            bank.describe().flatten().double().numpy() if bank.tokens else np.zeros(count_coordinates(model))
            for bank, model in zip(self._banks, self._lens.banks, strict=True)
        ]
        for bank, state in zip(self._banks, states, strict=False):
            bank.restore(state)
        return np.concatenate(found)

    def _feed(self, token: Token) -> None:
        observed = ~np.isnan(token)
        scaled = np.where(observed, (token - self._mean) / self._deviation, 0.0).astype(np.float32)
        if observed.all():  # without masks nothing but the kernel runs, in a fifth of the time
            for bank in self._banks:
                bank.push(scaled)
            return
        values, mask = torch.from_numpy(scaled).view(1, 1, -1), torch.from_numpy(observed).view(1, 1, -1)
        for bank in self._banks:
            bank.feed(values, observed=mask)


def _average(block: list[Token]) -> Token:
    """The mean of what was observed in each channel, NaN where nothing was."""
    tokens = np.stack(block)
    observed = ~np.isnan(tokens)
    counts = observed.sum(axis=0)
    sums = np.where(observed, tokens, np.float32(0.0)).sum(axis=0, dtype=np.float32)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan).astype(np.float32)
