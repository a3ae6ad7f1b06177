"""CpuRuntime against the reference."""

import copy
import re
import threading

import alphabet_cpu.runtime
import pytest
import torch
from alphabet_core import Alphabet, AlphabetConfig, AlphabetError, read_sequence, value_checks
from alphabet_core.head import AffineHead
from alphabet_core.scan import scan_chunked
from alphabet_cpu import CpuRuntime, CpuStream
from alphabet_cpu.batch import LEAST_PER_THREAD, read_batch, run_batch
from alphabet_cpu.weights import fold_and_pack, fold_and_select
from alphabet_testing.models import MASKS, make_batch, make_model
from alphabet_testing.sizes import DESIGN_CASES, SIZES
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.utils.parametrizations import weight_norm

LONG = 7 * LEAST_PER_THREAD // 16  # tokens of width 16 that are worth seven threads


def difference(model, values, **masks):
    with torch.no_grad():
        return float((CpuRuntime(model)(values, **masks) - model(values, **masks)).abs().max())


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("sizes", SIZES)
def test_logits_equal_the_reference_at_every_length(sizes, masks):
    model = make_model(*sizes)
    for length in (1, 2, 4, 5, 7, 8, 9, 31, 63, 64, 65, 127, 128, 129, 135, 136, 137, 260):
        values, given_masks = make_batch(3, length, sizes[0], masks)
        assert difference(model, values, **given_masks) < 1e-6


