"""Runtime, trainer and stream of one model under any order of calls, changes, restores and numbers of threads.

The oracle is the reference in float64 on the parameters of the moment. `ALPHABET_STATEFUL_EXAMPLES=500` looks longer.
"""

import copy
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from alphabet_core import StreamingAlphabet, TrainingStep
from alphabet_cpu import CpuRuntime, CpuStream, CpuTrainer
from alphabet_testing.models import MASKS, make_batch, make_model
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

EXAMPLES = int(os.environ.get("ALPHABET_STATEFUL_EXAMPLES", "6"))
SLACK = 8.0  # times as far from float64 as plain torch in float32; 533 fuzzed gradients were at most four times as far
FLOOR = 4e-6  # of the largest number: where torch happens to be right to the last bit
SIZES = {"channels": 2, "width": 16, "modes": 4, "outputs": 3}

seeds, lengths, masks = st.integers(0, 2**16), st.integers(1, 40), st.sampled_from(MASKS)


def draw_batch(sequences, length, kind, seed, clock=False):
    """Values and side inputs; every sequence has a valid token, so that its logits depend on something."""
    values, given = make_batch(sequences, length, 2, kind, seed)
    if clock:
        generator = torch.Generator().manual_seed(seed)
        given["time_delta"] = torch.rand(sequences, length, generator=generator)
    return values, given


def double(given):
    return {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in given.items()}


def assert_near(what, got, plain, exact):
    """`got` is at most `SLACK` times as far from `exact` as `plain` is, largest number by largest number."""
    scale = exact.abs().max().clamp_min(1e-12)
    error, usual = ((each.double() - exact).abs().max() for each in (got, plain))
    assert error <= SLACK * usual + FLOOR * scale, f"{what}: off by {error:.2e}, torch by {usual:.2e}, of {scale:.2e}"


