"""The actor in which the Ray engine computes fits, one at a time; it imports nothing of Ray."""

import pickle

from alphabet_study.campaign.engines.engine import Fit
from alphabet_study.campaign.engines.worker import RAISED, RECORD, describe, use_one_thread


class FitActor:
    """Computes fits with the function that `start` is given, as a local worker does."""

    def __init__(self) -> None:
        self._fit: Fit | None = None

    def start(self, fit: bytes) -> None:
        """Take the pickled function that computes fits."""
        self._fit = pickle.loads(fit)
        use_one_thread()

    def run(self, message: bytes) -> tuple[str, object]:
        """The answer for a pickled job and task: its pickled record, or what was raised."""
        assert self._fit is not None
        try:
            job, task = pickle.loads(message)
            return RECORD, pickle.dumps(self._fit(job, task))
        except Exception as error:
            return RAISED, describe(error)