@pytest.mark.parametrize(("batch", "length", "width"), DESIGN_CASES)
@pytest.mark.parametrize("seed", [7, 11, 19])
def test_logits_at_the_designs_of_the_audit(batch, length, width, seed):
    torch.manual_seed(seed)
    model = Alphabet(AlphabetConfig(channels=2, width=width, modes=width // 4, outputs=5))
    values, _ = make_batch(batch, length, 2, seed=seed)
    found = CpuRuntime(model)(values)
    with torch.no_grad():
        assert float((found - model(values)).abs().max()) < 1e-6
        assert float((found - copy.deepcopy(model).double()(values.double())).abs().max()) < 1e-6


@given(length=st.integers(1, 200), modes=st.integers(1, 20), extra=st.integers(0, 20), seed=st.integers(0, 99))
def test_any_size_agrees(length, modes, extra, seed):
    model = make_model(1, 2 * modes + extra, modes, 2, seed=seed)
    values, masks = make_batch(2, length, 1, MASKS[seed % 4], seed)
    assert difference(model, values, **masks) < 1e-6


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("length", [LONG, LONG + 1, LONG + 137])
def test_few_long_sequences_are_split_in_time_and_nothing_changes(batch, length, masks):
    model = make_model(1, 16, 4, 3)
    values, given_masks = make_batch(batch, length, 1, masks)
    assert difference(model, values, **given_masks) < 1e-6
    batch_of = read_batch(read_sequence(values, channels=1, like=values, **given_masks))
    alone, *shared = (run_batch(batch_of, fold_and_pack(model), threads).outputs for threads in (1, 2, 4, 7))
    for found in shared:
        assert (found.sums == alone.sums).all()
        assert (found.logits == alone.logits).all()


def test_a_frame_away_from_its_base_is_right():
    values, _ = make_batch(2, 50, 2)
    assert difference(make_model(turned=True), values) < 1e-6


def test_zero_drive_gives_the_reference_too():
    assert difference(make_model(), torch.zeros(2, 40, 2)) < 1e-6
    values, _ = make_batch(2, 40, 2)
    assert difference(make_model(), values, valid=torch.zeros(2, 40, dtype=torch.bool)) < 1e-6


@pytest.mark.parametrize("size", [1e-30, 1e-6, 1e6, 1e19, 1e25, 1e36])
def test_tiny_and_huge_values_give_the_reference_too(size):
    values, _ = make_batch(2, 150, 2)
    with torch.no_grad():
        wanted = make_model()(size * values)
    assert torch.isfinite(wanted).all()
    assert difference(make_model(), size * values) < 2e-6


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_unchecked_nan_and_inf_reach_the_logits_of_their_row(bad):
    values, _ = make_batch(3, 90, 2)
    values[1, 70, 0] = bad
    with value_checks(False):
        logits = CpuRuntime(make_model())(values)
    assert torch.isnan(logits[1]).all()
    assert torch.isfinite(logits[[0, 2]]).all()


def test_changed_parameters_are_seen():
    model, (values, _) = make_model(), make_batch(2, 30, 2)
    runtime = CpuRuntime(model)
    before = runtime(values)
    with torch.no_grad():
        model.direct.lift.bias += 0.5
    assert not torch.allclose(runtime(values), before)
    assert difference(model, values) < 1e-6
    with torch.no_grad():
        model.project.weight.data.mul_(2.0)
        assert float((runtime(values) - model(values)).abs().max()) < 1e-6
        model.direct.frame.base.numpy()[:, 0] *= -1.0
        assert float((runtime(values) - model(values)).abs().max()) < 1e-6
        model.head = type(model.head)(model.config)
        assert float((runtime(values) - model(values)).abs().max()) < 1e-6
    model.load_state_dict(make_model(seed=3).state_dict())
    with torch.no_grad():
        assert float((runtime(values) - model(values)).abs().max()) < 1e-6


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_parameter_that_changes_while_weights_are_folded_is_seen_by_the_next_call(when, monkeypatch):
    model, (values, _) = make_model(), make_batch(2, 30, 2)
    runtime = CpuRuntime(model)

    def fold_beside_a_writer(snapshot):
        if when == "before":
            model.head.weight.data.mul_(2.0)
        folded = fold_and_select(snapshot)
        model.direct.lift.bias.data.add_(0.5)
        return folded

    monkeypatch.setattr(alphabet_cpu.runtime, "fold_and_select", fold_beside_a_writer)
    runtime(values)
    monkeypatch.undo()
    with torch.no_grad():
        assert float((runtime(values) - model(values)).abs().max()) < 1e-6


def test_a_thread_that_writes_parameters_never_leaves_stale_logits():
    model, (values, _) = make_model(), make_batch(1, 20, 2)
    runtime, going = CpuRuntime(model), threading.Event()

    def write():
        while not going.is_set():
            model.head.weight.data.add_(0.01)
            model.direct.lift.bias.data.mul_(-1.0)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(50):
            runtime(values)
    finally:
        going.set()
        writer.join()
    with torch.no_grad():
        wanted = model(values)
        assert float((runtime(values) - wanted).abs().max()) < 1e-5 * float(wanted.abs().max() + 1)


class Doubled(Alphabet):
    def forward(self, values, **side_inputs):
        return 2.0 * super().forward(values, **side_inputs)


class Tempered(AffineHead):
    def forward(self, descriptor):
        return 2.0 * super().forward(descriptor)


def changed(change):
    model = make_model()
    change(model)
    return model


def scan_twice(transition, drive, initial):
    return 2.0 * scan_chunked(transition, drive, initial)


class Halved(torch.Tensor):
    """Numbers that are half of what their memory says."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        found = super().__torch_function__(function, types, args, kwargs)
        return 0.5 * found if function is torch.nn.functional.linear else found


def trade(where, name, change):
    """A model, one tensor of which is another parameter."""

    def trade_in(model):
        module = model.get_submodule(where)
        setattr(module, name, torch.nn.Parameter(change(getattr(module, name).detach())))

    return lambda: changed(trade_in), {}


def make_an_attribute(model):
    weight = model.head.weight.detach().clone()
    del model.head.weight
    model.head.weight = weight


REFERENCE = {
    "a bias for all outputs": (*trade("head", "bias", lambda bias: bias[:1]), r"weight .* AffineHead is \(5, 224\)"),
    "a gain for all features": (*trade("direct.norm", "gain", lambda gain: gain[:1]), r"gain .* RMSNorm is \(1,\)"),
    "a lift's bias for all features": (*trade("cascaded.lift", "bias", lambda bias: bias[:1]), r"bias .* is \(1,\)"),
    "a biased projection": (
        lambda: changed(lambda m: setattr(m.project, "bias", torch.nn.Parameter(torch.ones(64)))),
        {},
        "the projection has a bias",
    ),
    "no synthesis": (lambda: changed(lambda m: setattr(m, "synthesis", None)), {}, "does not have the parts"),
    "a lazy negation": (
        lambda: changed(lambda m: setattr(m.head.weight, "data", torch._neg_view(m.head.weight.data))),
        {},
        "plain memory",
    ),
    "a sparse projection": (*trade("project", "weight", torch.Tensor.to_sparse), "torch.sparse_coo"),
    "a sparse buffer": (
        lambda: changed(lambda m: m.head.register_buffer("more", torch.eye(2).to_sparse())),
        {},
        "torch.sparse_coo",
    ),
    "a parameter of a class of its own": (
        *trade("project", "weight", lambda weight: weight.as_subclass(Halved)),
        "the model has a Halved",
    ),
    "an attribute": (lambda: changed(make_an_attribute), {}, "weight .* AffineHead is no parameter or buffer"),
    "describe": (
        lambda: changed(lambda m: setattr(m, "describe", lambda *_, **__: torch.ones(2, 2, 16, 7))),
        {},
        "describe of .* Alphabet is replaced",
    ),
    "double": (lambda: make_model().double(), {}, r"the model is torch\.float64"),
    "other head": (
        lambda: changed(lambda m: setattr(m, "head", make_model(variant="energy-only").head)),
        {},
        "the head is EnergyHead, which is not what the configuration says",
    ),
    "subclass": (lambda: Doubled(AlphabetConfig(2, 64, 16, 5)), {}, "the model has a Doubled"),
    "head": (lambda: changed(lambda m: setattr(m, "head", Tempered(m.config))), {}, "the model has a Tempered"),
    "hook": (lambda: changed(lambda m: m.head.register_forward_hook(lambda *_: torch.zeros(2, 5))), {}, "a hook"),
    "scan": (lambda: changed(lambda m: setattr(m, "scan", scan_twice)), {}, "scan is scan_twice"),
    "forward": (
        lambda: changed(lambda m: setattr(m.head, "forward", torch.zeros_like)),
        {},
        "forward of .* AffineHead",
    ),
    "norm": (lambda: changed(lambda m: weight_norm(m.project)), {}, "the model has a ParametrizedLinear"),
}


@pytest.mark.parametrize("case", REFERENCE)
def test_everything_else_visibly_takes_the_reference(case):
    make, given_masks, reason = REFERENCE[case]
    model = make()
    values = make_batch(2, 30, 2)[0].to(model.project.weight.dtype)
    runtime = CpuRuntime(model)
    path = runtime.path(values, **given_masks)
    assert path.startswith("reference: ")
    assert re.search(reason, path)
    with torch.no_grad():
        assert torch.equal(runtime(values, **given_masks), model(values, **given_masks))


def test_a_head_of_another_size_is_refused_as_torch_does():
    model, (values, _) = make_model(), make_batch(2, 30, 2)
    runtime = CpuRuntime(model)
    for features in (100, 400):
        model.head.weight = torch.nn.Parameter(torch.ones(5, features))
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            runtime(values)
    model.head.weight, model.head.bias = map(torch.nn.Parameter, (torch.ones(7, 224), torch.zeros(7)))
    assert runtime.path(values) == "fused"
    assert difference(model, values) < 1e-3


def test_hooks_on_all_modules_are_called():
    model, (values, _) = make_model(), make_batch(2, 30, 2)
    runtime = CpuRuntime(model)
    handle = register_module_forward_hook(lambda module, given, found: found * 2 if module is model.head else None)
    try:
        assert "a hook is registered on all modules" in runtime.path(values)
        with torch.no_grad():
            assert torch.equal(runtime(values), model(values))
    finally:
        handle.remove()
    assert runtime.path(values) == "fused"


def test_another_default_device_changes_nothing():
    model, (values, masks) = make_model(), make_batch(2, 30, 2, "both")
    wanted = CpuRuntime(model)(values, **masks)
    with torch.device("meta"):
        assert torch.equal(CpuRuntime(model)(values, **masks), wanted)
        stream = CpuStream(model).feed(values[:1], **{name: mask[:1] for name, mask in masks.items()})
        assert stream.state()["tokens"] == 30
        assert torch.isfinite(stream.logits()).all()


def test_the_fused_path_says_so():
    model, (values, masks) = make_model(), make_batch(2, 30, 2, "both")
    assert CpuRuntime(model).path(values, **masks) == "fused"
    assert repr(CpuRuntime(model)).startswith("CpuRuntime(fused, AlphabetConfig(")
    assert "reference: the model is torch.float64" in repr(CpuRuntime(make_model().double()))


def test_mistakes_get_the_cores_words():
    runtime = CpuRuntime(make_model())
    with pytest.raises(AlphabetError, match="values must have 2 channels"):
        runtime(torch.randn(2, 9, 3))
    with pytest.raises(AlphabetError, match="values must be finite"):
        runtime(torch.full((2, 9, 2), torch.nan))
    with pytest.raises(AlphabetError, match=r"values is torch\.float64 but the model"):
        runtime(torch.randn(2, 9, 2).double())
    with pytest.raises(AlphabetError, match="model must be an Alphabet; got Linear"):
        CpuRuntime(torch.nn.Linear(2, 2))
