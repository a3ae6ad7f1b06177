"""Gates at the edges: nothing to read, numbers that are none, and a derivative that nobody derived."""

import torch
from alphabet_core import RECIPES, AlphabetError, TrainingStep, value_checks
from torch import Tensor, nn

from alphabet_audit.cases import Case
from alphabet_audit.gates.agreement import read_gradients, read_logits
from alphabet_audit.gates.comparing import compare, compare_scaled, count_wrong, differentiate, infer, require_fused
from alphabet_audit.gates.examples import Example, make_example
from alphabet_audit.runtimes import Runtime
from alphabet_audit.tolerances import Reading, Tolerances

# Of a central difference in float64: truncation and rounding are both near 1e-10, far below float32's own error.
DIFFERENCE = 1e-5
ENTRIES = 4


def zero_drive(runtime: Runtime, case: Case, rules: Tolerances) -> list[Reading]:
    """Values of zero, and values of which none is valid: no moment has a pair, no logarithm an argument."""
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
    """Gradients against differences of the float64 loss: an oracle that shares no derivation with anyone."""
    example, device = make_example(case), runtime.device
    model, plain, oracle = example.twin().to(device), example.twin(), example.oracle()
    trainer = runtime.train(model, RECIPES["B"])
    values, targets = example.values, example.targets
    require_fused(trainer.path(values.to(device)))
    _, found = differentiate(trainer, model, values.to(device), targets.to(device), {})
    _, usual = differentiate(TrainingStep(plain), plain, values, targets, {})
    exact = values.double()
    readings = []
    for name, tensor in {"values": exact, **dict(oracle.named_parameters())}.items():
        places = torch.linspace(0, tensor.numel() - 1, min(ENTRIES, tensor.numel())).long().unique()
        wanted = torch.stack([difference(oracle, exact, targets, tensor, int(place)) for place in places])
        mine, theirs = (gradient[name].flatten()[places] for gradient in (found, usual))
        readings.append(compare_scaled(f"d {name}", mine, theirs, wanted, rules, "finite-difference"))
    return readings


@torch.no_grad()
def difference(oracle: nn.Module, values: Tensor, targets: Tensor, tensor: Tensor, place: int) -> Tensor:
    """The central difference of the loss in one entry of the values or of a parameter."""
    entry, losses = tensor.view(-1)[place : place + 1], []
    kept = entry.clone()
    for sign in (1.0, -1.0):
        entry.copy_(kept + sign * DIFFERENCE)
        losses.append(nn.functional.cross_entropy(oracle(values), targets))
        entry.copy_(kept)
    return (losses[0] - losses[1]) / (2.0 * DIFFERENCE)


def non_finite(runtime: Runtime, case: Case, rules: Tolerances) -> list[Reading]:
    """NaN or Inf in one sequence: refused where values are checked; unchecked, it spoils that row and no other."""
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
    """1 if checked values that are no numbers are not refused."""
    try:
        infer(runtime, example, values, {})
    except AlphabetError:
        return 0
    return 1


def finite_loss(runtime: Runtime, example: Example, values: Tensor) -> int:
    """1 if the loss of a batch with a row of NaN is a number."""
    model = example.twin().to(runtime.device)
    trainer = runtime.train(model, RECIPES["B"])
    with value_checks(False):
        loss = trainer.accumulate(values.to(runtime.device), example.targets.to(runtime.device), 1.0)
    return int(torch.isfinite(loss))
