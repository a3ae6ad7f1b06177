"""What a fused optimizer kernel needs to know of torch's AdamW, and the constant of its gradient clipping."""

from collections.abc import Sequence
from operator import is_
from typing import NamedTuple

import torch
from torch import nn
from torch.optim import optimizer as torch_optimizer

# What `torch.nn.utils.clip_grad_norm_` adds to the norm that it divides by.
CLIP_EPSILON = 1e-6
# What `torch.optim.optimizer.register_optimizer_step_..._hook` fills, for every optimizer of the process.
STEP_HOOKS = torch_optimizer._global_optimizer_pre_hooks, torch_optimizer._global_optimizer_post_hooks


class AdamWSettings(NamedTuple):
    """The settings of a plain AdamW step, in the order in which kernels take them."""

    learning_rate: float
    beta_1: float
    beta_2: float
    epsilon: float
    weight_decay: float


def read_adamw_settings(optimizer: torch.optim.Optimizer, parameters: Sequence[nn.Parameter]) -> AdamWSettings | None:
    """The settings of a plain AdamW over just these parameters, or None where a step would be something else.

    They are those whose gradients are clipped together: what another optimizer leaves out counts there too.
    """
    group = optimizer.param_groups[0]
    moved = group["params"]
    if len(moved) != len(parameters) or not all(map(is_, moved, parameters)):
        return None
    if type(optimizer) is not torch.optim.AdamW or len(optimizer.param_groups) > 1:
        return None
    if does_more(optimizer):
        return None
    if group["amsgrad"] or group["maximize"] or not group.get("decoupled_weight_decay", True):
        return None
    settings = (group["lr"], *group["betas"], group["eps"], group["weight_decay"])
    if not all(isinstance(setting, int | float) for setting in settings):
        return None
    return AdamWSettings(*map(float, settings))


def does_more(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a step calls hooks, its own or those of all optimizers, or is somebody's own.

    A scheduler of learning rates replaces `step` by one that only notes that it was called.
    """
    hooks = optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks, *STEP_HOOKS
    step = vars(optimizer).get("step")
    noted = getattr(step, "_wrapped_by_lr_sched", False) and getattr(step, "__wrapped__", None)
    return any(hooks) or (step is not None and noted is not type(optimizer).step)
