"""The quantities that each gate must read, and the tolerance of each: the evaluator accepts no other list."""

from collections.abc import Iterable

from alphabet_audit.declare.designs import ALPHABET, INFERENCE, STEP, Row

PARAMETERS = (
    "project.weight",
    *(
        f"{bank}.{name}"
        for bank in ("direct", "cascaded")
        for name in ("lift.kernel", "lift.bias", "norm.gain", "frame.tangent", "poles.raw_decay", "poles.raw_frequency")
    ),
    "synthesis.scale",
    "synthesis.feedthrough",
    "head.weight",
    "head.bias",
)
DIFFERENTIATED = tuple(f"d {name}" for name in ("values", *PARAMETERS))


def _logits(label: str = "") -> dict[str, str]:
    return {f"{label}logits": "logits"}


def _gradients(label: str = "") -> dict[str, str]:
    return {f"{label}loss": "loss", **{f"{label}{name}": "gradient" for name in DIFFERENTIATED}}


def _labelled(labels: Iterable[str]) -> dict[str, str]:
    return {name: rule for label in labels for name, rule in {**_logits(label), **_gradients(label)}.items()}


def _spoiled(name: str) -> dict[str, str]:
    counts = {f"{name}: {what}": "exact" for what in ("accepted", "finite logits", "finite loss")}
    return {**counts, f"{name}: other rows": "logits"}


LOGITS_AND_GRADIENTS = {**_logits(), **_gradients()}
GATE_QUANTITIES: dict[str, dict[str, str]] = {
    "forward": _logits(),
    "gradients": _gradients(),
    "trajectory": {
        **{f"loss {number}": "loss" for number in (1, 2, 3)},
        **{name: name for name in ("parameters-median", "parameters-most", "parameters-largest")},
        "logits after": "trained-logits",
    },
    "long": LOGITS_AND_GRADIENTS,
    "short": LOGITS_AND_GRADIENTS,
    "seven-modes": LOGITS_AND_GRADIENTS,
    "zero-drive": _labelled(("zeros: ", "none valid: ")),
    "finite-differences": dict.fromkeys(DIFFERENTIATED, "finite-difference"),
    "non-finite": {key: rule for name in ("nan", "inf", "-inf") for key, rule in _spoiled(name).items()},
    "masks": {**_labelled(("valid: ", "observed: ", "both: ")), "padded: logits": "logits"},
}


def family_quantities(phase: str) -> dict[str, str]:
    """The quantities that a family's arm is checked by in a phase, and the tolerance of each."""
    return {name: f"family-{name}" for name in (["logits"] if phase == INFERENCE else ["loss", "gradient"])}


# The gate that ALPHABET must pass in each phase at the very shape that is timed.
PHASE_GATES = {INFERENCE: "forward", STEP: "gradients"}
# What the arm of ALPHABET that is timed must itself read, before and after its groups (from version 2 on).
TIMED_QUANTITIES = {
    INFERENCE: {"timed: logits": "logits"},
    STEP: {
        "timed: loss": "loss",
        **{f"timed: {name}": name for name in ("parameters-median", "parameters-most", "parameters-largest")},
    },
}


def row_quantities(row: Row, version: int) -> dict[str, str]:
    """The quantities that the gate of a row must have read before it was timed, and the tolerance of each."""
    if row.family != ALPHABET:
        return family_quantities(row.phase)
    return {**GATE_QUANTITIES[PHASE_GATES[row.phase]], **(TIMED_QUANTITIES[row.phase] if version > 1 else {})}


def after_quantities(row: Row) -> dict[str, str]:
    """The quantities that both arms of a row must have read after its groups, and the tolerance of each."""
    family = {} if row.family == ALPHABET else family_quantities(row.phase)
    return {**TIMED_QUANTITIES[row.phase], **{f"family: {name}": rule for name, rule in family.items()}}
