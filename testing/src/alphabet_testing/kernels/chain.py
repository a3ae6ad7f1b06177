"""The chain of operators, and the reference's logits and gradients in float64."""

import copy
from contextlib import contextmanager

import torch
from alphabet_core import read_sequence
from alphabet_triton.forward import forward
from alphabet_triton.inputs import read_masks
from alphabet_triton.launching import on

# (sizes, length, masks): all the lengths, M = 7, features that are no power of two, carries over
# three chunks, features and poles in parts.
CASES = [
    ((2, 64, 16, 5), 33, "none"),
    ((1, 16, 4, 3), 1, "none"),
    ((1, 16, 4, 3), 1, "valid"),
    ((3, 24, 7, 2), 31, "both"),
    ((2, 32, 7, 2), 127, "observed"),
    ((1, 20, 2, 2), 300, "none"),
    ((1, 16, 2, 9), 300, "both"),
    ((2, 160, 72, 3), 33, "both"),
]


@contextmanager
def nan_before_it_is_written():
    """Every `torch.empty` holds NaN, so that whatever a kernel leaves out is seen."""
    torch.use_deterministic_algorithms(True)
    assert torch.utils.deterministic.fill_uninitialized_memory
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def run_kernels(model, values, masks, device):
    """Logits and all gradients by the kernels."""
    source = values.clone().requires_grad_()
    sequence = read_sequence(source, channels=model.config.channels, like=model.project.weight, **masks)
    with on(device), nan_before_it_is_written():
        return differentiate(model, source, forward(model, sequence.values, *read_masks(sequence)))


def run_reference(model, values, masks):
    """The same in float64, by the reference and autograd."""
    exact, source = copy.deepcopy(model).double(), values.double().requires_grad_()
    return differentiate(exact, source, exact(source, **masks))


def differentiate(model, source, logits):
    """Logits, and the gradients of a sum of them with weights that no symmetry hides behind."""
    weights = torch.randn(logits.shape, generator=torch.Generator().manual_seed(3)).to(logits.dtype)
    model.zero_grad()
    (logits * weights).sum().backward()
    gradients = {name: p.grad for name, p in model.named_parameters()}
    return {"logits": logits.detach(), "values": source.grad, **gradients}


def errors(found, exact, least=1e-6):
    """Largest differences, relative to a tensor's largest entry or `least`; infinite where one is not a number."""
    return {
        name: float(
            ((found[name].double() - wanted).abs() / wanted.abs().max().clamp(min=least)).nan_to_num(torch.inf).max()
        )
        for name, wanted in exact.items()
    }
