"""How much a replay leaves to the host: functions entered and operators run, counted, not timed."""

import sys

import torch
from alphabet_core.fused import SettingsMemo
from alphabet_testing.models import make_batch, make_model
from alphabet_triton import TritonRuntime, TritonTrainer
from alphabet_triton.launching import RecordingDevice
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import TorchDispatchMode

SIZES = (2, 24, 5, 3)


def count_host_work(call):
    """How many functions a call enters, Python's and C's, and how many operators of torch's it runs."""
    functions, operators = [], []

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            operators.append(function)
            return function(*args, **(kwargs or {}))

    call()
    sys.setprofile(lambda frame, event, argument: functions.append(event) if event.endswith("call") else None)
    try:
        call()
    finally:
        sys.setprofile(None)
    with Operators():
        call()
    return len(functions), len(operators)


def test_the_host_does_little_per_replay():
    """Budgets of calls, not of time. Once they were 221 and 710 functions, 10 and 71 operators."""

    def forget(run, changed):
        return lambda: None

    runtime = TritonRuntime(make_model(*SIZES), device=RecordingDevice(), capture=forget)
    trainer = TritonTrainer(make_model(*SIZES), device=RecordingDevice(), capture=forget)
    values, targets = make_batch(2, 77, 2)[0], torch.arange(2)
    functions, operators = count_host_work(lambda: runtime(values))
    assert functions <= 40
    assert operators <= 2
    functions, operators = count_host_work(lambda: trainer.step(values, targets))
    assert functions <= 80
    assert operators <= 3


def test_settings_are_read_again_when_one_of_them_is_another():
    weight = torch.nn.Parameter(torch.zeros(3))
    optimizer, memo = torch.optim.AdamW([weight], lr=1.0), SettingsMemo()
    group = optimizer.param_groups[0]
    group["betas"] = [0.9, 0.99]
    assert memo.read(optimizer, [weight]) is memo.read(optimizer, [weight])
    assert memo.read(optimizer, [weight]) == (1.0, 0.9, 0.99, 1e-8, 0.01)
    group["lr"] = 2.0
    group["betas"][0] = 0.8
    assert memo.read(optimizer, [weight]) == (2.0, 0.8, 0.99, 1e-8, 0.01)
    for name, odd in (("amsgrad", True), ("lr", torch.tensor(0.1))):
        before, group[name] = group[name], odd
        assert memo.read(optimizer, [weight]) is None
        group[name] = before
        assert memo.read(optimizer, [weight]) is not None
    hook = optimizer.register_step_pre_hook(lambda *given: None)
    assert memo.read(optimizer, [weight]) is None
    hook.remove()
    assert memo.read(optimizer, [weight]) is not None
    hook = register_optimizer_step_post_hook(lambda *given: None)
    assert memo.read(optimizer, [weight]) is None
    hook.remove()
    assert memo.read(optimizer, [weight]) is not None
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    assert memo.read(optimizer, [weight]) is not None
    optimizer.step = lambda: None
    assert memo.read(optimizer, [weight]) is None
    assert memo.read(torch.optim.SGD([weight], lr=1.0), [weight]) is None
