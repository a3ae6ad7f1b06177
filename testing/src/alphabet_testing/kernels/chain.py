"""A forward and backward pass by the chain of kernels, and by the reference in float64."""

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
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    assert torch.utils.deterministic.fill_uninitialized_memory
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def run_kernels(model, values, masks, device):
    """Logits and the gradients of all parameters and of the values, by name, by the kernels."""
    return {name: tensor for found in run_stages(model, values, masks, device) for name, tensor in found.items()}


def run_stages(model, values, masks, device):
    """Yield the logits, then all gradients, by name, by the kernels; the backward pass runs only if it is asked for."""
    source = values.clone().requires_grad_()
    sequence = read_sequence(source, channels=model.config.channels, like=model.project.weight, **masks)
    with on(device), nan_before_it_is_written():
        logits = forward(model, sequence.values, *read_masks(sequence))
    yield {"logits": logits.detach()}
    with on(device), nan_before_it_is_written():
        gradients = differentiate(model, source, logits)
    yield gradients


def run_reference(model, values, masks):
    """Logits and gradients as `run_kernels` names them, in float64, by the reference and autograd."""
    exact, source = copy.deepcopy(model).double(), values.double().requires_grad_()
    logits = exact(source, **masks)
    return {"logits": logits.detach(), **differentiate(exact, source, logits)}


def differentiate(model, source, logits):
    """The gradients of a sum of the logits, with weights that no symmetry hides behind."""
    weights = torch.randn(logits.shape, generator=torch.Generator().manual_seed(3)).to(logits.dtype)
    model.zero_grad()
    (logits * weights).sum().backward()
    return {"values": source.grad, **{name: p.grad for name, p in model.named_parameters()}}


def errors(found, exact, least=1e-6):
    """The largest difference of each tensor found, relative to the exact tensor's largest entry or `least`.

    It is infinite where one of the two is not a number.
    """
    return {name: _relative_error(tensor.double(), exact[name], least) for name, tensor in found.items()}


def _relative_error(found, exact, least):
    return float(((found - exact).abs() / exact.abs().max().clamp(min=least)).nan_to_num(torch.inf).max())
