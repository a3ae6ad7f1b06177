import pytest
import torch
from alphabet_core import AlphabetError, StreamingAlphabet, value_checks
from alphabet_core.sequence import values_checked
from alphabet_testing.models import build_model

VALUES = torch.zeros(2, 5, 3)
NAN_AT = VALUES.clone().index_put((torch.tensor(1), torch.tensor(3), torch.tensor(2)), torch.tensor(torch.nan))
INF_AT = VALUES.clone().index_put((torch.tensor(0), torch.tensor(4), torch.tensor(1)), torch.tensor(-torch.inf))
ONES = torch.ones(2, 5)


def changed(tensor, place, value):
    tensor = tensor.clone()
    tensor[place] = value
    return tensor


STRUCTURE = [
    ({"values": torch.zeros(2, 5)}, ["values", "(2, 5)", "channels=3"]),
    ({"values": torch.zeros(2, 5, 4)}, ["values", "3 channels", "(2, 5, 4)"]),
    ({"values": torch.zeros(0, 5, 3)}, ["values", "batch is empty", "(0, 5, 3)"]),
    ({"values": torch.zeros(2, 0, 3)}, ["values", "no token", "(2, 0, 3)"]),
    ({"values": torch.zeros(2, 5, 3, dtype=torch.int64)}, ["values", "floating point", "int64"]),
    ({"values": torch.zeros(2, 5, 3, dtype=torch.float64)}, ["values", "float64", "model is torch.float32"]),
    ({"values": torch.zeros(2, 5, 3, device="meta")}, ["values", "meta", "cpu"]),
    ({"values": [[0.0]]}, ["values", "torch.Tensor", "list"]),
    ({"time_delta": torch.ones(2, 4)}, ["time_delta", "(2, 5)", "(2, 4)"]),
    ({"time_delta": torch.ones(2, 5, 1)}, ["time_delta", "(2, 5, 1)"]),
    ({"time_delta": torch.ones(2, 5, dtype=torch.int64)}, ["time_delta", "int64"]),
    ({"time_delta": torch.ones(2, 5, device="meta")}, ["time_delta", "meta"]),
    ({"observed": torch.ones(2, 5, 2)}, ["observed", "(2, 5, 3) or (2, 5)", "(2, 5, 2)"]),
    ({"observed": torch.ones(2, 5, dtype=torch.complex64)}, ["observed", "real"]),
    ({"valid": torch.ones(2, 5, 3)}, ["valid", "(2, 5)", "(2, 5, 3)"]),
    ({"valid": 1}, ["valid", "torch.Tensor", "int"]),
]
CONTENT = [
    ({"values": NAN_AT}, ["values", "nan", "batch 1, token 3, channel 2"]),
    ({"values": INF_AT}, ["values", "-inf", "batch 0, token 4, channel 1"]),
    ({"time_delta": changed(ONES, (1, 2), -0.5)}, ["time_delta", "-0.5", "batch 1, token 2"]),
    ({"time_delta": changed(ONES, (0, 1), torch.inf)}, ["time_delta", "inf", "batch 0, token 1"]),
    ({"time_delta": changed(ONES, (1, 4), torch.nan)}, ["time_delta", "nan", "batch 1, token 4"]),
    ({"observed": changed(torch.ones(2, 5, 3), (1, 0, 2), 0.5)}, ["observed", "0.5", "batch 1, token 0, channel 2"]),
    ({"valid": changed(ONES, (0, 3), 2.0)}, ["valid", "2.0", "batch 0, token 3"]),
    ({"valid": changed(ONES, (0, 0), torch.nan)}, ["valid", "nan", "batch 0, token 0"]),
]


def call(arguments):
    model = build_model(channels=3, dtype=torch.float32)
    return model(arguments.get("values", VALUES), **{k: v for k, v in arguments.items() if k != "values"})


@pytest.mark.parametrize(("arguments", "words"), STRUCTURE + CONTENT)
def test_the_message_names_argument_finding_and_place(arguments, words):
    with pytest.raises(AlphabetError) as caught:
        call(arguments)
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize(("arguments", "words"), STRUCTURE)
def test_structure_is_checked_even_with_value_checks_off(arguments, words):
    with value_checks(False), pytest.raises(AlphabetError, match=words[0]):
        call(arguments)


@pytest.mark.parametrize(("arguments", "words"), [case for case in CONTENT if "values" in case[0]])
def test_value_checks_can_be_switched_off_and_come_back(arguments, words):
    with value_checks(False):
        bad = 1 if "1," in words[2][6:8] else 0
        assert not bool(torch.isfinite(call(arguments)[bad]).any())
    with pytest.raises(AlphabetError):
        call(arguments)


@pytest.mark.slow
def test_a_runtime_checks_values_only_for_callers_who_asked():
    with value_checks(None):
        assert not values_checked()
        with value_checks(True):
            assert values_checked()
    with value_checks(True), value_checks(None):
        assert values_checked()
    assert values_checked()


def test_compilation_leaves_value_checks_out():
    model = build_model(channels=3, dtype=torch.float32)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    assert not bool(torch.isfinite(compiled(NAN_AT)[1]).any())


def test_nan_is_legal_where_nothing_is_observed():
    mask = torch.isfinite(NAN_AT)
    assert bool(torch.isfinite(call({"values": NAN_AT, "observed": mask})).all())
    assert bool(torch.isfinite(call({"values": NAN_AT, "valid": mask.all(dim=-1)})).all())


def test_streams_make_the_same_promises():
    stream = StreamingAlphabet(build_model(channels=3, dtype=torch.float32), batch=2)
    with pytest.raises(AlphabetError, match="batch 1, token 3, channel 2"):
        stream.feed(NAN_AT)
    with pytest.raises(AlphabetError, match="2 parallel streams"):
        stream.feed(VALUES[:1])
    with pytest.raises(AlphabetError, match=r"time_delta.*regular grid"):
        stream.feed(VALUES, time_delta=ONES)
