"""Benchmarks of the kernels, and ratios to the reference that must hold on any machine."""

import copy

import pytest
import torch
from alphabet_core import Alphabet, AlphabetConfig, TrainingStep, value_checks
from alphabet_cpu import CpuRuntime, CpuTrainer
from timing import interleaved_ratio


@pytest.fixture(scope="module")
def anchor():
    torch.manual_seed(0)
    model = Alphabet(AlphabetConfig(channels=2, width=64, modes=16, outputs=5))
    return model, torch.randn(8, 512, 2), torch.arange(8) % 5


def test_inference_speed(benchmark, anchor):
    model, values, _ = anchor
    with value_checks(False):
        assert benchmark.pedantic(CpuRuntime(model), (values,), rounds=10, warmup_rounds=2).shape == (8, 5)


def test_complete_step_speed(benchmark, anchor):
    model, values, targets = anchor
    step = CpuTrainer(copy.deepcopy(model))
    assert torch.isfinite(benchmark.pedantic(step, (values, targets), rounds=10, warmup_rounds=2))


def test_inference_is_much_faster_than_the_reference(anchor):
    model, values, _ = anchor
    runtime = CpuRuntime(model)
    with torch.no_grad(), value_checks(False):
        assert interleaved_ratio(lambda: model(values), lambda: runtime(values), rounds=9) > 3.0  # measured here: 10


def test_a_complete_step_is_much_faster_than_the_reference(anchor):
    model, values, targets = anchor
    plain, fused = TrainingStep(copy.deepcopy(model)), CpuTrainer(copy.deepcopy(model))
    ratio = interleaved_ratio(lambda: plain(values, targets), lambda: fused(values, targets), rounds=9)
    assert ratio > 2.5  # measured here: 7


def test_time_is_linear_in_length(anchor):
    model, values, _ = anchor
    runtime = CpuRuntime(model)
    short, long = values[:2].repeat(1, 8, 1), values[:2].repeat(1, 64, 1)
    with value_checks(False):
        assert interleaved_ratio(lambda: runtime(long), lambda: runtime(short), rounds=7) < 12.0  # 8 times the tokens
