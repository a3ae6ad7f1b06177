"""Interrupts at any place: nothing crashes, and nothing of the process stays changed."""

import sys

import pytest
from alphabet_testing.processes import run_python

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no interval timers"),
]
SETTINGS = """
import random, signal, torch
from alphabet_cpu.workers import one_torch_thread
torch.set_num_threads(3)
with one_torch_thread():
    pass
signal.signal(signal.SIGALRM, signal.default_int_handler)
draw, interrupted, left = random.Random(0), 0, 0
for _ in range(3000):
    try:
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-6, 6e-5))
        for _ in range(20):
            with one_torch_thread():
                pass
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        interrupted += 1
    left += torch.get_num_threads() != 3
    torch.set_num_threads(3)
print(interrupted > 100, left)
"""
STEPS = """
import os, random, signal, torch
from alphabet_cpu import CpuRuntime, CpuTrainer
from alphabet_testing.models import make_model
torch.manual_seed(0)
torch.set_num_threads(2)
model = make_model(3, 33, 8, 4)
runtime, trainer = CpuRuntime(model), CpuTrainer(model)
values, targets = torch.randn(2, 700, 3), torch.randint(4, (2,))
for turned in (make_model(3, 33, 8, 4, turned=True), model):
    for _ in range(3):
        CpuTrainer(turned)(values, targets)
for _ in range(3):  # all is compiled before: numba itself does not survive an interrupt while it compiles
    trainer(values, targets)
    runtime(values)
signal.signal(signal.SIGALRM, signal.default_int_handler)
draw, interrupted = random.Random(0), 0
for _ in range(400):
    try:
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-5, 6e-3))
        for _ in range(1000):  # which no machine gets through in six milliseconds
            runtime(values)
            trainer(values, targets)
    except BaseException:  # torch's own blocks, interrupted, may leave gradients disabled: not what is asked here
        interrupted += 1
        torch.set_grad_enabled(True)
        torch.set_num_threads(2)
print(interrupted > 100, flush=True)
os._exit(0)
"""


def test_no_interrupt_leaves_the_number_of_threads_changed():
    """In a process of its own, whose timer raises KeyboardInterrupt at a random place, again and again."""
    assert run_python(SETTINGS).stdout == "True 0\n"


def test_no_interrupt_of_steps_crashes_the_process():
    """A compiled function that made named tuples for Python did: an interrupt waited in their constructor."""
    assert run_python(STEPS).stdout == "True\n"
