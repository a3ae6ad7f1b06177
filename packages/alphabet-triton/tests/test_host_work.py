"""How much a replay leaves to the host: functions entered and operators run, counted, not timed."""

import sys

import torch
from alphabet_testing.models import make_batch, make_model
from alphabet_triton import TritonRuntime, TritonTrainer
from alphabet_triton.launching import RecordingDevice
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
    """Budgets of calls, not of time. Before views and reasons were kept: 221 and 710 functions, 10 and 71 operators."""

    def forget(run, changed):
        return lambda: None

    runtime = TritonRuntime(make_model(*SIZES), device=RecordingDevice(), capture=forget)
    trainer = TritonTrainer(make_model(*SIZES), device=RecordingDevice(), capture=forget)
    values, targets = make_batch(2, 77, 2)[0], torch.arange(2)
    functions, operators = count_host_work(lambda: runtime(values))
    assert functions <= 200
    assert operators <= 3
    functions, operators = count_host_work(lambda: trainer.step(values, targets))
    assert functions <= 450
    assert operators <= 4
