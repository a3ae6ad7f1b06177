"""Models drawn from torch's own random numbers, which are one sequence per process, without leaving a trace there."""

import threading

import torch
from alphabet_core import Alphabet, AlphabetConfig

_drawing = threading.Lock()


def draw_fresh(config: AlphabetConfig, *, seed: int = 0) -> Alphabet:
    """A fresh float32 model, drawn by the seed alone; the process keeps its random numbers, whatever threads do."""
    with _drawing, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Alphabet(config).float()
