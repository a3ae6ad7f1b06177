"""CpuStream against the core's stream and the whole pass."""

import copy
from itertools import pairwise

import numpy as np
import pytest
import torch
from alphabet_core import Alphabet, AlphabetConfig, AlphabetError, StreamingAlphabet, value_checks
from alphabet_cpu import CpuRuntime, CpuStream
from alphabet_cpu.kernels.stream_kernels import PAST, feed_tokens
from alphabet_testing.models import MASKS, make_batch, make_model
from alphabet_testing.sizes import SIZES
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from numba.core.runtime import _nrt_python, rtsys
from safetensors.torch import load_file, save_file

LENGTHS = (1, 2, 4, 7, 8, 9, 15, 16, 17, 24, 25, 63, 64, 65, 80, 81, 150)


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("sizes", SIZES)
def test_a_chunk_of_any_length_gives_the_whole_pass(sizes, masks):
    model = make_model(*sizes)
    for length in LENGTHS:
        values, given_masks = make_batch(1, length, sizes[0], masks)
        found = CpuStream(model).feed(values, **given_masks).logits()
        with torch.no_grad():
            assert (found - model(values, **given_masks)).abs().max() < 1e-6


@given(cuts=st.lists(st.integers(0, 90), max_size=8), masks=st.sampled_from(MASKS), seed=st.integers(0, 9))
def test_it_does_not_matter_how_a_stream_is_cut(cuts, masks, seed):
    model = make_model(3, 24, 7, 2)
    values, given_masks = make_batch(1, 90, 3, masks, seed=seed)
    # In float64: entries reach 6, where the roundings of two streams in float32 add up to more than 1e-6.
    mine, exact = CpuStream(model), StreamingAlphabet(copy.deepcopy(model).double())
    edges = [0, *sorted(cuts), 90]
    for start, stop in pairwise(edges):
        part = {name: mask[:, start:stop] for name, mask in given_masks.items()}
        mine.feed(values[:, start:stop], **part)
        exact.feed(values[:, start:stop].double(), **part)
        assert mine.tokens == exact.tokens == stop
        if stop:
            assert (mine.describe() - exact.describe()).abs().max() < 1e-6


def test_tokens_one_by_one_equal_the_core_at_every_time():
    model = make_model()
    values, _ = make_batch(1, 60, 2)
    mine, core = CpuStream(model), StreamingAlphabet(model)
    for t, token in enumerate(values[0].numpy()):
        mine.push(token)
        core.feed(values[:, t : t + 1])
        assert (mine.logits() - core.logits()).abs().max() < 1e-6
    assert (mine.logits() - CpuRuntime(model)(values)).abs().max() < 1e-6


def test_a_stream_goes_on_from_its_saved_state(tmp_path):
    model = make_model()
    values, _ = make_batch(1, 60, 2)
    save_file(CpuStream(model).feed(values[:, :33]).state(), tmp_path / "stream.safetensors")
    later = CpuStream(model).restore(load_file(tmp_path / "stream.safetensors"))
    assert later.tokens == 33
    wanted = CpuStream(model).feed(values[:, :33]).feed(values[:, 33:])
    assert torch.equal(later.feed(values[:, 33:]).logits(), wanted.logits())
    with pytest.raises(AlphabetError, match=r"state\['memory'\] must be float32 of shape"):
        CpuStream(make_model(3, 24, 7, 2)).restore(later.state())
    with pytest.raises(AlphabetError, match="state must have the entries"):
        later.restore({"tokens": torch.tensor(3)})
    with pytest.raises(AlphabetError, match="count"):
        later.restore(later.state() | {"tokens": torch.tensor(-1)})
    with pytest.raises(AlphabetError, match=r"state\['pairs'\]"):
        later.restore(later.state() | {"tokens": torch.tensor(7)})
    state = later.state()
    with torch.no_grad():
        model.head.bias += 1.0
    with pytest.raises(AlphabetError, match="another model"):
        CpuStream(model).restore(state)


@pytest.mark.parametrize("kind", ["list", "strided", "read-only", "double", "tensor"])
def test_any_array_of_the_right_length_is_a_token(kind):
    model, values = make_model(), np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)[:, ::2]
    one, wanted = CpuStream(model), CpuStream(model).feed(torch.from_numpy(values.copy()).unsqueeze(0))
    compiled = len(feed_tokens.overloads)
    for token in values:
        fixed = token.copy()
        fixed.flags.writeable = False
        kinds = {"list": token.tolist(), "strided": token, "read-only": fixed, "double": token.astype(np.float64)}
        one.push(kinds.get(kind, torch.from_numpy(token.copy())))
    assert (one.logits() - wanted.logits()).abs().max() < 1e-6
    assert len(feed_tokens.overloads) == compiled  # none of them made it compile again