class OneModel(RuleBasedStateMachine):
    """A model that is called, trained, changed and streamed, in any order."""

    make_runtime = CpuRuntime

    @initialize(seed=seeds, turned=st.booleans())
    def begin(self, seed, turned):
        self.threads = self.before = torch.get_num_threads()
        self.model = make_model(**SIZES, seed=seed, turned=turned)
        self.runtime, self.trainer = self.make_runtime(self.model), CpuTrainer(self.model)
        self.open_stream()

    @rule()
    def open_stream(self):
        self.stream, self.streamed = CpuStream(self.model), copy.deepcopy(self.model)
        self.fed, self.saved = [], []

    @rule()
    def open_runtime(self):
        self.runtime = self.make_runtime(self.model)

    @rule(threads=st.integers(1, 4))
    def set_threads(self, threads):
        torch.set_num_threads(threads)
        self.threads = threads

    @rule(sequences=st.integers(1, 5), length=lengths, kind=masks, seed=seeds, clock=st.booleans())
    def infer(self, sequences, length, kind, seed, clock):
        values, given = draw_batch(sequences, length, kind, seed, clock)
        exact = copy.deepcopy(self.model).double()
        with torch.no_grad():
            wanted, plain = exact(values.double(), **double(given)), self.model(values, **given)
        assert_near("logits", self.runtime(values, **given), plain, wanted)

    @rule(length=lengths, kind=masks, seed=seeds)
    def infer_in_threads(self, length, kind, seed):
        batches = [draw_batch(3, length + k, kind, seed + k) for k in range(4)]
        alone = [self.runtime(values, **given) for values, given in batches]
        with ThreadPoolExecutor(3) as pool:
            together = list(pool.map(lambda batch: self.runtime(batch[0], **batch[1]), batches))
        assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))

    @rule(sequences=st.integers(1, 5), length=lengths, kind=masks, seed=seeds)
    def differentiate(self, sequences, length, kind, seed):
        values, given = draw_batch(sequences, length, kind, seed)
        targets = torch.arange(sequences) % 3
        found = []
        for step, dtype in ((self.trainer, torch.float32), (TrainingStep(copy.deepcopy(self.model)), torch.float32),
                            (TrainingStep(copy.deepcopy(self.model).double()), torch.float64)):  # fmt: skip
            step.optimizer.zero_grad(set_to_none=True)
            inputs = given if dtype == torch.float32 else double(given)
            step.accumulate(values.to(dtype), targets, 1.0, **inputs)
            found.append({name: p.grad for name, p in step.model.named_parameters() if p.grad is not None})
        got, plain, exact = found
        assert set(got) == set(exact)
        largest = max(gradient.abs().max() for gradient in exact.values())
        for name, wanted in exact.items():
            error, usual = ((each[name].double() - wanted).abs().max() for each in (got, plain))
            assert error <= SLACK * usual + FLOOR * largest, f"{name}: off by {error:.2e}, torch by {usual:.2e}"

    @rule(sequences=st.integers(1, 6), length=lengths, kind=masks, seed=seeds)
    def train(self, sequences, length, kind, seed):
        values, given = draw_batch(sequences, length, kind, seed)
        targets = torch.arange(sequences) % 3
        exact = TrainingStep(copy.deepcopy(self.model).double())
        with torch.no_grad():
            wanted = exact.measure(exact.predict(values.double(), **double(given)), targets)
        before = copy.deepcopy(self.model.state_dict())
        loss = self.trainer.step(values, targets, **given)
        assert abs(loss.double() - wanted) <= 1e-5 * (1 + wanted)
        after = self.model.state_dict()
        assert all(tensor.isfinite().all() for tensor in after.values())
        assert not all(torch.equal(before[name], after[name]) for name in before)
        for bank in self.model.banks():
            frame = bank.frame().detach().double()
            assert (frame.mT @ frame - torch.eye(frame.shape[1])).abs().max() < 1e-5

    @rule(which=st.integers(0, 100), how=st.sampled_from(["in place", "by data", "by memory"]), seed=seeds)
    def change_a_parameter(self, which, how, seed):
        parameters = list(self.model.parameters())
        parameter = parameters[which % len(parameters)]
        noise = 0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed))
        if how == "in place":
            with torch.no_grad():
                parameter.add_(noise)
        elif how == "by data":
            parameter.data += noise
        else:
            parameter.detach().numpy()[...] += noise.numpy()  # which torch's versions do not show

    @rule(seed=seeds)
    def load_other_parameters(self, seed):
        self.model.load_state_dict(make_model(**SIZES, seed=seed).state_dict())

    @rule(length=st.integers(0, 30), kind=masks, seed=seeds)
    def feed(self, length, kind, seed):
        values, given = draw_batch(1, length, kind, seed) if length else (torch.zeros(1, 0, 2), {})
        self.stream.feed(values, **given)
        if length:
            ones = torch.ones(1, length, dtype=torch.bool)
            observed = given.get("observed", ones.unsqueeze(-1).expand(-1, -1, 2))
            self.fed.append((values, given.get("valid", ones), observed))

    @rule(seed=seeds)
    def push(self, seed):
        values, _ = draw_batch(1, 1, "none", seed)
        self.stream.push(values[0, 0])
        self.fed.append((values, torch.ones(1, 1, dtype=torch.bool), torch.ones(1, 1, 2, dtype=torch.bool)))

    @rule()
    def reset_the_stream(self):
        self.stream.reset()
        self.fed = []

    @rule()
    def save_the_stream(self):
        self.saved.append((self.stream.state(), list(self.fed)))

    @precondition(lambda self: self.saved)
    @rule(which=st.integers(0, 100), fresh=st.booleans())
    def restore_the_stream(self, which, fresh):
        state, fed = self.saved[which % len(self.saved)]
        if fresh:
            self.stream = CpuStream(self.streamed)
        self.stream.restore(state)
        self.fed = list(fed)

    @precondition(lambda self: self.fed)
    @rule()
    def read_the_stream(self):
        values, valid, observed = (torch.cat(parts, dim=1) for parts in zip(*self.fed, strict=True))
        exact = copy.deepcopy(self.streamed).double()
        with torch.no_grad():
            wanted = exact(values.double(), valid=valid, observed=observed)
            plain = StreamingAlphabet(self.streamed).feed(values, valid=valid, observed=observed).logits()
        assert self.stream.tokens == values.shape[1]
        assert_near("streamed logits", self.stream.logits(), plain, wanted)

    @invariant()
    def torch_keeps_its_number_of_threads(self):
        if hasattr(self, "threads"):
            assert torch.get_num_threads() == self.threads

    def teardown(self):
        if hasattr(self, "before"):
            torch.set_num_threads(self.before)


OneModel.TestCase.settings = settings(
    max_examples=EXAMPLES, stateful_step_count=16, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.slow
class TestAnyOrderOfCalls(OneModel.TestCase):
    """What pytest runs."""


class StaleModel(OneModel):
    """The same with a runtime that never sees a change of the model."""

    make_runtime = staticmethod(lambda model: CpuRuntime(copy.deepcopy(model)))


@pytest.mark.slow
def test_stale_weights_are_found():
    planted = settings(OneModel.TestCase.settings, max_examples=30, derandomize=True, phases=[Phase.generate])
    with pytest.raises(AssertionError, match="logits: off by"):
        run_state_machine_as_test(StaleModel, settings=planted)
