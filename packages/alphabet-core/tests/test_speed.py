"""Benchmarks of the hot paths, and ratios that must hold on any machine; absolute times are reported, not asserted."""

import pytest
import torch
from alphabet_core import SCANS, Alphabet, AlphabetConfig, StreamingAlphabet, TrainingStep
from alphabet_core.pairs import from_complex
from alphabet_testing.timing import interleaved_ratio


@pytest.fixture(scope="module")
def anchor():
    torch.manual_seed(0)
    return Alphabet(AlphabetConfig(channels=2, width=64, modes=16, outputs=5)), torch.randn(8, 512, 2)


def scan_arguments(length, *, varying):
    shape = (4, length, 16) if varying else (16,)
    transition = from_complex(torch.polar(0.9 * torch.ones(shape), torch.rand(shape)))
    return transition, torch.randn(4, length, 32)


@pytest.mark.parametrize("varying", [False, True], ids=["static", "varying"])
@pytest.mark.parametrize("name", SCANS)
def test_scan_speed(benchmark, name, varying):
    result = benchmark.pedantic(SCANS[name], scan_arguments(512, varying=varying), rounds=3, warmup_rounds=1)
    assert result.shape == (4, 512, 32)


@pytest.mark.parametrize("varying", [False, True], ids=["static", "varying"])
def test_the_chunked_scan_beats_the_loop(varying):
    arguments = scan_arguments(512, varying=varying)
    ratio = interleaved_ratio(lambda: SCANS["sequential"](*arguments), lambda: SCANS["chunked"](*arguments))
    assert ratio > 2.0  # measured: 8 static, 6 varying


def test_inference_speed(benchmark, anchor):
    model, values = anchor
    with torch.no_grad():
        assert benchmark.pedantic(model, (values,), rounds=3, warmup_rounds=1).shape == (8, 5)


def test_complete_step_speed(benchmark, anchor):
    model, values = anchor
    targets = torch.arange(8) % 5
    assert torch.isfinite(benchmark.pedantic(TrainingStep(model), (values, targets), rounds=3, warmup_rounds=1))


def test_stream_speed(benchmark, anchor):
    stream = StreamingAlphabet(anchor[0])
    benchmark.pedantic(stream.feed, (torch.randn(1, 1, 2),), rounds=50, warmup_rounds=20)
    assert stream.tokens == (1 if benchmark.disabled else 70)  # they are switched off beside other workers


@pytest.mark.slow
def test_time_is_linear_in_length(anchor):
    model, values = anchor
    short, long = values[:2].repeat(1, 4, 1), values[:2].repeat(1, 32, 1)
    with torch.no_grad():
        ratio = interleaved_ratio(lambda: model(long), lambda: model(short), rounds=5)
    assert ratio < 20.0  # 8 times the tokens; quadratic work would take 64 times as long
