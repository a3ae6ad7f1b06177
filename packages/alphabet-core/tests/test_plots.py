import matplotlib.pyplot as plt
import pytest
import torch
from alphabet_core import attribute, plot_poles, plot_prediction
from alphabet_testing.models import build_model


@pytest.fixture
def explained():
    model = build_model()
    descriptor = model.describe(torch.randn(5, 20, 2, dtype=torch.float64)).detach()
    yield model, attribute(model, descriptor, descriptor.mean(dim=0))
    plt.close("all")


def test_every_pole_is_drawn_where_it_lies_and_as_large_as_it_matters(explained):
    model, attribution = explained
    axes = plot_poles(model, attribution)
    strength = attribution.contributions.abs().mean(dim=0)
    assert len(axes.collections) == 2
    for index, (bank, dots) in enumerate(zip(model.banks(), axes.collections, strict=True)):
        poles = bank.poles.values().detach()
        places = torch.from_numpy(dots.get_offsets().data)
        torch.testing.assert_close(places, torch.stack((poles.real, poles.imag), dim=1))
        order = torch.from_numpy(dots.get_sizes()).argsort()
        assert order.equal(strength[index].argsort())


def test_bars_of_a_prediction_sum_to_its_margin(explained):
    _, attribution = explained
    axes = plot_prediction(attribution, 2, top=3, classes=["a", "b", "c"])
    lengths = [bar.get_width() for bar in axes.patches]
    assert len(lengths) == 1 + 3 + 1 + 1  # baseline, top poles, the others, margin
    assert sum(lengths[:-1]) == pytest.approx(lengths[-1])
    assert " over " in axes.get_title()


def test_plots_without_contributions_and_on_given_axes(explained):
    model, attribution = explained
    _, axes = plt.subplots()
    assert plot_poles(model, ax=axes) is axes
    assert plot_prediction(attribution[:1], top=100, ax=plt.subplots()[1]).get_title().startswith("class ")