def test_a_token_allocates_nothing():
    @njit
    def feed_often(times, values, mask, state):
        tokens = 0
        for _ in range(times):
            tokens = feed_tokens(values, mask, mask, tokens, state)

    def allocations(times):
        one = CpuStream(make_model())
        before = rtsys.get_allocation_stats().alloc
        feed_often(times, np.ones(2, np.float32), np.ones(1, np.uint8), one._state)
        return rtsys.get_allocation_stats().alloc - before

    _nrt_python.memsys_enable_stats()
    try:
        allocations(1)
        assert allocations(1000) == allocations(1)  # numba's own, for the arguments of one call
    finally:
        _nrt_python.memsys_disable_stats()


def test_reset_forgets_everything():
    model = make_model()
    values, _ = make_batch(1, 40, 2)
    once = CpuStream(model).feed(values).logits()
    again = CpuStream(model).feed(torch.randn(1, 77, 2))
    again.reset()
    assert again.tokens == 0
    assert torch.equal(again.feed(values).logits(), once)


def test_looking_does_not_change_the_stream():
    model = make_model()
    values, _ = make_batch(1, 40, 2)
    watched, alone = CpuStream(model), CpuStream(model)
    for token in values[0]:
        watched.push(token)
        watched.describe()
        alone.push(token)
    assert torch.equal(watched.logits(), alone.logits())


def test_a_stream_keeps_the_model_it_began_with():
    model = make_model()
    values, _ = make_batch(1, 40, 2)
    began, before = CpuStream(model), CpuStream(model).feed(values).logits()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1
    assert torch.equal(began.feed(values).logits(), before)


def test_another_default_dtype_changes_nothing():
    model, (values, _) = make_model(), make_batch(1, 20, 2)
    wanted = CpuStream(model).feed(values).logits()
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(CpuStream(model).feed(values).logits(), wanted)
    finally:
        torch.set_default_dtype(torch.float32)


def test_unchecked_nan_reaches_the_logits():
    values = torch.full((1, 20, 2), torch.nan)
    with value_checks(False):
        assert CpuStream(make_model()).feed(values).logits().isnan().all()


def test_mistakes_say_what_to_do():
    model = make_model()
    one = CpuStream(model)
    with pytest.raises(AlphabetError, match="no token has been fed yet"):
        one.logits()
    with pytest.raises(AlphabetError, match=r"token must have shape \(2,\); got \(3,\)"):
        one.push([1.0, 2.0, 3.0])
    with pytest.raises(AlphabetError, match="token must be finite"):
        one.push([1.0, np.nan])
    with pytest.raises(AlphabetError, match="values must hold one stream; got a batch of 2"):
        one.feed(torch.randn(2, 5, 2))
    with pytest.raises(AlphabetError, match="a stream runs on a regular grid"):
        one.feed(torch.randn(1, 5, 2), time_delta=torch.ones(1, 5))
    assert one.tokens == 0
    values = torch.randn(1, 30, 2)
    assert torch.equal(one.feed(values).logits(), CpuStream(model).feed(values).logits())  # mistakes left no trace
    with pytest.raises(AlphabetError, match=r"structural variant.*StreamingAlphabet streams every model"):
        CpuStream(make_model(variant="one-scan"))


@pytest.mark.parametrize("part", ["memory", "marks", "sums"])
def test_a_fault_in_any_part_of_the_memory_is_seen(part):
    model = make_model()
    values, _ = make_batch(1, 40, 2)
    found = CpuStream(model).feed(values[:, :20])
    memory = getattr(found, f"_{part}")
    if part == "marks":
        memory[0, PAST - 3] = 0
    else:
        memory[...] *= 1.01
    found.feed(values[:, 20:])
    with torch.no_grad():
        assert (found.logits() - model(values)).abs().max() > 1e-5


@pytest.mark.slow
def test_a_million_tokens_keep_their_precision():
    torch.manual_seed(0)
    model = Alphabet(AlphabetConfig(channels=1, width=16, modes=4, outputs=3))
    chunk = torch.randn(1, 4096, 1)
    long = CpuStream(model)
    for _ in range(256):
        long.feed(chunk)
    with torch.no_grad():
        exact = StreamingAlphabet(model.double(), batch=1)
        for _ in range(256):
            exact.feed(chunk.double())
        assert (long.logits() - exact.logits()).abs().max() < 1e-6
