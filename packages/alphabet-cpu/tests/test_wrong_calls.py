"""Whatever is wrong with a call of runtime, trainer or stream, one sentence says which argument it is."""

import math

import pytest
import torch
from alphabet_core import Alphabet, AlphabetConfig
from alphabet_cpu import CpuRuntime, CpuStream, CpuTrainer
from alphabet_testing.wrong_values import (
    NO_COUNTS,
    NO_TENSORS,
    NO_TENSORS_NOR_NONE,
    VALUES,
    assert_refused,
    list_cases,
    without,
)

torch.manual_seed(0)
CONFIG = AlphabetConfig(channels=2, width=8, modes=2, outputs=3)
MODEL, TARGETS = Alphabet(CONFIG), torch.tensor([0, 1, 2, 0])
RUNTIME, STREAM = CpuRuntime(MODEL), CpuStream(MODEL)
STATE = STREAM.state()
NO_MODELS = {"None": None, "another module": torch.nn.Linear(2, 3), "a class": Alphabet}
NO_TOKENS = {
    "None": None,
    "a number": 1.0,
    "text": "ab",
    "words": ["a", "b"],
    "holes": [None, 1.0],
    "three": [1.0, 2.0, 3.0],
    "NaN": [0.0, math.nan],
    "infinity": [0.0, math.inf],
    "a sparse tensor": torch.ones(2).to_sparse(),
    "complex": [1j, 2j],
}


def trainer(**options):
    return CpuTrainer(Alphabet(CONFIG), **options)


CALLS = [
    ("model", NO_MODELS, CpuRuntime),
    ("model", NO_MODELS, CpuTrainer),
    ("model", NO_MODELS, CpuStream),
    ("values", NO_TENSORS, RUNTIME),
    ("values", NO_TENSORS, RUNTIME.describe),
    ("valid", NO_TENSORS_NOR_NONE, lambda it: RUNTIME(VALUES, valid=it)),
    ("observed", NO_TENSORS_NOR_NONE, lambda it: RUNTIME(VALUES, observed=it)),
    ("values", NO_TENSORS, lambda it: trainer()(it, TARGETS)),
    ("values", NO_TENSORS, lambda it: trainer().accumulate(it, TARGETS, 1.0)),
    ("targets", NO_TENSORS, lambda it: trainer()(VALUES, it)),
    ("targets", NO_TENSORS, lambda it: trainer(loss="mse")(VALUES, it)),
    ("microbatch", without(NO_COUNTS, "None"), lambda it: trainer(microbatch=it)),
    ("token", NO_TOKENS, STREAM.push),
    ("values", NO_TENSORS, STREAM.feed),
    ("valid", NO_TENSORS_NOR_NONE, lambda it: STREAM.feed(VALUES[:1], valid=it)),
    ("state", {"None": None, "a list": [STATE], "half of it": dict(list(STATE.items())[:3])}, STREAM.restore),
    ("state", {name: {**STATE, "memory": it} for name, it in NO_TENSORS.items()}, STREAM.restore),
    ("state", {name: {**STATE, "tokens": it} for name, it in NO_TENSORS.items()}, STREAM.restore),
]


@pytest.mark.parametrize(("argument", "call", "value"), list_cases(CALLS))
def test_a_wrong_call_is_refused_in_one_sentence(argument, call, value):
    assert_refused(argument, call, value)


def test_values_that_are_lazily_negated_are_what_they_are():
    view = torch.complex(torch.zeros_like(VALUES), -VALUES).conj().imag
    assert view.is_neg()
    assert torch.equal(RUNTIME(view), RUNTIME(VALUES))
    losses = [trainer_of_the_same_seed()(values, TARGETS) for values in (view, VALUES)]
    assert torch.equal(*losses)
    streams = [CpuStream(MODEL).feed(values[:1]).logits() for values in (view, VALUES)]
    assert torch.equal(*streams)


def trainer_of_the_same_seed():
    torch.manual_seed(1)
    return trainer()


def test_a_head_without_bias_takes_the_reference():
    torch.manual_seed(0)
    model = Alphabet(CONFIG)
    model.head.bias = None
    runtime = CpuRuntime(model)
    assert runtime.path(VALUES) == "reference: the head has no bias"
    assert torch.equal(runtime(VALUES), model(VALUES).detach())
    assert torch.isfinite(CpuTrainer(model)(VALUES, TARGETS))
