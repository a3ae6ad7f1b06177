import copy

import pytest
import torch
from alphabet_core import (
    SCANS,
    VARIANTS,
    Alphabet,
    AlphabetConfig,
    AlphabetError,
    attribute,
    logit_bound,
    scan_sequential,
    value_checks,
)
from alphabet_core.definition import describe_by_definition, logits_by_definition
from alphabet_testing.gradients import assert_gradients_are_derivatives
from alphabet_testing.models import build_model
from hypothesis import given
from hypothesis import strategies as st

seeds = st.integers(0, 2**20)
INPUTS = ["plain", "observed", "token-observed", "valid", "steps", "everything"]


def draw(kind, seed=0, *, batch=2, length=19, channels=2, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(batch, length, channels, generator=generator, dtype=dtype)
    steps = 2.5 * torch.rand(batch, length, generator=generator, dtype=dtype)
    steps[:, 4::5] = 0.0
    observed = torch.rand(batch, length, channels, generator=generator) > 0.4
    valid = torch.rand(batch, length, generator=generator) > 0.3
    side_inputs = {
        "plain": {},
        "observed": {"observed": observed},
        "token-observed": {"observed": observed[..., 0]},
        "valid": {"valid": valid},
        "steps": {"time_delta": steps},
        "everything": {"time_delta": steps, "observed": observed, "valid": valid},
    }
    return values, side_inputs[kind]


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_descriptor_is_the_plain_loop_definition(variant, kind):
    model = build_model(variant)
    values, side_inputs = draw(kind)
    got = model.describe(values, **side_inputs).detach()
    expected = torch.from_numpy(describe_by_definition(model, values, **side_inputs))
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-13 * 50)  # fifty roundings of numbers of order one


@pytest.mark.parametrize("name", SCANS)
def test_logits_do_not_depend_on_the_scan(name):
    model = build_model()
    values, side_inputs = draw("everything", length=45)
    model.scan = SCANS[name]
    expected = logits_by_definition(model, describe_by_definition(model, values, **side_inputs))
    torch.testing.assert_close(model(values, **side_inputs).detach(), torch.from_numpy(expected), rtol=0, atol=1e-11)


@pytest.mark.parametrize("seed", [7, 11, 19])
def test_float32_logits_are_within_1e6_of_float64_sequential(seed):
    torch.manual_seed(seed)
    model = Alphabet(AlphabetConfig(channels=2, width=64, modes=16, outputs=5))
    exact = copy.deepcopy(model).double()
    exact.scan = scan_sequential
    values = torch.randn(32, 512, 2)
    with torch.no_grad():
        error = (model(values) - exact(values.double())).abs().max()
    assert float(error) <= 1e-6


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", ["plain", "everything"])
def test_gradients_of_every_parameter_and_input_are_right(variant, kind):
    model = build_model(variant, width=4, modes=2, outputs=2)
    values, side_inputs = draw(kind, batch=1, length=10)  # long enough that the outermost taps look inside
    steps = side_inputs.pop("time_delta", None)
    names, parameters = zip(*model.named_parameters(), strict=True)
    inputs = [values, *([] if steps is None else [steps + 0.05])]

    def logits(*arguments):
        given_inputs = dict(zip(("values", "time_delta"), arguments[: len(inputs)], strict=False))
        given_parameters = dict(zip(names, arguments[len(inputs) :], strict=True))
        return torch.func.functional_call(model, given_parameters, (), {**given_inputs, **side_inputs})

    assert_gradients_are_derivatives(logits, (*inputs, *parameters))


@pytest.mark.parametrize("planted", [1e-4, 1.0])
def test_a_wrong_gradient_is_seen(planted):
    model = build_model(width=4, modes=2, outputs=2)
    weight = model.project.weight

    def logits(weight, values):
        right = torch.func.functional_call(model, {"project.weight": weight}, (values,))
        return right + planted * (weight - weight.detach()).sum() if weight.requires_grad else right

    with pytest.raises(AssertionError, match="not close"):
        assert_gradients_are_derivatives(logits, (weight, draw("plain", batch=1, length=10)[0]))


