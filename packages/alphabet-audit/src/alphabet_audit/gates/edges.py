"""Gates at the edges: inputs of zero or without a valid token, NaN and Inf, and gradients by finite differences."""

from functools import lru_cache

import torch
from alphabet_core import RECIPES, AlphabetError, TrainingStep, value_checks
from torch import Tensor, nn

from alphabet_audit.declare.cases import Case
from alphabet_audit.declare.tolerances import Tolerances
from alphabet_audit.gates.agreement import read_gradients, read_logits
from alphabet_audit.gates.comparing import compare, compare_scaled, count_wrong, differentiate, infer, require_fused
from alphabet_audit.gates.examples import Example, make_example
from alphabet_audit.gates.runtimes import Runtime
from alphabet_audit.protocol.readings import Reading

# The step of a central difference in float64: truncation and rounding are both near 1e-10, far below float32's error.
DIFFERENCE_STEP = 1e-5
ENTRIES_PER_TENSOR = 4


def zero_drive(runtime: Runtime, case: Case, rules: Tolerances) -> list[Reading]:
    """Readings with values of zero, and with values of which none is valid, so that no moment has a pair."""
    example = make_example(case)
    silent = Example(example.model, torch.zeros_like(example.values), example.targets)
    nothing = {"valid": torch.zeros(case.batch, case.length, dtype=torch.bool)}
    return [
        read_logits(runtime, silent, rules, label="zeros: logits"),
        *read_gradients(runtime, silent, rules, label="zeros: "),
        read_logits(runtime, example, rules, nothing, "none valid: logits"),
        *read_gradients(runtime, example, rules, nothing, "none valid: "),
    ]


def finite_differences(runtime: Runtime, case: Case, rules: Tolerances) -> list[Reading]:
    """Readings of gradients against differences of the float64 loss, which share no derivation with any gradient."""
    example, device = make_example(case), runtime.device
    model, plain = example.twin().to(device), example.twin()
    trainer = runtime.train(model, RECIPES["B"])
    values, targets = example.values, example.targets
    require_fused(trainer.path(values.to(device)))
    _, found = differentiate(trainer, model, values.to(device), targets.to(device), {})
    _, usual = differentiate(TrainingStep(plain), plain, values, targets, {})
    readings = []
    for name, (places, wanted) in loss_differences(case).items():
        mine, theirs = (gradient[name].flatten()[places] for gradient in (found, usual))
        readings.append(compare_scaled(f"d {name}", mine, theirs, wanted, rules, "finite-difference"))
    return readings


@lru_cache(maxsize=8)  # they are the same for every runtime
def loss_differences(case: Case) -> dict[str, tuple[Tensor, Tensor]]:
    """Some places in the values and in each parameter of a case, and the float64 loss's differences there, by name."""
    example = make_example(case)
    oracle, values = example.oracle(), example.values.double()
    found = {}
    for name, tensor in {"values": values, **dict(oracle.named_parameters())}.items():
        places = torch.linspace(0, tensor.numel() - 1, min(ENTRIES_PER_TENSOR, tensor.numel())).long().unique()
        differences = [difference(oracle, values, example.targets, tensor, int(place)) for place in places]
        found[name] = places, torch.stack(differences)
    return found


@torch.no_grad()
def difference(oracle: nn.Module, values: Tensor, targets: Tensor, tensor: Tensor, place: int) -> Tensor:
    """The central difference of the loss by one entry of the values or of a parameter."""
    entry, losses = tensor.view(-1)[place : place + 1], []
    kept = entry.clone()
    for sign in (1.0, -1.0):
        entry.copy_(kept + sign * DIFFERENCE_STEP)
        losses.append(nn.functional.cross_entropy(oracle(values), targets))
        entry.copy_(kept)
    return (losses[0] - losses[1]) / (2.0 * DIFFERENCE_STEP)


def non_finite(runtime: Runtime, case: Case, rules: Tolerances) -> list[Reading]:
    """Readings with NaN or Inf in one sequence, which is refused if values are checked, else spoils its row alone."""
    example = make_example(case)
    readings = []
    for name, bad in (("nan", torch.nan), ("inf", torch.inf), ("-inf", -torch.inf)):
        values = example.values.clone()
        values[1, case.length // 2, 0] = bad
        readings.append(count_wrong(f"{name}: accepted", accepts(runtime, example, values)))
        with value_checks(False), torch.no_grad():
            found = infer(runtime, example, values, {})
            plain, exact = example.model(values), example.oracle()(values.double())
        readings.append(count_wrong(f"{name}: finite logits", int(torch.isfinite(found[1]).sum())))
        others = [row for row in range(case.batch) if row != 1]
        readings.append(compare(f"{name}: other rows", found[others], plain[others], exact[others], rules, "logits"))
        readings.append(count_wrong(f"{name}: finite loss", finite_loss(runtime, example, values)))
    return readings


def accepts(runtime: Runtime, example: Example, values: Tensor) -> int:
    """1 if the runtime accepts values that are not finite although values are checked, else 0."""
    try:
        infer(runtime, example, values, {})
    except AlphabetError:
        return 0
    return 1


def finite_loss(runtime: Runtime, example: Example, values: Tensor) -> int:
    """1 if the loss of a batch with values that are not finite is finite, else 0."""
    model = example.twin().to(runtime.device)
    trainer = runtime.train(model, RECIPES["B"])
    with value_checks(False):
        loss = trainer.accumulate(values.to(runtime.device), example.targets.to(runtime.device), 1.0)
    return int(torch.isfinite(loss))
