"""Every named algorithm computes its family's one function, and the definitions are what the papers write."""

import copy

import numpy as np
import pytest
import torch
from alphabet_baselines import FAMILIES, fft, s4d, selective_scan
from alphabet_baselines.diagonal import STATIC_SCANS
from alphabet_core.pairs import from_complex
from alphabet_testing.families import CASES, DEFINITIONS, algorithms_here, draw, make_model
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

PAIRS = [
    (family, choice, algorithm)
    for family, choice in CASES
    for algorithm in algorithms_here(family)
    if algorithm != DEFINITIONS[family]
]


def gradients(model, values):
    values = values.clone().requires_grad_()
    model(values).square().sum().backward()
    return {"values": values.grad, **{name: parameter.grad for name, parameter in model.named_parameters()}}


@pytest.mark.parametrize("length", [1, 2, 31, 33, 100])
@pytest.mark.parametrize(("family", "choice", "algorithm"), PAIRS, ids=lambda value: str(value))
def test_logits_and_gradients_equal_the_definition(family, choice, algorithm, length):
    values = draw(2, length)
    definition = make_model(family, choice, algorithm=DEFINITIONS[family])
    model = make_model(family, choice, algorithm=algorithm)
    torch.testing.assert_close(model(values), definition(values), rtol=1e-10, atol=1e-11)
    expected = gradients(definition, values)
    for name, gradient in gradients(model, values).items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-10, atol=1e-11, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_state_dict_fits_every_algorithm(family):
    states = [make_model(family, algorithm=name, seed=3).state_dict() for name in algorithms_here(family)]
    for state in states[1:]:
        assert list(state) == list(states[0])
        assert all(torch.equal(state[name], states[0][name]) for name in state)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_algorithm_is_visible(family):
    for name in algorithms_here(family):
        assert f"algorithm={name}" in repr(make_model(family, algorithm=name))


def complex_of(parameter):
    return torch.view_as_complex(parameter.detach().contiguous()).numpy()


@pytest.mark.parametrize("choice", FAMILIES["s4d"].choices)
def test_s4d_is_the_recurrence_of_its_paper(choice):
    mixer, u = make_model("s4d", choice).backbone.blocks[-1].mixer, draw(1, 17, 5)[0].numpy()
    pairs = choice[1] // 2
    step = np.exp(mixer.log_step.detach().numpy())[:, None]
    pole = -np.exp(mixer.log_decay.detach().numpy()) + 1j * mixer.frequency.detach().numpy()
    readout = mixer.output.detach().numpy()
    readout = readout[:, :pairs] + 1j * readout[:, pairs:]
    state, expected = np.zeros_like(pole), []
    for token in u:
        state = np.exp(pole * step) * state + (np.exp(pole * step) - 1.0) / pole * token[:, None]
        expected.append(2.0 * (readout * state).sum(axis=1).real + mixer.skip.detach().numpy() * token)
    got = mixer(torch.tensor(u).unsqueeze(0))[0].detach().numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("choice", FAMILIES["s5"].choices)
def test_s5_is_the_multi_input_recurrence_of_its_paper(choice):
    mixer, u = make_model("s5", choice).backbone.blocks[-1].mixer, draw(1, 17, 5)[0].numpy()
    pole = -np.exp(mixer.log_decay.detach().numpy()) + 1j * mixer.frequency.detach().numpy()
    step = np.exp(mixer.log_step.detach().numpy())
    gain = ((np.exp(pole * step) - 1.0) / pole)[:, None] * complex_of(mixer.input)
    state, expected = np.zeros_like(pole), []
    for token in u:
        state = np.exp(pole * step) * state + gain @ token
        expected.append(2.0 * (complex_of(mixer.output) @ state).real + mixer.skip.detach().numpy() * token)
    got = mixer(torch.tensor(u).unsqueeze(0))[0].detach().numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("choice", FAMILIES["lru"].choices)
def test_lru_is_the_recurrence_of_its_paper(choice):
    mixer, u = make_model("lru", choice).backbone.blocks[-1].mixer, draw(1, 17, 5)[0].numpy()
    nu, theta = mixer.nu.detach().numpy(), mixer.theta.detach().numpy()
    transition, gamma = np.exp(-np.exp(nu) + 1j * np.exp(theta)), np.exp(mixer.log_gamma.detach().numpy())
    state, expected = np.zeros_like(transition), []
    for token in u:
        state = transition * state + gamma * (complex_of(mixer.input) @ token)
        expected.append((complex_of(mixer.output) @ state).real + mixer.skip.detach().numpy() * token)
    got = mixer(torch.tensor(u).unsqueeze(0))[0].detach().numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)


def tokens_reached(family, choice, length=80):
    """Which offsets t - s of the input a backbone's output at t depends on."""
    backbone, values = make_model(family, choice).backbone, draw(4, length, seed=9).requires_grad_()
    middle = length // 2
    backbone(values, None)[:, middle].square().sum().backward()
    return (middle - values.grad.abs().sum(dim=(0, 2)).nonzero().flatten()).tolist()