@given(seeds, st.integers(1, 30), st.integers(1, 20))
def test_padding_never_changes_logits(seed, length, padding):
    model = build_model()
    values, side_inputs = draw("observed", seed, length=length)
    pad = torch.nn.functional.pad
    padded = model(
        pad(values, (0, 0, 0, padding), value=torch.nan),
        observed=pad(side_inputs["observed"], (0, 0, 0, padding), value=True),
        valid=pad(torch.ones(2, length), (0, padding)),
    )
    torch.testing.assert_close(padded, model(values, **side_inputs), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["observed", "token-observed", "valid", "everything"])
@pytest.mark.parametrize("filler", [torch.nan, torch.inf, 1e30])
def test_what_is_masked_is_never_read(kind, filler):
    model = build_model(dtype=torch.float32)
    values, side_inputs = draw(kind, dtype=torch.float32)
    readable = torch.ones_like(values, dtype=torch.bool)
    if "observed" in side_inputs:
        observed = side_inputs["observed"]
        readable &= observed if observed.ndim == 3 else observed.unsqueeze(-1)
    if "valid" in side_inputs:
        readable &= side_inputs["valid"].unsqueeze(-1)
    outcomes = []
    for hidden in (0.0, filler):
        model.zero_grad()
        filled = torch.where(readable, values, hidden).requires_grad_()
        logits = model(filled, **side_inputs)
        logits.square().sum().backward()
        gradients = [p.grad.clone() for p in model.parameters()]
        outcomes.append((logits.detach(), filled.grad, *gradients))
        assert bool((filled.grad[~readable] == 0).all())
    assert all(one.equal(other) for one, other in zip(*outcomes, strict=True))


@given(
    seeds,
    st.sampled_from([torch.nan, torch.inf, -torch.inf]),
    st.integers(0, 18),
    st.integers(0, 1),
    st.sampled_from(INPUTS),
)
def test_without_checks_a_bad_value_reaches_the_logits(seed, bad, token, channel, kind):
    model = build_model()
    values, side_inputs = draw(kind, seed, batch=1)
    values[0, token, channel] = bad
    for name in ("observed", "valid"):  # make sure that the place is one that may be read
        if name in side_inputs:
            side_inputs[name] = side_inputs[name].clone()
            side_inputs[name][0, token] = True
    with value_checks(False):
        assert not bool(torch.isfinite(model(values, **side_inputs)).any())


@given(seeds, st.sampled_from([torch.nan, torch.inf]), st.sampled_from(["time_delta", "observed", "valid"]))
def test_without_checks_a_bad_step_or_mask_reaches_the_logits(seed, bad, name):
    model = build_model()
    values, side_inputs = draw("everything", seed, batch=1)
    side_inputs = {key: torch.ones_like(tensor, dtype=torch.float64) for key, tensor in side_inputs.items()}
    side_inputs[name][0, seed % 19] = bad
    with value_checks(False):
        assert not bool(torch.isfinite(model(values, **side_inputs)).any())


@pytest.mark.parametrize("amplitude", [1e-20, 1e10, 1e20, 1e30])
def test_float32_holds_any_finite_amplitude(amplitude):
    model = build_model(dtype=torch.float32)
    values, _ = draw("plain", dtype=torch.float32)
    values = values * amplitude
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(values.double())
        torch.testing.assert_close(model(values).double(), exact, rtol=0, atol=2e-6)


def test_a_channel_mask_that_hides_everything_blocks_the_direct_bank_only():
    model = build_model()
    values, _ = draw("plain")
    hidden = model.describe(values, observed=torch.zeros(2, 19))
    assert hidden[:, 0].count_nonzero() == 0  # nothing injected, nothing transported
    assert hidden[:, 1].count_nonzero() > 0  # biases of valid tokens still drive the cascaded bank


