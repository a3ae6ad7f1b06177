"""Folded factors against the model that they come from."""

import pytest
import torch
import torch.nn.functional as F
from alphabet_core import Alphabet, AlphabetConfig, AlphabetError, read_sequence
from alphabet_core.fused import fold
from alphabet_core.grid import LIFT_REACH, convolve_valid, make_grid
from alphabet_core.norm import EPSILON
from alphabet_core.scan import scan_sequential
from alphabet_testing.models import move_parameters


def run_folded(folded, values):
    """The packed states of both banks by the folded factors alone, in plain torch."""

    def lift(bank, features):
        padded = F.pad(features, (0, 0, LIFT_REACH, LIFT_REACH))
        lifted = F.silu(convolve_valid(padded, bank.taps) + bank.bias)
        scale = torch.rsqrt(lifted.square().mean(dim=-1, keepdim=True) + EPSILON)
        return lifted, scale, scan_sequential(bank.transition, scale * lifted @ bank.drive)

    lifted, scale, direct = lift(folded.direct, values @ folded.project.mT)
    stream = lifted * (1.0 + scale * folded.through) + direct @ folded.synthesis.mT
    return [direct, lift(folded.cascaded, stream)[2]]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("sizes", [(2, 64, 16, 5), (1, 9, 4, 2)])
def test_the_folded_factors_are_the_model(sizes, turned):
    torch.manual_seed(0)
    model = Alphabet(AlphabetConfig(*sizes)).double()
    move_parameters(model, 0.1, tangents=0.1 if turned else 0.0, head=True)
    values = torch.randn(2, 40, sizes[0], dtype=torch.float64)
    sequence = read_sequence(values, channels=sizes[0], like=values)
    wanted = model.trajectories(sequence, make_grid(sequence))
    for found, states in zip(run_folded(fold(model), values), wanted, strict=True):
        torch.testing.assert_close(found, states, rtol=1e-10, atol=1e-12)


def test_the_poles_of_a_float32_model_are_folded_in_float64():
    """A frequency that is rounded to float32 turns by 1e-4 within a thousand tokens, as long as slow poles remember."""
    model = Alphabet(AlphabetConfig(2, 16, 5, 2))
    for folded, bank in zip((fold(model).direct, fold(model).cascaded), model.banks(), strict=True):
        poles = bank.poles.double()
        exact = torch.exp(poles.values())
        assert folded.transition.dtype == torch.float64
        torch.testing.assert_close(torch.complex(*folded.transition.chunk(2)), exact, rtol=0.0, atol=1e-15)


def test_gradients_pass_through_the_fold():
    torch.manual_seed(0)
    model = Alphabet(AlphabetConfig(2, 8, 3, 2)).double()
    sequence = read_sequence(values := torch.randn(2, 30, 2, dtype=torch.float64), channels=2, like=values)
    gradients = []
    for states in (run_folded(fold(model), values), model.trajectories(sequence, make_grid(sequence))):
        model.zero_grad()
        sum(z.square().sum() for z in states).backward()
        gradients.append([p.grad for name, p in model.named_parameters() if not name.startswith("head")])
    for found, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


def test_variants_are_not_folded():
    with pytest.raises(AlphabetError, match="structural variants are not folded"):
        fold(Alphabet(AlphabetConfig.variant("one-scan", channels=1, width=8, modes=2, outputs=2)))
