import copy

import pytest
import safetensors.torch
import torch
from alphabet_core import VARIANTS, AlphabetError, StreamingAlphabet
from alphabet_testing.models import build_model
from hypothesis import given
from hypothesis import strategies as st

chunkings = st.lists(st.integers(0, 12), min_size=1, max_size=12).filter(lambda sizes: sum(sizes) > 0)


def draw(seed, length, *, batch=2, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(batch, length, 2, generator=generator, dtype=dtype)
    observed = torch.rand(batch, length, 2, generator=generator) > 0.3
    valid = torch.rand(batch, length, generator=generator) > 0.3
    return values, observed, valid


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
@given(seed=st.integers(0, 2**20), sizes=chunkings, masked=st.booleans())
def test_any_chunking_equals_the_whole_pass_on_every_prefix(variant, seed, sizes, masked):
    model = build_model(variant)
    values, observed, valid = draw(seed, sum(sizes))
    stream, fed = StreamingAlphabet(model, batch=2), 0
    for size in sizes:
        part = slice(fed, fed + size)
        stream.feed(values[:, part], **({"observed": observed[:, part], "valid": valid[:, part]} if masked else {}))
        fed += size
        if fed == 0:
            continue
        masks = {"observed": observed[:, :fed], "valid": valid[:, :fed]} if masked else {}
        whole = model.describe(values[:, :fed], **masks).detach()
        torch.testing.assert_close(stream.describe(), whole, rtol=1e-11, atol=1e-11)


@pytest.mark.slow
def test_token_by_token_in_float32_over_a_long_sequence():
    model = build_model(width=16, modes=8, dtype=torch.float32)
    values, _, _ = draw(1, 700, batch=1, dtype=torch.float32)
    stream = StreamingAlphabet(model)
    for token in values.split(1, dim=1):
        stream.feed(token)
    with torch.no_grad():
        torch.testing.assert_close(stream.logits(), model(values), rtol=0, atol=2e-6)


def test_asking_does_not_disturb_the_stream():
    values, _, _ = draw(2, 40)
    quiet, asked = (StreamingAlphabet(build_model(), batch=2) for _ in range(2))
    for part in values.split(3, dim=1):
        quiet.feed(part)
        asked.feed(part)
        assert asked.describe().equal(asked.describe())
    assert quiet.describe().equal(asked.describe())


def test_memory_does_not_grow():
    stream = StreamingAlphabet(build_model(), batch=1)
    values, _, _ = draw(3, 400, batch=1)
    sizes = []
    for part in values.split(20, dim=1):
        stream.feed(part)
        sizes.append(sum(t.numel() * t.element_size() for t in stream.state().values()))
    assert len(set(sizes[1:])) == 1


@pytest.mark.parametrize("variant", ["full", "one-scan"])
@pytest.mark.parametrize("cut", [1, 5, 13, 30])
def test_a_stream_goes_on_after_being_saved_to_a_file(variant, cut, tmp_path):
    model = build_model(variant)
    values, observed, valid = draw(4, 45)
    first = StreamingAlphabet(model, batch=2)
    first.feed(values[:, :cut], observed=observed[:, :cut], valid=valid[:, :cut])
    safetensors.torch.save_file(first.state(), tmp_path / "stream.safetensors")
    second = StreamingAlphabet(model, batch=2).restore(safetensors.torch.load_file(tmp_path / "stream.safetensors"))
    assert second.tokens == cut
    for stream in (first, second):
        stream.feed(values[:, cut:], observed=observed[:, cut:], valid=valid[:, cut:])
    assert first.describe().equal(second.describe())
    whole = model.describe(values, observed=observed, valid=valid).detach()
    torch.testing.assert_close(second.describe(), whole, rtol=1e-11, atol=1e-11)


def test_a_foreign_state_is_refused():
    stream = StreamingAlphabet(build_model(), batch=2)
    with pytest.raises(AlphabetError, match=r"state\['0.modal'\]"):
        stream.restore(stream.state() | {"0.modal": torch.zeros(3, 6, dtype=torch.float64)})
    with pytest.raises(AlphabetError, match=r"state\['0.window'\].*\(3, 8, 8\)"):
        stream.restore(StreamingAlphabet(build_model(), batch=3).state())
    with pytest.raises(AlphabetError, match="entries"):
        stream.restore(StreamingAlphabet(build_model("one-scan"), batch=2).state())
    with pytest.raises(AlphabetError, match="float32"):
        stream.restore(StreamingAlphabet(build_model(dtype=torch.float32), batch=2).state())


def test_a_state_that_does_not_fit_together_is_refused():
    stream = StreamingAlphabet(build_model(), batch=2).feed(draw(7, 30)[0])
    state = stream.state()
    with pytest.raises(AlphabetError, match=r"window.*8 to 16"):
        stream.restore(state | {"0.window": state["0.window"][:, :9]})


def test_the_state_of_another_model_is_refused():
    model = build_model()
    state = StreamingAlphabet(model, batch=2).feed(draw(7, 30)[0]).state()
    StreamingAlphabet(copy.deepcopy(model), batch=2).restore(state)
    with torch.no_grad():
        model.head.bias += 1e-9  # sizes are the same, and nearly all numbers
    with pytest.raises(AlphabetError, match="another model"):
        StreamingAlphabet(model, batch=2).restore(state)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("tokens", torch.tensor(-3), "count"),
        ("tokens", torch.tensor(2.5), "count"),
        ("tokens", torch.tensor(float("nan")), "count"),
        ("tokens", torch.tensor([30, 30]), "count"),
        ("tokens", 30, "torch.Tensor"),
        ("tokens", torch.tensor(5), r"0 \.\.\. 5"),
        ("0.counts", torch.full((2, 4, 1), -1), r"0 \.\.\. 30"),
    ],
)
def test_impossible_counts_in_a_state_are_refused(name, value, message):
    stream = StreamingAlphabet(build_model(), batch=2).feed(draw(7, 30)[0])
    before = stream.describe()
    with pytest.raises(AlphabetError, match=message):
        stream.restore(stream.state() | {name: value})
    assert stream.tokens == 30
    assert stream.describe().equal(before)


def test_an_empty_chunk_must_still_fit():
    stream = StreamingAlphabet(build_model(), batch=2)
    assert stream.feed(torch.zeros(2, 0, 2, dtype=torch.float64)).tokens == 0
    for bad in (torch.zeros(3, 0, 2, dtype=torch.float64), torch.zeros(2, 0, 5, dtype=torch.float64), [[1.0]]):
        with pytest.raises(AlphabetError, match="values"):
            stream.feed(bad)


def test_reset_forgets_and_an_empty_stream_says_so():
    stream = StreamingAlphabet(build_model(), batch=2)
    values, _, _ = draw(5, 20)
    once = stream.feed(values).describe()
    stream.reset()
    with pytest.raises(AlphabetError, match="no token"):
        stream.describe()
    assert stream.feed(values).describe().equal(once)


def test_training_the_model_does_not_change_a_running_stream():
    model = build_model()
    values, _, _ = draw(6, 20)
    stream = StreamingAlphabet(model, batch=2).feed(values)
    before = stream.describe()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 1.0
    assert stream.describe().equal(before)


def test_a_batch_of_no_streams_is_refused():
    with pytest.raises(AlphabetError, match="batch"):
        StreamingAlphabet(build_model(), batch=0)