def test_a_batch_with_no_valid_token_gives_the_bias():
    model = build_model()
    values, _ = draw("plain")
    logits = model(values, valid=torch.zeros(2, 19))
    torch.testing.assert_close(logits, model.head.bias.expand_as(logits))
    logits.sum().backward()
    assert all(bool(torch.isfinite(p.grad).all()) for p in model.parameters())


@pytest.mark.slow
@given(seeds)
def test_sequences_of_a_batch_do_not_influence_each_other(seed):
    model = build_model()
    values, side_inputs = draw("everything", seed, batch=3)
    together = model(values, **side_inputs)
    alone = torch.cat([model(values[i : i + 1], **{k: v[i : i + 1] for k, v in side_inputs.items()}) for i in range(3)])
    torch.testing.assert_close(together, alone, rtol=1e-11, atol=1e-11)


def test_all_true_masks_are_the_same_as_none():
    model = build_model()
    values, _ = draw("plain")
    plain = model(values)
    for dtype in (torch.bool, torch.int64, torch.float32):
        ones = torch.ones(2, 19, dtype=dtype)
        torch.testing.assert_close(model(values, observed=ones, valid=ones), plain, rtol=0, atol=1e-13)


def test_the_shape_of_the_descriptor_follows_the_configuration():
    values, _ = draw("plain")
    assert build_model().describe(values).shape == (2, 2, 3, 7)
    assert build_model("one-scan").describe(values).shape == (2, 1, 3, 7)
    assert build_model(lags=(3,)).describe(values).shape == (2, 2, 3, 3)


def test_the_same_seed_builds_the_same_model():
    one, other = (build_model(seed=5).state_dict() for _ in range(2))
    assert all(one[name].equal(other[name]) for name in one)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "everything"])
def test_compiled_model_agrees(kind):
    # Dynamo with its plain backend: tracing and guards are what can differ, code generation is torch's own business.
    # The second length makes the graph dynamic, the third has more than one chunk.
    model = build_model(dtype=torch.float32)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    for length in (19, 20, 40):
        values, side_inputs = draw(kind, length=length, dtype=torch.float32)
        torch.testing.assert_close(compiled(values, **side_inputs), model(values, **side_inputs))


def test_what_is_no_configuration_or_scan_is_refused():
    with pytest.raises(AlphabetError, match="config"):
        Alphabet({"channels": 2})
    with pytest.raises(AlphabetError, match="SCANS"):
        Alphabet(AlphabetConfig(channels=2, width=8, modes=3, outputs=3), scan="sequential")


def test_a_head_may_have_no_bias():
    model, (values, _) = build_model("full"), draw("plain")
    with torch.no_grad():
        expected = model(values) - model.head.bias
        model.head.bias = None
        torch.testing.assert_close(model(values), expected, rtol=0, atol=1e-12)
        descriptor = model.describe(values)
        found = attribute(model, descriptor, descriptor.mean(dim=0))
    best, second = model(values).topk(2, dim=1).values.unbind(1)
    torch.testing.assert_close(found.margin, best - second, rtol=0, atol=1e-12)
    assert logit_bound(model) >= float(expected.norm(dim=1).max())


def lazily_negated(tensor):
    """The same numbers as a view whose sign torch has yet to apply."""
    view = torch.complex(torch.zeros_like(tensor), -tensor).conj().imag
    assert view.is_neg()
    return view


def test_values_and_steps_that_are_lazily_negated_are_what_they_are():
    model, (values, given) = build_model("full"), draw("steps")
    expected = model(values, **given)
    assert torch.equal(model(lazily_negated(values), time_delta=lazily_negated(given["time_delta"])), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_message_on_steps_of_another_dtype_names_each_dtype_once(dtype):
    model, (values, _) = build_model("full").to(dtype), draw("plain", dtype=dtype)
    wanted = "torch.float64" if dtype == torch.float64 else "torch.float32 or torch.float64"
    with pytest.raises(AlphabetError, match=f"time_delta must be {wanted}; got torch.float16"):
        model(values, time_delta=torch.ones(values.shape[:2], dtype=torch.float16))
