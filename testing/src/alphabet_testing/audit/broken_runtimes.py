"""Runtimes with one fault each, built from the reference or from the real CPU runtime: what the gates must reject.

A fault in the recurrence, in a mask or in a moment is planted where the reference takes it as an argument or a module;
whatever else is wrong is wrapped around a runtime that is right.
"""

import copy

import torch
from alphabet_audit.gates.runtimes import Runtime
from alphabet_core import TrainingStep, value_checks
from alphabet_core.scan import scan_chunked
from alphabet_core.sequence import values_checked
from alphabet_cpu import CpuRuntime, CpuTrainer
from torch import nn


class Wrapped:
    """The CPU runtime with its values, masks or logits tampered with."""

    def __init__(self, model, *, values=None, masks=None, logits=None):
        self.runtime = CpuRuntime(model)
        self.changes = values, masks, logits

    def path(self, values, **masks):
        return "fused"

    def __call__(self, values, **masks):
        change_values, change_masks, change_logits = self.changes
        values = change_values(values) if change_values else values
        with value_checks(not change_masks and values_checked()):  # a kernel without the mask reads NaN, and goes on
            logits = self.runtime(values, **(change_masks(masks) if change_masks else masks))
        return change_logits(logits) if change_logits else logits


def wrapped(**changes):
    return {"infer": lambda model: Wrapped(model, **changes)}


class Rebuilt:
    """The reference with a broken part, following the model's parameters."""

    def __init__(self, model, change):
        self.model, self.change = model, change

    def path(self, values, **masks):
        return "fused"

    @torch.no_grad()
    def __call__(self, values, **masks):
        broken = copy.deepcopy(self.model)
        self.change(broken)
        return broken(values, **masks)


class RebuiltTrainer(TrainingStep):
    """The reference's step on a model with a broken part."""

    def __init__(self, model, recipe, change):
        change(model)
        super().__init__(model, recipe)

    def path(self, values, **masks):
        return "fused"


def rebuilt(change):
    """A fault in inference and training, which run the same kernels."""
    return {
        "infer": lambda model: Rebuilt(model, change),
        "train": lambda model, recipe: RebuiltTrainer(model, recipe, change),
    }


def scanning(scan):
    """The recurrence replaced, in inference and training."""
    return rebuilt(lambda model: setattr(model, "scan", scan))


def conjugate(transition, drive, start):
    modes = transition.shape[-1] // 2
    return scan_chunked(torch.cat([transition[..., :modes], -transition[..., modes:]], dim=-1), drive, start)


def negate(transition, drive, start):
    return scan_chunked(-transition, drive, start)


def forget(transition, drive, start):
    """The carry is lost at a block's edge."""
    length = drive.shape[1] // 2
    return torch.cat([scan_chunked(transition, part, start) for part in (drive[:, :length], drive[:, length:])], dim=1)


def stale(transition, drive, start):
    """One row starts with what the row before it left behind."""
    states = scan_chunked(transition, drive, start)
    return torch.cat([states[:1], states[1:] + 1e-3 * states[:-1, -1:]], dim=0)


def delay(transition, drive, start):
    """Every state is the one before: an index that is off by one."""
    states = scan_chunked(transition, drive, start)
    return torch.cat([torch.zeros_like(states[:, :1]), states[:, :-1]], dim=1)


def lag_of_three(model):
    object.__setattr__(model.config, "lags", (1, 2, 3))


