"""Parameters of other shapes than a configuration's: torch broadcasts or adds them, kernels must not read them."""

import pytest
import torch
from alphabet_cpu import CpuRuntime
from alphabet_testing.models import make_batch, make_model
from torch.nn import Parameter

OTHERS = {
    "a bias of one for all logits": lambda model: setattr(model.head, "bias", Parameter(torch.ones(1))),
    "a gain of one": lambda model: setattr(model.direct.norm, "gain", Parameter(torch.ones(1))),
    "one lift's bias": lambda model: setattr(model.direct.lift, "bias", Parameter(torch.ones(1))),
    "a bias of the projection": lambda model: setattr(model.project, "bias", Parameter(torch.ones(24))),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_torch_broadcasts_or_adds_takes_the_reference(name):
    model, (values, _) = make_model(2, 24, 5, 3), make_batch(2, 20, 2)
    runtime = CpuRuntime(model)
    OTHERS[name](model)
    assert runtime.path(values).startswith("reference: ")
    with torch.no_grad():
        assert torch.equal(runtime(values), model(values))
