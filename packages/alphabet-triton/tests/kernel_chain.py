"""The chain of kernels, and the reference's moment sums and gradients in float64."""

import copy
from dataclasses import replace

import torch
from alphabet_core import read_sequence
from alphabet_core.folding import fold
from alphabet_core.grid import make_grid
from alphabet_core.moments import correlate
from alphabet_triton import training
from alphabet_triton.shapes import Masks, Shape, no_masks
from alphabet_triton.weights import read_weights

# (sizes, length, masks): all the lengths, M = 7, features that are no power of two, and carries over three chunks.
CASES = [
    ((2, 64, 16, 5), 33, "none"),
    ((1, 16, 4, 3), 1, "none"),
    ((1, 16, 4, 3), 1, "valid"),
    ((3, 24, 7, 2), 31, "both"),
    ((2, 32, 7, 2), 127, "observed"),
    ((1, 20, 2, 2), 300, "none"),
    ((1, 16, 2, 9), 300, "both"),
]


def read_masks(sequence):
    if sequence.valid is None and sequence.available is None:
        return no_masks(sequence.values.device)
    everything = torch.ones(sequence.values.shape[:2], dtype=torch.uint8)
    given = (sequence.valid, sequence.available)
    return Masks(*(everything if mask is None else mask.to(torch.uint8).contiguous() for mask in given))


def run_kernels(model, values, masks, d_sums, device):
    """Moment sums and all gradients by the chain of kernels; every buffer is NaN before it is written."""
    config = model.config
    sequence = read_sequence(values, channels=config.channels, like=model.project.weight, **masks)
    shape = Shape(*values.shape, config.width, config.modes)
    given, weights, read = read_masks(sequence), read_weights(model), sequence.values.contiguous()
    launches, saved = training.plan_forward(shape, given, read, weights)
    run(launches, vars(saved).values(), device)
    launches, found = training.plan_backward(shape, given, read, weights, saved, d_sums)
    run(launches, vars(found).values(), device)
    return saved, gradients_of(model, found)


def run(launches, outputs, device):
    for tensor in {id(t): t for launch in launches for t in launch.tensors.values()}.values():
        if any(tensor is output for output in outputs):
            tensor.fill_(torch.nan if tensor.is_floating_point() else -7)
    for launch in launches:
        device.run(launch)


def gradients_of(model, found):
    """The parameters' gradients, through the fold, and that of the values."""
    folded, edge, reader = fold(model), found.edge.sum(0), found.reader.sum(0)
    pairs = [
        (folded.project, edge[:, 6:]), (folded.direct.taps, edge[:, :5]), (folded.direct.bias, edge[:, 5]),
        (folded.direct.drive, found.matrix.sum(0).mT), (folded.direct.transition, found.transition.sum(0)),
        (folded.synthesis, found.synthesis.sum(0)), (folded.through, reader[:, 6]),
        (folded.cascaded.taps, reader[:, :5]), (folded.cascaded.bias, reader[:, 5]),
        (folded.cascaded.drive, found.matrix_2.sum(0).mT), (folded.cascaded.transition, found.transition_2.sum(0)),
    ]  # fmt: skip
    model.zero_grad()
    torch.autograd.backward([tensor for tensor, _ in pairs], [gradient.double() for _, gradient in pairs])
    named = {name: p.grad for name, p in model.named_parameters() if not name.startswith("head")}
    return {**named, "values": found.values}


def run_reference(model, values, masks, d_sums):
    """The same in float64, by the reference and autograd."""
    exact = copy.deepcopy(model).double()
    config = exact.config
    sequence = read_sequence(values.double(), channels=config.channels, like=exact.project.weight, **masks)
    read = sequence.values.clone().requires_grad_()
    sequence = replace(sequence, values=read)
    grid, sums = make_grid(sequence), []
    for states in exact.trajectories(sequence, grid):
        moments = correlate(states, [partner for partner, _ in grid.lagged(states, (0, *config.lags))])
        re, im = moments.split(config.modes, dim=-1)
        sums.append(torch.stack([re[:, 0], *(part[:, lag] for lag in (1, 2, 3) for part in (re, im))], dim=1))
    found = torch.stack(sums, dim=1)  # (B, 2, 7, M)
    (found * d_sums.double()).sum().backward()
    gradients = {name: p.grad for name, p in exact.named_parameters() if p.grad is not None}
    gradients["values"] = read.grad if sequence.valid is None else read.grad * sequence.valid.unsqueeze(-1)
    return found.detach(), gradients


def errors(found, exact):
    """Largest differences, relative to a tensor's largest entry; infinite where something is not a number."""
    return {
        name: float(
            ((found[name].double() - wanted).abs() / wanted.abs().max().clamp(min=1e-6)).nan_to_num(torch.inf).max()
        )
        for name, wanted in exact.items()
    }