def drop_last_tokens(values):
    """The tokens behind the last whole block of eight are not read."""
    kept = values.clone()
    kept[:, values.shape[1] // 8 * 8 :] = 0.0
    return kept


def early_tap(model):
    model.direct.lift.kernel.data = model.direct.lift.kernel.data.roll(1, dims=-1)


class Changed(CpuTrainer):
    """The CPU trainer with one thing wrong after its gradients, or in its update."""

    def __init__(self, model, recipe, *, gradients=None, update=None):
        super().__init__(model, recipe)
        self.changes = gradients, update

    def accumulate(self, values, targets, share, **masks):
        loss = super().accumulate(values, targets, share, **masks)
        if self.changes[0]:
            self.changes[0](dict(self.model.named_parameters()), values)
        return loss

    def update(self):
        if self.changes[1]:
            self.changes[1](self)
        else:
            super().update()


def training(**changes):
    return {"train": lambda model, recipe: Changed(model, recipe, **changes)}


def scale_gradient(name, factor):
    return lambda parameters, values: parameters[name].grad.mul_(factor)


def spoil_input_gradient(parameters, values):
    if values.grad is not None:
        values.grad[:, -1] = 0.0


def update_without_clipping(trainer):
    trainer.optimizer.step()
    trainer.model.constrain()


def update_without_constraint(trainer):
    nn.utils.clip_grad_norm_(trainer.parameters, trainer.recipe.clip_norm)
    trainer.optimizer.step()


def update_without_decay(trainer):
    trainer.optimizer.param_groups[0]["weight_decay"] = 0.0
    TrainingStep.update(trainer)


class Stale:
    """Keeps the weights of its first call."""

    def __init__(self, model):
        self.runtime = CpuRuntime(copy.deepcopy(model))

    def path(self, values, **masks):
        return "fused"

    def __call__(self, values, **masks):
        return self.runtime(values, **masks)


class Deferring(CpuRuntime):
    """The right results, but by the reference, which proves nothing about kernels."""

    def path(self, values, **masks):
        return "reference: the kernels are not installed"


class Crashing(CpuRuntime):
    def __call__(self, values, **masks):
        raise RuntimeError("an illegal memory access was encountered")


def without(name):
    return lambda masks: {key: mask for key, mask in masks.items() if key != name}


def always_finite(logits):
    return torch.nan_to_num(logits)


def spread_nan(logits):
    return logits + 0.0 * logits.sum()


def unchecked(model):
    """NaN and Inf are taken for zero and not refused."""
    return Wrapped(model, values=lambda values: torch.nan_to_num(values, posinf=0.0, neginf=0.0))


# Fault by name: what it replaces in the right runtime, and gates that must be red.
FORWARD = ("forward", "long", "short", "seven-modes", "masks", "non-finite")
BROKEN = {
    "conjugate poles": (scanning(conjugate), (*FORWARD, "gradients", "trajectory", "finite-differences")),
    "sign of the transition": (scanning(negate), (*FORWARD, "gradients", "trajectory", "finite-differences")),
    "carry lost at a block's edge": (scanning(forget), (*FORWARD, "gradients", "trajectory")),
    "carry of another row": (scanning(stale), ("forward", "short", "masks", "gradients")),
    "states one token late": (scanning(delay), (*FORWARD, "gradients", "finite-differences")),
    "lag of three for four": (rebuilt(lag_of_three), (*FORWARD, "gradients", "trajectory")),
    "taps off by one": (rebuilt(early_tap), (*FORWARD, "trajectory")),
    "dropped synthesis": (rebuilt(lambda model: model.synthesis.scale.data.zero_()), (*FORWARD, "trajectory")),
    "dropped lift bias": (rebuilt(lambda model: model.cascaded.lift.bias.data.zero_()), (*FORWARD, "trajectory")),
    "banks swapped": (
        rebuilt(lambda model: setattr(model.direct, "poles", copy.deepcopy(model.cascaded.poles))),
        (*FORWARD, "trajectory"),
    ),
    "norm without gain": (rebuilt(lambda model: model.direct.norm.gain.data.fill_(1.0)), (*FORWARD, "zero-drive")[:6]),
    "tail of a block not read": (wrapped(values=drop_last_tokens), ("short", "long", "masks")),
    "last token not read": (wrapped(values=lambda v: torch.cat([v[:, :-1], 0 * v[:, -1:]], dim=1)), FORWARD[:4]),
    "channels swapped": (wrapped(values=lambda v: v.flip(-1)), FORWARD[:4]),
    "validity dropped": (wrapped(masks=without("valid")), ("masks", "zero-drive")),
    "observation dropped": (wrapped(masks=without("observed")), ("masks",)),
    "validity inverted": (
        wrapped(masks=lambda masks: {k: ~m if k == "valid" else m for k, m in masks.items()}),
        ("masks", "zero-drive"),
    ),
    "rows exchanged": (wrapped(logits=lambda logits: logits.flip(0)), ("forward", "short", "seven-modes", "masks")),
    "logits in half precision": (wrapped(logits=lambda logits: logits.half().float()), FORWARD[:4]),
    "logits slightly scaled": (wrapped(logits=lambda logits: 1.0001 * logits), FORWARD[:4]),
    "a logit too few": (wrapped(logits=lambda logits: logits[:, :-1]), FORWARD[:4]),
    "NaN made zero": (wrapped(logits=always_finite), ("non-finite",)),
    "NaN in every row": (wrapped(logits=spread_nan), ("non-finite",)),
    "NaN accepted": ({"infer": unchecked}, ("non-finite",)),
    "weights of the first call": ({"infer": Stale}, ("trajectory",)),
    "the reference in disguise": ({"infer": Deferring}, (*FORWARD, "trajectory", "zero-drive")),
    "crash": ({"infer": Crashing}, (*FORWARD, "trajectory", "zero-drive")),
    "gradient's sign": (
        training(gradients=scale_gradient("cascaded.poles.raw_frequency", -1.0)),
        ("gradients", "long", "short", "seven-modes", "finite-differences", "masks", "trajectory"),
    ),
    "gradient doubled": (
        training(gradients=scale_gradient("synthesis.scale", 2.0)),
        ("gradients", "long", "short", "finite-differences", "masks"),
    ),
    "gradient missing": (
        training(gradients=lambda parameters, values: setattr(parameters["direct.lift.bias"], "grad", None)),
        ("gradients", "long", "short", "finite-differences", "masks"),
    ),
    "gradient off by a thousandth": (
        training(gradients=scale_gradient("head.weight", 1.001)),
        ("gradients", "long", "short", "seven-modes"),
    ),
    "input gradient of the last token": (training(gradients=spoil_input_gradient), ("gradients", "short", "masks")),
    "no clipping": (training(update=update_without_clipping), ("trajectory",)),
    "no constraint": (training(update=update_without_constraint), ("trajectory",)),
    "no weight decay": (training(update=update_without_decay), ("trajectory",)),
}  # fmt: skip


def make_broken(name):
    parts = {"infer": CpuRuntime, "train": CpuTrainer, **BROKEN[name][0]}
    return Runtime(name, "cpu", "reduced", parts["infer"], parts["train"])