def test_convolutions_reach_what_their_depth_kernel_and_dilation_say():
    assert tokens_reached("cnn1d", (2, 3)) == list(range(2, -3, -1))
    assert tokens_reached("cnn1d", (4, 5)) == list(range(8, -9, -1))
    assert tokens_reached("tcn", (3, 3)) == list(range(2 * (1 + 2 + 4), -1, -1))
    assert tokens_reached("tcn", (5, 5), length=260) == list(range(4 * (1 + 2 + 4 + 8 + 16), -1, -1))


def test_cnn1d_and_tcn_are_sums_over_taps():
    values = draw(1, 12)
    cnn, tcn = make_model("cnn1d").backbone, make_model("tcn").backbone
    features = loop_convolution(values, cnn.layers[0], reach=(-1, 0, 1)).relu()
    features = loop_convolution(features, cnn.layers[1], reach=(-1, 0, 1)).relu()
    torch.testing.assert_close(cnn(values, None), features)
    features = loop_convolution(values, tcn.first, reach=(-2, -1, 0)).relu()
    for level, layer in enumerate(tcn.layers, start=1):
        step = 2**level
        features = features + loop_convolution(features, layer, reach=(-2 * step, -step, 0)).relu()
    torch.testing.assert_close(tcn(values, None), features)


def loop_convolution(values, layer, reach):
    outputs = []
    for t in range(values.shape[1]):
        total = layer.bias
        for tap, offset in enumerate(reach):
            if 0 <= t + offset < values.shape[1]:
                total = total + values[:, t + offset] @ layer.weight[:, :, tap].T
        outputs.append(total.expand(len(values), -1))
    return torch.stack(outputs, dim=1)


def test_attention_is_its_formula():
    model, values = make_model("transformer", (2, 4)).backbone.blocks[0].attention, draw(1, 6, 5)
    weights = model.project.weight.detach().numpy()
    query, key, value = (values[0].numpy() @ part.T for part in np.split(weights, 3))
    mixed = []
    for head in range(4):
        part = slice(2 * head, 2 * head + 2)  # width 5 over four heads: two dimensions each
        scores = np.exp(query[:, part] @ key[:, part].T / np.sqrt(2.0))
        mixed.append(scores / scores.sum(axis=1, keepdims=True) @ value[:, part])
    expected = np.concatenate(mixed, axis=1) @ model.output.weight.detach().numpy().T
    np.testing.assert_allclose(model(values, None)[0].detach(), expected, rtol=1e-10, atol=1e-12)


def test_the_transformer_knows_the_order_of_tokens():
    model, values = make_model("transformer"), draw(1, 8)
    assert not torch.allclose(model(values), model(values.flip(1)), atol=1e-6)


def test_the_transformer_block_is_its_formula():
    block, values = make_model("transformer").backbone.blocks[0], draw(1, 6, 5)
    attended = values + block.attention(F.layer_norm(values, (5,)), None)
    hidden = F.layer_norm(attended, (5,)) @ block.expand.weight.T + block.expand.bias
    expected = attended + F.gelu(hidden) @ block.contract.weight.T + block.contract.bias
    torch.testing.assert_close(block(values, None), expected)


@pytest.mark.parametrize("family", ["s4d", "s5", "lru"])
def test_the_residual_block_is_its_formula(family):
    block, values = make_model(family).backbone.blocks[0], draw(1, 6, 5)
    mixed = F.gelu(block.mixer(F.layer_norm(values, (5,))))
    expected = values + mixed * torch.sigmoid(mixed @ block.gate.weight.T + block.gate.bias)
    torch.testing.assert_close(block(values), expected)


def test_mamba_is_the_block_of_its_paper():
    mixer, values = make_model("mamba").backbone.mixer, draw(1, 9, 5)
    inputs, gate = (values @ mixer.in_proj.weight.T).chunk(2, dim=-1)
    padded = F.pad(inputs, (0, 0, 2, 0))
    taps = mixer.conv1d.weight[:, 0]
    inputs = F.silu(sum(padded[:, k : k + 9] * taps[:, k] for k in range(3)) + mixer.conv1d.bias)
    rank, to_state, from_state = (inputs @ mixer.x_proj.weight.T).split((1, 16, 16), dim=-1)
    step = F.softplus(rank @ mixer.dt_proj.weight.T + mixer.dt_proj.bias)
    state, outputs = torch.zeros(10, 16, dtype=torch.float64), []
    for t in range(9):
        decay = torch.exp(-step[0, t].unsqueeze(-1) * mixer.A_log.exp())
        state = decay * state + (step[0, t] * inputs[0, t]).unsqueeze(-1) * to_state[0, t]
        outputs.append(state @ from_state[0, t] + mixer.D * inputs[0, t])
    expected = (torch.stack(outputs) * F.silu(gate[0])) @ mixer.out_proj.weight.T
    torch.testing.assert_close(mixer(values)[0], expected)


