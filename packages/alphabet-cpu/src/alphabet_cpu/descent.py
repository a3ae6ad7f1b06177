"""What of a training step is neither forward nor backward kernel: loss and head, and the table of the optimizer."""

from collections.abc import Callable
from itertools import chain, repeat
from operator import attrgetter, is_, itemgetter
from typing import Any

import numpy as np
import torch
from alphabet_core.fused import LOSSES
from torch import Tensor, nn
from torch.nn import functional as F

from alphabet_cpu.folding import add_gradient
from alphabet_cpu.kernels import losses
from alphabet_cpu.kernels.layout import Doubles, Integers, Outputs
from alphabet_cpu.kernels.optimizer import COUNT

Descent = tuple[Tensor, Doubles]  # the share of the loss, and the descriptor's gradient (B, banks, M, 1 + 2 L)
# By name: the function of torch's that a kernel stands in for, the kernel, and type and rank of the targets.
COMPILED: dict[str, tuple[object, Any, torch.dtype, int]] = {
    "cross_entropy": (F.cross_entropy, losses.cross_entropy, torch.int64, 1),
    "multilabel": (F.binary_cross_entropy_with_logits, losses.multilabel, torch.float32, 2),
    "mse": (F.mse_loss, losses.mse, torch.float32, 2),
}
_read_gradient, _read_dtype = attrgetter("grad"), attrgetter("dtype")
_read_state = itemgetter("exp_avg", "exp_avg_sq", "step")


def descend(name: str, head: nn.Module, outputs: Outputs, targets: Tensor, share: float) -> Descent | None:
    """The loss of that name, its gradient passed through the affine head, whose own is added to `.grad`.

    None where only torch can say what the loss is, or what is wrong with the targets.
    """
    if name not in COMPILED:  # one that somebody added to the core's
        return None
    function, measure, dtype, rank = COMPILED[name]
    batch, classes = outputs.logits.shape
    if LOSSES[name] is not function or type(targets) is not Tensor or targets.dtype is not dtype:
        return None
    if not targets.is_cpu or targets.requires_grad or not targets.is_contiguous() or targets.is_neg():
        return None
    if targets.is_nested or targets.shape != (batch, classes)[:rank] or (rank == 1 and classes == 1):
        return None
    d_outputs = np.empty((batch, classes))
    covered, loss = measure(outputs.logits, targets.numpy(), float(share), d_outputs)
    if not covered:
        return None
    return torch.tensor(loss, dtype=torch.float32, device="cpu"), pass_head(head, outputs, d_outputs)


def descend_by_graph(
    measure: Callable[[Tensor, Tensor], Tensor], head: nn.Module, outputs: Outputs, targets: Tensor, share: float
) -> Descent:
    """The same for any loss, by autograd as far as the logits."""
    logits = torch.from_numpy(outputs.logits).float().requires_grad_()
    loss = measure(logits, targets) * share
    loss.backward()
    assert logits.grad is not None
    return loss.detach(), pass_head(head, outputs, logits.grad.double().numpy())


def pass_head(head: nn.Module, outputs: Outputs, d_outputs: Doubles) -> Doubles:
    """The descriptor's gradient (B, banks, M, 1 + 2 L), given the outputs' (B, K); the head's are added to `.grad`."""
    assert isinstance(head, nn.Linear)
    batch, classes = d_outputs.shape
    descriptor = outputs.descriptor.reshape(batch, -1)
    weight, bias = head.weight, head.bias
    d_weight, d_bias = np.empty((classes, descriptor.shape[1]), np.float32), np.empty(classes, np.float32)
    d_descriptor = np.empty(descriptor.shape)
    matrix = np.ascontiguousarray(weight.detach().numpy())
    losses.head_bwd(d_outputs, descriptor, matrix, d_weight, d_bias, d_descriptor)
    add_gradient(weight, d_weight)
    add_gradient(bias, d_bias)
    return d_descriptor.reshape(outputs.descriptor.shape)


def drop_gradients(optimizer: torch.optim.Optimizer) -> None:
    """What `optimizer.zero_grad(set_to_none=True)` does, in a fraction of the time."""
    if getattr(optimizer.zero_grad, "__func__", None) is not torch.optim.Optimizer.zero_grad:  # somebody's own
        optimizer.zero_grad(set_to_none=True)
        return
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = None


def adamw_table(optimizer: torch.optim.Optimizer) -> Integers | None:
    """The table that `clip_and_move` takes, or None where only torch can do the step, such as the first."""
    parameters = optimizer.param_groups[0]["params"]
    gradients = list(map(_read_gradient, parameters))
    states: list[Any] = list(map(optimizer.state.get, parameters))
    if not all(states) or any(map(is_, gradients, repeat(None))):
        return None
    parts = [parameters, gradients, *zip(*map(_read_state, states), strict=True)]
    tensors = list(chain.from_iterable(parts))
    if not all(map(is_, map(_read_dtype, tensors), repeat(torch.float32))):
        return None
    if not all(map(Tensor.is_contiguous, tensors)):
        return None
    table: Integers = np.empty((len(parameters), COUNT + 1), np.int64)
    table[:, :COUNT] = np.array(list(map(Tensor.data_ptr, tensors))).reshape(COUNT, -1).T
    table[:, COUNT] = list(map(Tensor.numel, parameters))
    return table
