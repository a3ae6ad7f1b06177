"""Graph nodes of a call, torch's included: counted on one that is recorded, with kernels compiled but not executed."""

from contextlib import suppress

import torch
from alphabet_core import Alphabet, AlphabetConfig
from alphabet_ptx import ptx_device
from alphabet_testing.kernels.graphs import FreedMemoryError, cuda_graphs
from alphabet_triton import TritonRuntime, TritonTrainer


def count_nodes(width: int = 64) -> dict[str, tuple[int, int]]:
    """By phase, the nodes of a recorded call and how many of them are torch's; an operator of torch's is one node.

    They do not depend on batch or length, so few and short sequences are recorded.
    """
    counts = {}
    values, targets = torch.zeros(2, 20, 2), torch.tensor([0, 1])
    for phase in ("inference", "step"):
        model = Alphabet(AlphabetConfig(channels=2, width=width, modes=width // 4, outputs=5))
        # What is recorded counts, even where replaying it fails, as in trees before issue 17.
        with ptx_device("sm_89") as device, cuda_graphs() as graphs, suppress(FreedMemoryError):
            device.dry = True
            if phase == "inference":
                TritonRuntime(model)(values)
            else:
                TritonTrainer(model).step(values, targets)
        (graph,) = graphs
        counts[phase] = len(graph.nodes), sum(node.name.startswith("aten::") for node in graph.nodes)
    return counts
