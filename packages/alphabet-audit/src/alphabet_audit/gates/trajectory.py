"""The gate of three complete optimization steps, compared with the same steps in float64."""

import math

import torch
from alphabet_core import Recipe, TrainingStep
from torch import Tensor, nn

from alphabet_audit.declare.cases import Case
from alphabet_audit.declare.tolerances import Tolerances
from alphabet_audit.gates.comparing import compare, largest, require_fused
from alphabet_audit.gates.examples import make_example
from alphabet_audit.gates.runtimes import Runtime
from alphabet_audit.protocol.readings import Reading

STEPS = 3
# Clipping and decay are strong enough that a step without either is found out.
RECIPE = Recipe(learning_rate=3e-3, clip_norm=0.1, weight_decay=0.1)
# Shares of the parameters, sorted by their error. Adam divides a gradient by its own size, so the few entries whose
# gradient is nearly zero move in a direction that rounding decides, and one of them has the largest error by chance.
QUANTILES = {"parameters-median": 0.5, "parameters-most": 0.99}


def trajectory(runtime: Runtime, case: Case, rules: Tolerances) -> list[Reading]:
    """Readings of the losses, of parameters and frames after three steps, and of the logits that follow from them.

    The inference runtime is made and called before the steps, so that one that keeps old weights is found out.
    """
    example, device = make_example(case), runtime.device
    values, targets = example.values, example.targets
    model, oracle, plain = example.twin().to(device), example.oracle(), example.twin()
    inference, trainer = runtime.infer(model), runtime.train(model, RECIPE)
    batch = values.to(device), targets.to(device)
    require_fused(inference.path(batch[0]))
    require_fused(trainer.path(batch[0]))
    inference(batch[0])
    exact_step, plain_step = TrainingStep(oracle, RECIPE), TrainingStep(plain, RECIPE)
    readings = []
    for number in range(STEPS):
        loss = trainer.step(*batch).cpu()
        usual, exact = plain_step(values, targets), exact_step(values.double(), targets)
        readings.append(compare(f"loss {number + 1}", loss, usual, exact, rules, "loss"))
    found, usual, exact = (flatten(each) for each in (model, plain, oracle))
    readings += [read_quantile(name, found, usual, exact, rules) for name in QUANTILES]
    readings.append(compare("parameters-largest", found, usual, exact, rules, "parameters-largest"))
    with torch.no_grad():
        logits = inference(batch[0]).cpu()
        readings.append(
            compare("logits after", logits, plain(values), oracle(values.double()), rules, "trained-logits")
        )
    return readings


def flatten(model: nn.Module) -> Tensor:
    """All parameters and buffers of a model in one vector; a frame has one of each, its tangent and its base."""
    return torch.cat([tensor.detach().cpu().flatten() for tensor in (*model.parameters(), *model.buffers())])


def read_quantile(name: str, found: Tensor, plain: Tensor, exact: Tensor, rules: Tolerances) -> Reading:
    """The reading of the error that a share of the parameters stays below."""
    error, usual = (float((each.double() - exact).abs().quantile(QUANTILES[name])) for each in (found, plain))
    if not math.isfinite(largest(found)):
        error = math.inf
    return Reading(name, name, error, usual, rules[name].limit(usual))
