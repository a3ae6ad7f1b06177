"""A forward and backward pass by the chain of kernels, by operators or as one program, and by the reference."""

import copy
from contextlib import contextmanager

import torch
from alphabet_core import TrainingStep, read_sequence
from alphabet_triton.forward import forward
from alphabet_triton.fused_adamw import FusedAdamW
from alphabet_triton.inputs import Inputs, read_masks
from alphabet_triton.launching import on
from alphabet_triton.step import write_gradients

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


def make_targets(model, batch, loss):
    """Targets of a loss for so many sequences."""
    outputs = model.config.outputs
    if loss == "cross_entropy":
        return torch.arange(1, batch + 1) % outputs
    return torch.rand(batch, outputs, generator=torch.Generator().manual_seed(4)).round()


def run_program(model, values, masks, device, loss="cross_entropy"):
    """The mean loss and all parameters' gradients, by name, by the launches of a complete step up to the optimizer."""
    adamw, measured = FusedAdamW(list(model.parameters())), torch.zeros(())
    sequence = read_sequence(values, channels=model.config.channels, like=model.project.weight, **masks)
    targets = make_targets(model, len(values), loss)
    with on(device), nan_before_it_is_written(), torch.no_grad():
        adamw.grads.fill_(torch.nan)
        write_gradients(model, Inputs.read(sequence), targets, loss=loss, adamw=adamw, measured=measured)
    assert (adamw.steps == 1.0).all()
    return {"loss": measured, **{f"{name} by loss": adamw.gradient_of(p) for name, p in model.named_parameters()}}


def run_reference_loss(model, values, masks, loss="cross_entropy"):
    """Loss and gradients as `run_program` names them, in float64, by the reference and autograd."""
    exact, targets = copy.deepcopy(model).double(), make_targets(model, len(values), loss)
    exact.zero_grad()
    targets = targets.double() if targets.is_floating_point() else targets
    measured = TrainingStep(exact, loss=loss).accumulate(values.double(), targets, 1.0, **masks)
    return {"loss": measured, **{f"{name} by loss": p.grad for name, p in exact.named_parameters()}}


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
