from decimal import Decimal

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from alphabet_learn.errors import LearnError
from alphabet_learn.labels import encode_classes, encode_multilabel, encode_values
from hypothesis import assume, given
from scipy import sparse
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.class_weight import compute_sample_weight

NAN, INF = np.nan, np.inf
LABELS = st.lists(st.integers(0, 4), min_size=2, max_size=30)


@given(LABELS)
def test_targets_name_the_class_of_each_label(y):
    assume(len(set(y)) > 1)
    classes, problem = encode_classes(y)
    assert classes.tolist() == sorted(set(y))
    if len(classes) == 2:
        codes = problem.targets[:, 0].astype(int)
        assert problem.outputs == 1
    else:
        assert (problem.targets.sum(axis=1) == 1).all()
        codes = problem.targets.argmax(axis=1)
    assert classes[codes].tolist() == y


@given(LABELS)
def test_by_default_every_class_counts_the_same(y):
    assume(len(set(y)) > 1)
    _, problem = encode_classes(y)
    np.testing.assert_allclose(problem.weights, compute_sample_weight("balanced", y))
    assert problem.weights.mean() == pytest.approx(1)
    assert (encode_classes(y, balanced=False)[1].weights == 1).all()


@given(LABELS, st.data())
def test_a_weight_counts_as_repetition(y, data):
    repeats = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(y), max_size=len(y))))
    repeated = np.repeat(y, repeats)
    assume(len(set(repeated)) > 1)
    for balanced in (True, False):
        weighted = encode_classes(y, repeats, balanced)[1].weights
        plain = encode_classes(repeated, None, balanced)[1].weights
        first = np.cumsum(repeats)[repeats > 0] - 1
        share = weighted[repeats > 0] / weighted.sum()
        np.testing.assert_allclose(share, repeats[repeats > 0] * plain[first] / plain.sum())
        assert weighted.mean() == pytest.approx(1)


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (["b", "a", "b"], ["a", "b"]),
        (np.array(["b", "a", "b"], dtype=object), ["a", "b"]),
        (np.array([3, 1, 3], dtype=object), [1, 3]),
        ([True, False, True], [False, True]),
        (np.array([2.0, -1.0, 2.0]), [-1.0, 2.0]),
        (torch.tensor([5, 2, 5]), [2, 5]),
        (np.array([2, 1, 2], dtype=np.uint8), [1, 2]),
    ],
)
def test_labels_of_every_type_keep_it(y, classes):
    found, problem = encode_classes(y)
    assert found.tolist() == classes
    assert [type(label) for label in found.tolist()] == [type(label) for label in classes]
    assert problem.targets.tolist() == [[1], [0], [1]]


def test_pandas_labels_are_read():
    import pandas as pd

    for y in (
        pd.Series(["b", "a"]),
        pd.Series(["b", "a"], dtype="string"),
        pd.Series(["b", "a"], dtype="category"),
        pd.Categorical(["b", "a"]),
    ):
        assert encode_classes(y)[0].tolist() == ["a", "b"]
    assert encode_classes(pd.Series([1, 0], dtype="Int64"))[0].tolist() == [0, 1]
    with pytest.raises(LearnError, match="series 1"):
        encode_classes(pd.Series(["b", None], dtype="string"))


def test_a_column_of_labels_is_flattened_with_scikit_learns_warning():
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed when a 1d array was expected"):
        _, problem = encode_classes(np.array([[0], [1], [1]]))
    assert problem.targets.ravel().tolist() == [0, 1, 1]


def test_a_class_without_weight_stays_a_class():
    classes, problem = encode_classes([0, 1, 2, 2], sample_weight=[1, 1, 0, 0])
    assert classes.tolist() == [0, 1, 2]
    assert problem.weights.tolist() == [2, 2, 0, 0]


def test_the_caller_s_weights_are_not_written_to():
    weights = np.array([1.0, 2.0, 3.0])
    encode_classes([0, 1, 1], weights)
    encode_values([0, 1, 1], weights)
    assert weights.tolist() == [1, 2, 3]


def test_one_number_is_the_weight_of_all():
    assert (encode_values([1.0, 2.0], sample_weight=3).weights == 1).all()


@pytest.mark.parametrize("container", [np.array, np.ndarray.tolist, torch.tensor, sparse.csr_array])
def test_several_labels_at_once(container):
    y = np.array([[1, 0, 1], [0, 0, 1]])
    problem = encode_multilabel(container(y))
    assert (problem.kind, problem.targets.tolist()) == ("multilabel", y.tolist())
    assert encode_multilabel(y.astype(bool), [3, 1]).weights.tolist() == [1.5, 0.5]


