"""Gates of logits and gradients, without masks and with every kind of them."""

import torch

from alphabet_audit.declare.cases import Case
from alphabet_audit.declare.tolerances import Tolerances
from alphabet_audit.gates.comparing import Masks, compare, compare_scaled, differentiate_all, infer
from alphabet_audit.gates.examples import Example, make_example, make_masks, pad_invalid, spoil_unreadable
from alphabet_audit.gates.runtimes import Runtime
from alphabet_audit.protocol.readings import Reading

PADDING = 9  # invalid tokens that are appended


def read_logits(
    runtime: Runtime, example: Example, rules: Tolerances, masks: Masks | None = None, label: str = "logits"
) -> Reading:
    """The reading of the logits, by their largest error."""
    masks = masks or {}
    values = spoil_unreadable(example.values, masks)
    with torch.no_grad():
        exact = example.oracle()(values.double(), **masks)
        plain = example.model(values, **masks)
    return compare(label, infer(runtime, example, values, masks), plain, exact, rules, "logits")


def read_gradients(
    runtime: Runtime, example: Example, rules: Tolerances, masks: Masks | None = None, label: str = ""
) -> list[Reading]:
    """The readings of the loss, and of the gradients of input and parameters, each relative to its largest entry."""
    masks = masks or {}
    results = differentiate_all(runtime, example, spoil_unreadable(example.values, masks), masks)
    (loss, found), (plain_loss, plain), (exact_loss, exact) = (results[name] for name in ("found", "plain", "exact"))
    return [
        compare(f"{label}loss", loss, plain_loss, exact_loss, rules, "loss"),
        *(
            compare_scaled(f"{label}d {name}", found[name], plain[name], exact[name], rules, "gradient")
            for name in exact
        ),
    ]


def forward(runtime: Runtime, case: Case, rules: Tolerances) -> list[Reading]:
    """The reading of the logits."""
    return [read_logits(runtime, make_example(case), rules)]


def gradients(runtime: Runtime, case: Case, rules: Tolerances) -> list[Reading]:
    """The readings of the loss, the input's gradient and the parameters' gradients."""
    return read_gradients(runtime, make_example(case), rules)


def both(runtime: Runtime, case: Case, rules: Tolerances) -> list[Reading]:
    """The readings of `forward` and `gradients` together."""
    example = make_example(case)
    return [read_logits(runtime, example, rules), *read_gradients(runtime, example, rules)]


def masks(runtime: Runtime, case: Case, rules: Tolerances) -> list[Reading]:
    """The readings of `both` with every combination of masks, and of logits with invalid tokens appended.

    Wherever a mask forbids reading there is NaN.
    """
    example = make_example(case)
    readings = []
    for name, given in make_masks(case).items():
        readings.append(read_logits(runtime, example, rules, given, f"{name}: logits"))
        readings += read_gradients(runtime, example, rules, given, f"{name}: ")
    padded, valid = pad_invalid(example.values, PADDING)
    with torch.no_grad():
        exact, plain = example.oracle()(example.values.double()), example.model(example.values)
    found = infer(runtime, example, padded, {"valid": valid})
    return [*readings, compare("padded: logits", found, plain, exact, rules, "logits")]
