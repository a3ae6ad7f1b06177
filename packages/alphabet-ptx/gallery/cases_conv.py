"""causal-conv1d: the states of sequences of various lengths; its convolution itself is CUDA, not Triton."""

from itertools import pairwise

import torch
from case import EXACT, Compared, Source, normal, without_initialization

CONV = Source("causal-conv1d")


@CONV.case("states of sequences of various lengths", EXACT, quick=True)
def varlen_states() -> list[Compared]:
    without_initialization("causal_conv1d")
    from causal_conv1d.causal_conv1d_varlen import causal_conv1d_varlen_states

    x, ends, length = normal(30, 20), [0, 2, 13, 30], 4
    got = causal_conv1d_varlen_states(x, torch.tensor(ends, dtype=torch.int32), length)
    exact = torch.zeros(3, 20, length, dtype=torch.float64)
    for i, (start, end) in enumerate(pairwise(ends)):
        last = x[max(start, end - length) : end].T
        exact[i, :, length - last.shape[1] :] = last
    return [Compared("states", got, exact)]