def test_values_have_one_column_per_output():
    assert encode_values([1, 2, 3]).targets.tolist() == [[1], [2], [3]]
    assert encode_values(np.array([[1.5, 2.0]])).targets.tolist() == [[1.5, 2.0]]
    assert encode_values(np.array([1, 2.5], dtype=object)).targets.tolist() == [[1], [2.5]]
    assert encode_values([1.0, 2.0], [1, 3]).weights.tolist() == [0.5, 1.5]


BAD = [
    (encode_classes, (None,), ["requires y to be passed, but the target y is None"]),
    (encode_classes, ([1.0, 0.0, NAN],), ["nan", "series 2", "leave out"]),
    (encode_classes, ([1.0, 0.0, INF],), ["inf", "series 2"]),
    (encode_classes, (["a", None],), ["None", "series 1"]),
    (encode_classes, (["a", NAN, "b"],), ["nan", "series 1"]),
    (encode_classes, ([1, 1, 1],), ["one class, 1"]),
    (encode_classes, (["a"],), ["one class, 'a'"]),
    (encode_classes, ([0, 1, 0, 1], [0, 1, 0, 1]), ["one class, 1", "sample weights"]),
    (encode_classes, ([0.1, 0.7, 1.0],), ["Unknown label type: continuous", "series 0", "regressor"]),
    (encode_classes, ([0, 1j],), ["Unknown label type"]),
    (encode_classes, (np.array([0, 1j]),), ["Complex data not supported"]),
    (encode_classes, (["a", 1],), ["Unknown label type", "int, text"]),
    (encode_classes, ([10**30, 1],), ["holds objects of type int", "integers of 64 bits"]),
    (encode_classes, ([Decimal(1), Decimal(2)],), ["holds objects of type Decimal", "strings"]),
    (encode_classes, ("abc",), ["y should be a 1d array", "'abc'", "one target per series"]),
    (encode_classes, ([b"a", b"b"],), ["Unknown label type"]),
    (encode_classes, (np.array(["2026-01-01", "2026-01-02"], "datetime64[D]"),), ["Unknown label type"]),
    (encode_classes, ([0, 1], [1, -1]), ["sample_weight is -1.0", "series 1", "not negative"]),
    (encode_classes, ([0, 1], [1, NAN]), ["sample_weight is nan", "series 1"]),
    (encode_classes, ([0, 1], [0, 0]), ["sample_weight is zero"]),
    (encode_classes, ([0, 1], [1, 1, 1]), ["(3,)", "2 series"]),
    (encode_classes, ([0, 1], np.ones((2, 2))), ["(2, 2)", "2 series"]),
    (encode_classes, ([0, 1], ["a", "b"]), ["sample_weight cannot be read as numbers"]),
    (encode_multilabel, ([[0, 1], [2, 1]],), ["2.0", "series 1 and label 0"]),
    (encode_multilabel, ([[0, 1], [NAN, 1]],), ["nan", "series 1 and label 0"]),
    (encode_multilabel, ([0, 1],), ["(2,)", "(n, labels)"]),
    (encode_values, (None,), ["requires y"]),
    (encode_values, ([1.0, NAN],), ["nan", "series 1"]),
    (encode_values, ([[1.0, 2.0], [1.0, INF]],), ["inf", "series 1, output 1"]),
    (encode_values, ([1.0, None],), ["nan", "series 1"]),
    (encode_values, ([10**400, 1],), ["cannot be read as numbers"]),
    (encode_values, (["a", "b"],), ["cannot be read as numbers"]),
    (encode_values, (np.array(["1", "2"]),), ["cannot be read as numbers"]),
    (encode_values, (np.zeros((2, 2, 2)),), ["(2, 2, 2)"]),
    (encode_values, ([],), ["(0,)"]),
]


@pytest.mark.parametrize(("encode", "arguments", "words"), BAD)
def test_the_message_names_finding_place_and_remedy(encode, arguments, words):
    with pytest.raises(LearnError) as caught:
        encode(*arguments)
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize("encode", [encode_classes, encode_values])
def test_a_target_of_another_length_is_refused_in_scikit_learns_words(encode):
    with pytest.raises(LearnError, match=r"inconsistent numbers of samples: \[3, 2\]"):
        encode([0, 1], count=3)


def test_a_table_of_labels_is_refused_in_scikit_learns_words():
    with pytest.raises(ValueError, match="y should be a 1d array"):
        encode_classes([[0, 1], [1, 0]])


@pytest.mark.parametrize("scale", [1e308, 1e-300])
def test_the_unit_of_the_weights_never_matters(scale):
    weights = np.array([1.0, 0.5, 1.0, 0.25])
    for problem in (encode_classes([0, 1, 1, 0], scale * weights)[1], encode_values([0, 1, 2, 3], scale * weights)):
        assert problem.weights.mean() == pytest.approx(1)
    np.testing.assert_allclose(problem.weights, weights / weights.mean())
