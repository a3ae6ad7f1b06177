"""Our Mamba against the official sources, unmodified, on a CPU.

The compiled CUDA extensions are absent here; modules that raise on any use stand in for them, so that the official
reference functions and the official module's plain path can be imported and run. `nox -s tests` installs the sources.
"""

import importlib
import importlib.util
import sys
import types

import pytest
import torch
from alphabet_baselines import FAMILIES
from alphabet_baselines.mamba import MambaMixer
from alphabet_baselines.mamba_official import from_official, to_official
from alphabet_baselines.selective_scan import SELECTIVE_SCANS
from alphabet_core import AlphabetError
from alphabet_testing.families import draw, make_model

PARTS = ("mamba_ssm", "causal_conv1d", "einops", "triton")
MISSING = [name for name in PARTS if importlib.util.find_spec(name) is None]


class Absent(types.ModuleType):
    """Stands in for a compiled extension and raises on any use."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(f"{self.__name__}.{name}: the compiled CUDA extension is absent")


@pytest.fixture(scope="module")
def official():
    """The official modules, with the reference scan in place of the CUDA one."""
    if MISSING:
        pytest.skip(f"not installed: {', '.join(MISSING)}; `nox -s tests` installs them")
    before = dict(sys.modules)
    for name in ("selective_scan_cuda", "causal_conv1d_cuda"):
        if importlib.util.find_spec(name) is None:
            sys.modules[name] = Absent(name)
    package = types.ModuleType("mamba_ssm")  # without its __init__, which pulls in far more than Mamba
    package.__path__ = list(importlib.util.find_spec("mamba_ssm").submodule_search_locations)
    sys.modules["mamba_ssm"] = package
    interface = importlib.import_module("mamba_ssm.ops.selective_scan_interface")
    simple = importlib.import_module("mamba_ssm.modules.mamba_simple")
    convolution = importlib.import_module("causal_conv1d.causal_conv1d_interface")
    simple.selective_scan_fn, simple.causal_conv1d_fn = interface.selective_scan_ref, None
    yield types.SimpleNamespace(
        Mamba=simple.Mamba,
        selective_scan_ref=interface.selective_scan_ref,
        causal_conv1d_ref=convolution.causal_conv1d_ref,
    )
    for name in set(sys.modules) - set(before):
        if name.partition(".")[0] in ("mamba_ssm", "causal_conv1d", "selective_scan_cuda", "causal_conv1d_cuda"):
            del sys.modules[name]


def slow(official):
    """The official class with its fused path off, since that path is the CUDA extension itself."""
    return lambda **options: official.Mamba(**{**options, "use_fast_path": False})


def moved_mixer(state, kernel, width=20):
    torch.manual_seed(0)
    mixer = MambaMixer(width, state, kernel)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return mixer


CHOICES = FAMILIES["mamba"].choices
# float32 on both sides, since the official reference computes in it: some hundred roundings of 6e-8.
CLOSE = {"rtol": 2e-5, "atol": 2e-5}


@pytest.mark.parametrize(("state", "kernel"), CHOICES)
def test_outputs_and_gradients_equal_the_official_module(official, state, kernel):
    ours = moved_mixer(state, kernel)
    theirs = to_official(ours, slow(official))
    values = draw(2, 30, 20).float()
    a, b = values.clone().requires_grad_(), values.clone().requires_grad_()
    torch.testing.assert_close(ours(a), theirs(b), **CLOSE)
    ours(a).square().mean().backward()
    theirs(b).square().mean().backward()
    torch.testing.assert_close(a.grad, b.grad, **CLOSE)
    expected = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name].grad, **CLOSE)


@pytest.mark.parametrize("name", SELECTIVE_SCANS)
def test_the_selective_scan_equals_the_official_reference(official, name):
    inputs, step = draw(2, 40, 6).float(), draw(2, 40, 6, seed=2).float().abs()
    rate = -draw(1, 6, 4, seed=3)[0].float().abs()
    to_state, from_state = draw(2, 40, 4, seed=4).float(), draw(2, 40, 4, seed=5).float()
    expected = official.selective_scan_ref(inputs.mT, step.mT, rate, to_state.mT, from_state.mT).mT
    torch.testing.assert_close(SELECTIVE_SCANS[name](inputs, step, rate, to_state, from_state), expected, **CLOSE)


@pytest.mark.parametrize("kernel", [3, 4])
@pytest.mark.parametrize("length", [1, 2, 17])
def test_the_convolution_equals_the_official_reference(official, kernel, length):
    mixer, inputs = moved_mixer(16, kernel), draw(2, length, 40).float()
    weight = mixer.conv1d.weight.squeeze(1)
    expected = official.causal_conv1d_ref(inputs.mT, weight, mixer.conv1d.bias).mT
    torch.testing.assert_close(mixer._convolve(inputs), expected, **CLOSE)


@pytest.mark.parametrize(("state", "kernel"), CHOICES)
def test_weights_go_there_and_back_unchanged(official, state, kernel):
    ours = moved_mixer(state, kernel)
    theirs = to_official(ours, slow(official))
    assert dict(theirs.named_parameters()).keys() == dict(ours.named_parameters()).keys()
    back = from_official(theirs)
    for name, parameter in back.named_parameters():
        assert torch.equal(parameter, dict(ours.named_parameters())[name]), name


def test_a_fresh_official_module_is_like_ours(official):
    torch.manual_seed(0)
    theirs, ours = official.Mamba(d_model=128, d_state=16, d_conv=4, use_fast_path=False), MambaMixer(128, 16, 4)
    for name, parameter in ours.named_parameters():
        expected = dict(theirs.named_parameters())[name]
        assert parameter.shape == expected.shape
        torch.testing.assert_close(parameter.std(), expected.std(), rtol=0.15, atol=1e-6)
        torch.testing.assert_close(parameter.mean(), expected.mean(), rtol=0.15, atol=0.05)


def test_the_whole_model_runs_on_the_official_module(official):
    model, values = make_model("mamba").float(), draw(2, 12).float()
    valid = torch.arange(12) < torch.tensor([[12], [7]])
    expected = model(values, valid=valid)
    model.backbone.mixer = to_official(model.backbone.mixer, slow(official))
    torch.testing.assert_close(model(values, valid=valid), expected, **CLOSE)


def test_an_official_module_of_other_proportions_is_refused(official):
    with pytest.raises(AlphabetError, match="official must have expand=2"):
        from_official(official.Mamba(d_model=16, expand=3, use_fast_path=False))


def test_only_a_mamba_can_be_mapped():
    with pytest.raises(AlphabetError, match="official must be a mamba_ssm Mamba with its default biases; got Linear"):
        from_official(torch.nn.Linear(2, 2))
    with pytest.raises(AlphabetError, match="mixer must be a MambaMixer; got Linear"):
        to_official(torch.nn.Linear(2, 2))


def test_a_planted_fault_in_the_mapping_is_seen(official):
    ours = moved_mixer(16, 3)
    theirs = to_official(ours, slow(official))
    with torch.no_grad():
        theirs.conv1d.weight.copy_(theirs.conv1d.weight.flip(-1))
    values = draw(1, 9, 20).float()
    assert not torch.allclose(ours(values), theirs(values), **CLOSE)
