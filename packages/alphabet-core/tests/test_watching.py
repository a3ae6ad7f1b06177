"""ModelWatch: whatever dispatch would look at, and wherever a tensor lies, a change is noticed."""

import dataclasses

import pytest
import torch
from alphabet_core.fused import ModelWatch
from alphabet_core.head import AffineHead
from alphabet_core.scan import scan_sequential
from alphabet_testing.models import make_model
from torch.nn.modules.module import register_module_forward_hook


class Tempered(AffineHead):
    pass


def set_data(change):
    def move(model):
        model.direct.frame.base.data = change(model.direct.frame.base.data)

    return move


def trade_stores(model):
    model.direct.norm.__dict__["_parameters"] = dict(model.direct.norm._parameters)


def replace_forward(model):
    model.head.forward = torch.zeros_like


def hide_a_parameter(model):
    vars(model.head)["weight"] = model.head.weight.detach().clone()


CHANGES = {
    "another parameter": lambda model: setattr(model.head, "bias", torch.nn.Parameter(model.head.bias.detach())),
    "a parameter taken away": lambda model: setattr(model.head, "bias", None),
    "a parameter more": lambda model: model.head.register_parameter("more", torch.nn.Parameter(torch.ones(1))),
    "a buffer more": lambda model: model.head.register_buffer("more", torch.ones(1)),
    "other memory": set_data(torch.clone),
    "the same memory, transposed": set_data(torch.t),
    "the same memory, transposed in place": lambda model: model.direct.frame.base.t_(),
    "the same memory, less of it": set_data(lambda base: base[:-1]),
    "the same memory, another type": set_data(lambda base: base.view(torch.int32)),
    "a type": lambda model: model.double(),
    "another module": lambda model: setattr(model, "head", type(model.head)(model.config)),
    "another class": lambda model: setattr(model.head, "__class__", Tempered),
    "a module more": lambda model: model.head.add_module("more", torch.nn.Identity()),
    "another dictionary": trade_stores,
    "a forward of its own": replace_forward,
    "a method of its own": lambda model: setattr(model, "describe", torch.zeros_like),
    "an attribute in place of a parameter": hide_a_parameter,
    "the same memory, negated": set_data(torch._neg_view),
    "a sparse buffer": lambda model: model.head.register_buffer("more", torch.eye(2).to_sparse()),
    "a forward hook": lambda model: model.head.register_forward_hook(lambda *given: None),
    "a forward pre-hook": lambda model: model.direct.register_forward_pre_hook(lambda *given: None),
    "a backward hook": lambda model: model.direct.register_full_backward_hook(lambda *given: None),
    "a backward pre-hook": lambda model: model.direct.register_full_backward_pre_hook(lambda *given: None),
    "another scan": lambda model: setattr(model, "scan", scan_sequential),
    "another configuration": lambda model: setattr(model, "config", dataclasses.replace(model.config, lags=(1, 2, 3))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_noticed(change):
    model = make_model()
    watch = ModelWatch(model)
    assert watch.unchanged()
    CHANGES[change](model)
    assert not watch.unchanged()


def test_values_may_change():
    model = make_model()
    watch, versions = ModelWatch(model), ModelWatch(model).versions()
    model.load_state_dict(make_model(seed=3).state_dict())
    assert watch.unchanged()
    assert watch.versions() != versions


def test_hooks_on_all_modules_come_and_go():
    model = make_model()
    before = ModelWatch(model)
    handle = register_module_forward_hook(lambda *given: None)
    during = ModelWatch(model)
    assert not before.unchanged()
    handle.remove()
    assert before.unchanged()
    assert not during.unchanged()  # what was true with the hook need not be so without it


def test_memory_that_was_watched_is_not_given_to_another_tensor():
    model = make_model()
    watch, shape = ModelWatch(model), model.head.weight.shape
    model.head.weight.data = torch.zeros(0)
    others = [torch.zeros(shape) for _ in range(50)]
    assert not {tensor.data_ptr() for tensor in others} & set(watch.places)


def test_a_model_with_tensors_without_memory_is_never_unchanged():
    model = make_model()
    model.head.register_buffer("more", torch.eye(2).to_sparse())
    assert not ModelWatch(model).unchanged()