@pytest.mark.parametrize(("family", "algorithm"), [(f, a) for f in ("s5", "lru", "s4d") for a in algorithms_here(f)])
def test_modes_that_vanish_at_once_do_no_harm(family, algorithm):
    model = make_model(family, algorithm=algorithm).float()
    mixer = model.backbone.blocks[0].mixer
    with torch.no_grad():
        (mixer.nu if family == "lru" else mixer.log_decay).fill_(12.0)
    logits = model(draw(2, 40).float())
    logits.sum().backward()
    assert torch.isfinite(logits).all()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


@pytest.mark.parametrize("algorithm", ["fft", "vandermonde", "adjoint"])
def test_float32_gradients_of_slow_s4d_modes_keep_their_digits(algorithm):
    exact = make_model("s4d", algorithm=algorithm)
    with torch.no_grad():
        exact.backbone.blocks[0].mixer.log_decay -= 5.0
    rough = copy.deepcopy(exact).float()
    values = draw(1, 4096)
    expected, found = gradients(exact, values), gradients(rough, values.float())
    for name in ("log_step", "log_decay", "frequency"):
        key = f"backbone.blocks.0.mixer.{name}"
        error = (found[key] - expected[key]).abs().max() / expected[key].abs().max()
        assert float(error) < 1e-3, name  # float32 tables of powers: 4e-3 for fft, measured before they were float64


@given(seed=st.integers(0, 2**16), length=st.integers(1, 70), name=st.sampled_from(sorted(STATIC_SCANS)))
def test_static_scans_equal_the_loop(seed, length, name):
    generator = torch.Generator().manual_seed(seed)
    radius, phase = torch.rand(2, 3, dtype=torch.float64, generator=generator).unbind()
    transition = from_complex(torch.polar(radius, 6.0 * phase))
    drive = torch.randn(2, length, 6, dtype=torch.float64, generator=generator)
    initial = torch.randn(2, 6, dtype=torch.float64, generator=generator)
    expected = STATIC_SCANS["sequential"](transition, drive, initial)
    torch.testing.assert_close(STATIC_SCANS[name](transition, drive, initial), expected, rtol=1e-9, atol=1e-10)


@given(seed=st.integers(0, 2**16), length=st.integers(1, 40))
def test_convolution_in_the_frequency_domain_is_causal_convolution(seed, length):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(2, length, 3, dtype=torch.float64, generator=generator)
    kernel = torch.randn(3, length, dtype=torch.float64, generator=generator)
    padded = F.pad(features.mT, (length - 1, 0))
    expected = F.conv1d(padded, kernel.flip(1).unsqueeze(1), groups=3).mT
    torch.testing.assert_close(fft.convolve(features, kernel), expected, rtol=1e-9, atol=1e-10)


def selective_arguments(length=7):
    inputs, step = draw(2, length, 4), draw(2, length, 4, seed=2).abs()
    rate = -draw(1, 4, 3, seed=3)[0].abs()
    return [inputs, step, rate, draw(2, length, 3, seed=4), draw(2, length, 3, seed=5)]


@pytest.mark.parametrize("name", selective_scan.SELECTIVE_SCANS)
def test_gradients_of_every_argument_of_the_selective_scan(name):
    arguments = [argument.requires_grad_() for argument in selective_arguments()]
    assert torch.autograd.gradcheck(selective_scan.SELECTIVE_SCANS[name], arguments)


def test_gradients_of_the_convolution():
    arguments = (draw(2, 6, 3).requires_grad_(), draw(1, 3, 6)[0].clone().requires_grad_())
    assert torch.autograd.gradcheck(fft.convolve, arguments)


# Planted faults: each breaks one line of a fast algorithm, and the comparison with the definition must see it.


def test_a_lost_carry_between_chunks_is_seen(monkeypatch):
    values = draw(1, 2 * s4d.CHUNK)
    expected = make_model("s4d", algorithm="sequential")(values)
    monkeypatch.setattr(s4d, "scan_associative", lambda transition, drive: torch.zeros_like(drive))
    assert not torch.allclose(make_model("s4d", algorithm="vandermonde")(values), expected, atol=1e-6)


def test_a_circular_instead_of_a_causal_convolution_is_seen(monkeypatch):
    values = draw(1, 32)
    expected = make_model("s4d", algorithm="sequential")(values)
    monkeypatch.setattr(fft, "padded_length", lambda length: length)
    assert not torch.allclose(make_model("s4d", algorithm="fft")(values), expected, atol=1e-6)


def test_an_adjoint_that_forgets_the_future_is_seen(monkeypatch):
    arguments = [argument.requires_grad_() for argument in selective_arguments()]
    addcmul = torch.addcmul

    def forgetful(carry, *factors, **options):
        return addcmul(carry if options else torch.zeros_like(carry), *factors, **options)  # options: the forward loop

    monkeypatch.setattr(torch, "addcmul", forgetful)
    assert not torch.autograd.gradcheck(selective_scan.AdjointScan.apply, arguments, raise_exception=False)


def test_a_dropped_key_mask_is_seen(monkeypatch):
    model, values = make_model("transformer"), draw(2, 8)
    valid = torch.arange(8) < torch.tensor([[8], [4]])
    expected = model(values, valid=valid)
    attend = F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda q, k, v, mask: attend(q, k, v))
    assert not torch.allclose(model(values, valid=valid), expected, atol=1e-6)
