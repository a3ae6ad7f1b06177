"""Files: predictions after a load are the same, labels keep their types, and a damaged or foreign file is refused."""

import json
import pickle
import struct

import joblib
import numpy as np
import pytest
from alphabet_learn import AlphabetClassifier, AlphabetRegressor, AlphabetTransformer, LearnError
from alphabet_learn.plain import from_plain, to_plain
from alphabet_learn.recipe import Recipe
from alphabet_learn.storage import _digest, load
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from sklearn.exceptions import NotFittedError


def make_series(count=12, channels=2, length=20, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((count, channels, length)).cumsum(axis=2)
    values[rng.random(values.shape) < 0.1] = np.nan
    return values, np.arange(count) % 3


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    values, labels = make_series()
    classifier = AlphabetClassifier(random_state=0).fit(values, labels)
    return classifier, classifier.save(tmp_path_factory.mktemp("files") / "model.safetensors")


@pytest.mark.parametrize("method", ["closed_form", "trained"])
@pytest.mark.parametrize("names", [["a", "b", "c"], [3, 1, 2], [True, False, True], [0.5, 1.5, 2.5]], ids=str)
def test_a_loaded_classifier_predicts_the_same(method, names, tmp_path):
    values, labels = make_series()
    targets = np.array(names)[labels] if isinstance(names[0], str | bool) else np.array(names, int)[labels]
    classifier = AlphabetClassifier(method, epochs=2, class_weight=None, random_state=0).fit(values, targets)
    loaded = load(classifier.save(tmp_path / "model.safetensors"))
    assert loaded.get_params() == classifier.get_params()
    assert loaded.classes_.dtype == classifier.classes_.dtype
    np.testing.assert_array_equal(loaded.predict(values), classifier.predict(values))
    np.testing.assert_allclose(loaded.predict_proba(values), classifier.predict_proba(values), rtol=0, atol=1e-12)
    whys = [each.explain(values[:2]) for each in (classifier, loaded)]
    np.testing.assert_allclose(whys[0].contributions, whys[1].contributions, rtol=0, atol=1e-9)


def test_regressors_transformers_times_and_pruned_models_are_kept(tmp_path):
    values, labels = make_series()
    regressor = AlphabetRegressor(random_state=0).fit(values, np.stack([labels, -labels], axis=1))
    loaded = load(regressor.save(tmp_path / "regressor.safetensors"))
    np.testing.assert_allclose(loaded.predict(values), regressor.predict(values), rtol=0, atol=1e-12)
    transformer = AlphabetTransformer(random_state=0).fit(values)
    loaded = load(transformer.save(tmp_path / "transformer.safetensors"))
    np.testing.assert_allclose(loaded.transform(values), transformer.transform(values), rtol=0, atol=1e-12)
    timed = AlphabetClassifier(random_state=0).fit(values, labels, times=np.arange(20) * 0.5)
    loaded = load(timed.save(tmp_path / "timed.safetensors"))
    times = {"times": np.arange(20) * 0.5}
    np.testing.assert_allclose(loaded.predict_proba(values, **times), timed.predict_proba(values, **times), atol=1e-12)
    pruned = AlphabetClassifier(random_state=0).fit(values, labels).prune(5, values, labels)
    loaded = load(pruned.save(tmp_path / "pruned.safetensors"))
    np.testing.assert_allclose(loaded.predict_proba(values), pruned.predict_proba(values), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dump", [lambda m: pickle.loads(pickle.dumps(m)), "joblib"], ids=["pickle", "joblib"])
def test_pickle_and_joblib_work_too(saved, dump, tmp_path):
    classifier, _ = saved
    if dump == "joblib":
        joblib.dump(classifier, tmp_path / "model.joblib")
        again = joblib.load(tmp_path / "model.joblib")
    else:
        again = dump(classifier)
    values, _ = make_series(seed=1)
    np.testing.assert_array_equal(again.predict_proba(values), classifier.predict_proba(values))


def rewrite(path, target, *, tensors=None, **entries):
    """A copy of a file with other tensors or entries of text, its own hash left as it was."""
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    metadata = json.loads(raw[8 : 8 + size])["__metadata__"]
    save_file(tensors or load_file(path), target, metadata={**metadata, **entries})
    return target


def test_a_damaged_file_is_refused(saved, tmp_path):
    _, path = saved
    raw = path.read_bytes()
    for cut in (0, 5, 200, len(raw) // 2, len(raw) - 1):
        (tmp_path / "cut").write_bytes(raw[:cut])
        with pytest.raises(LearnError, match=r"cut"):
            load(tmp_path / "cut")
    tensors = load_file(path)
    tensors["head.intercept"] = tensors["head.intercept"] + 1e-12
    with pytest.raises(LearnError, match="damaged or was edited"):
        load(rewrite(path, tmp_path / "edited", tensors=tensors))
    with pytest.raises(LearnError, match="damaged or was edited"):
        load(rewrite(path, tmp_path / "text", model="{}"))


def test_a_foreign_or_newer_file_is_refused(saved, tmp_path):
    _, path = saved
    save_file({"a": np.zeros(3)}, tmp_path / "foreign")
    with pytest.raises(LearnError, match="something else"):
        load(tmp_path / "foreign")
    with pytest.raises(LearnError, match="formats up to"):
        load(rewrite(path, tmp_path / "newer", version="2"))
    with pytest.raises(LearnError, match="no file"):
        load(tmp_path / "absent")
    with pytest.raises(NotFittedError):
        AlphabetClassifier().save(tmp_path / "model")


def test_a_file_that_asks_for_more_than_it_holds_is_refused_before_anything_is_made(saved, tmp_path):
    _, path = saved
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    facts = json.loads(json.loads(raw[8 : 8 + size])["__metadata__"]["model"])
    facts["engine"]["recipe"]["modes"] = 1024
    facts["engine"]["recipe_digest"] = Recipe(modes=1024).digest()
    model, tensors = json.dumps(facts), load_file(path)
    forged = rewrite(path, tmp_path / "forged", model=model, sha256=_digest(model, tensors))  # its own hash is right
    with pytest.raises(LearnError, match="shape"):
        load(forged)


def test_a_loaded_trained_model_can_be_pruned(tmp_path):
    values, labels = make_series()
    classifier = AlphabetClassifier("trained", epochs=2, random_state=0).fit(values, labels)
    loaded = load(classifier.save(tmp_path / "model.safetensors"))
    pruned = [each.prune(4, values, labels).predict_proba(values) for each in (classifier, loaded)]
    np.testing.assert_allclose(pruned[0], pruned[1], rtol=0, atol=1e-6)


def test_a_file_holds_no_more_than_its_model_needs(saved):
    classifier, path = saved
    numbers = sum(tensor.size for tensor in load_file(path).values())
    assert path.stat().st_size < 8 * numbers + 10_000
    assert numbers < (len(classifier.classes_) + 2) * classifier.engine_.coordinates + 24 * 64 * 20


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(PLAIN)
def test_plain_data_come_back_with_their_types(value):
    plain = json.loads(json.dumps(to_plain(value)))
    back = from_plain(plain)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize("dtype", ["<U3", "int32", "float32", "bool", "O"])
def test_arrays_keep_their_dtype(dtype):
    array = np.array([[1, 0], [1, 1]]).astype(dtype)
    back = from_plain(json.loads(json.dumps(to_plain(array))))
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_what_is_no_plain_data_is_not_accepted():
    assert to_plain(object()) is None
    assert to_plain([object()]) is None
    assert to_plain(np.array([object()])) is None
    with pytest.raises(ValueError, match="no type"):
        from_plain({"type": "module", "value": "os"})
