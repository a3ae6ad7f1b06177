"""Guarantees that hold for every input: uniform in length, amplitude, masks and time grid.

Statements about exact arithmetic, evaluated in float64. They allow for the gain's substitution at short steps, which
can exceed the exact integral by the factor `SHORT_STEP_SLACK`, 1 + 5e-7.
"""

import math

import torch
from torch import Tensor

from alphabet_core.errors import AlphabetError
from alphabet_core.head import AffineHead
from alphabet_core.model import Alphabet, Bank, require_alphabet
from alphabet_core.poles import SMALL_STEP

SHORT_STEP_SLACK = SMALL_STEP / -math.expm1(-SMALL_STEP)


def drive_bound(bank: Bank) -> float:
    """An upper bound on the norm of any excitation vector of this bank: kappa = sqrt(D) max|gain|."""
    gain = bank.norm.gain.detach().double()
    return math.sqrt(gain.numel()) * float(gain.abs().max())


def state_bound(
    decay: Tensor | float, drive: float, *, elapsed: Tensor | float = math.inf, initial: Tensor | float = 0.0
) -> Tensor:
    """An upper bound on a modal state after time T: exp(-decay T) |z_0| + slack drive / decay (1 - exp(-decay T)).

    With the smallest decay of a bank it bounds the whole state vector; elementwise it bounds each mode.
    """
    rate = torch.as_tensor(decay, dtype=torch.float64)
    if not bool((rate > 0).all()):
        raise AlphabetError(f"decay must be positive; got {decay}")
    time = torch.as_tensor(elapsed, dtype=torch.float64)
    memory = torch.exp(-rate * time)
    return memory * torch.as_tensor(initial, dtype=torch.float64) + SHORT_STEP_SLACK * drive / rate * -torch.expm1(
        -rate * time
    )


def descriptor_bound(model: Alphabet) -> float:
    """An upper bound on the Euclidean norm of any descriptor of this model: the paper's C_g."""
    total = 0.0
    for bank in require_alphabet(model).banks():
        modal = state_bound(bank.poles.decay.detach(), drive_bound(bank))  # (M,)
        total += float(modal.square().log1p().square().sum())
    return math.sqrt((1 + len(model.config.lags)) * total)


def logit_bound(model: Alphabet) -> float:
    """An upper bound on the norm of any logit vector of this model: ||W|| C_g + ||b||."""
    head = affine_head(model)
    offset = 0.0 if head.bias is None else float(head.bias.detach().double().norm())
    return float(torch.linalg.matrix_norm(head.weight.detach().double(), ord=2)) * descriptor_bound(model) + offset


def stream_bound(model: Alphabet, lifted: float, *, elapsed: float = math.inf) -> float:
    """An upper bound on the synthesized stream, H + max|scale| (B + max|feedthrough| kappa), for ||H0|| <= `lifted`."""
    synthesis = require_alphabet(model).synthesis
    if synthesis is None:
        return lifted
    drive = drive_bound(model.direct)
    state = float(state_bound(model.direct.poles.decay.detach().min(), drive, elapsed=elapsed))
    scale, feedthrough = (float(p.detach().abs().max()) for p in (synthesis.scale, synthesis.feedthrough))
    return lifted + scale * (state + feedthrough * drive)


def perturbation_bound(sizes: list[float], changes: list[float], lags: int = 3) -> float:
    """An upper bound on the distance between two descriptors: 2 sqrt(1 + lags) ||(B_r eps_r)_r||.

    Bank r's states, of norm at most B_r = sizes[r], are at most eps_r = changes[r] apart at every token.
    """
    if len(sizes) != len(changes):
        raise AlphabetError(f"sizes and changes must name the same banks; got {len(sizes)} and {len(changes)}")
    return 2.0 * math.sqrt(1 + lags) * math.hypot(*(b * e for b, e in zip(sizes, changes, strict=True)))


def affine_head(model: Alphabet) -> AffineHead:
    """The model's affine head, or an error that says why an energy-only model has none."""
    head = require_alphabet(model).head
    if not isinstance(head, AffineHead):
        raise AlphabetError(
            "model has energy_hidden set: its head is an MLP, for which no exact per-pole split or logit bound exists; "
            "use a configuration with energy_hidden=None"
        )
    return head
