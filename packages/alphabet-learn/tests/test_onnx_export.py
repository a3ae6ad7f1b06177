import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from alphabet_learn import AlphabetClassifier, AlphabetRegressor, LearnError
from alphabet_learn.closed_form import ClosedForm
from alphabet_learn.recipe import Recipe

SHAPES = [(1, 1), (2, 2), (3, 3), (1, 4), (2, 5), (3, 31), (2, 64), (1, 301)]
# The file and the kernels sum float32 numbers in another order; probabilities differ by less than this.
TOLERANCE = 1e-5


class Small:
    """An estimator whose closed form has one bank of 16 modes per view."""

    def _new_engine(self):
        return ClosedForm(Recipe(banks_per_view=1, modes=16)) if self.method == "closed_form" else super()._new_engine()


class SmallClassifier(Small, AlphabetClassifier):
    pass


class SmallRegressor(Small, AlphabetRegressor):
    pass


def draw(count, channels, length, seed=0):
    """Noisy sines (count, channels, length), far from mean 0 and deviation 1."""
    random = np.random.default_rng(seed)
    phase = random.uniform(0, 2 * np.pi, (count, channels, 1))
    pace = (0.3 + 0.2 * (np.arange(count) % 3))[:, None, None]
    return (50 + 8 * np.sin(pace * np.arange(length) + phase) + random.normal(size=(count, channels, length))).astype(
        "f"
    )


def options(method):
    return {"method": method, "random_state": 0} | ({"sizes": ((8, 2),), "epochs": 3} if method == "trained" else {})


def open_session(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def assert_same_as_predict_proba(estimator, path, channels, shapes=SHAPES):
    estimator.to_onnx(path)
    session = open_session(path)
    assert [output.name for output in session.get_outputs()] == ["probabilities", "scores"]
    for seed, (batch, length) in enumerate(shapes):
        series = draw(batch, channels, length, seed)
        probabilities, scores = session.run(None, {"values": series})
        np.testing.assert_allclose(probabilities, estimator.predict_proba(series), rtol=0, atol=TOLERANCE)
        expected = estimator.decision_function(series).reshape(batch, -1)
        np.testing.assert_allclose(scores, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("method", ["closed_form", "trained"])
def test_probabilities_are_those_of_predict_proba_for_any_batch_and_length(method, classes, channels, tmp_path):
    estimator = SmallClassifier(**options(method)).fit(draw(24, channels, 30), np.arange(24) % classes)
    assert_same_as_predict_proba(estimator, tmp_path / "model.onnx", channels)


@pytest.mark.slow
def test_an_ensemble_is_one_file(tmp_path):
    estimator = SmallClassifier(**options("trained"), ensemble=3).fit(draw(24, 2, 30), np.arange(24) % 2)
    assert_same_as_predict_proba(estimator, tmp_path / "model.onnx", 2)


@pytest.mark.slow
def test_several_labels_at_once(tmp_path):
    labels = np.stack((np.arange(24) % 2, np.arange(24) % 3 == 0), axis=1)
    estimator = SmallClassifier(random_state=0).fit(draw(24, 1, 30), labels)
    assert_same_as_predict_proba(estimator, tmp_path / "model.onnx", 1)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["closed_form", "trained"])
def test_a_regression_predicts_in_the_targets_units(method, tmp_path):
    y = 1000.0 + np.arange(24)[:, None] * [1.0, -3.0]
    estimator = SmallRegressor(**options(method)).fit(draw(24, 2, 30), y)
    estimator.to_onnx(tmp_path / "model.onnx")
    session = open_session(tmp_path / "model.onnx")
    assert [output.name for output in session.get_outputs()] == ["predictions"]
    for batch, length in SHAPES:
        series = draw(batch, 2, length)
        np.testing.assert_allclose(session.run(None, {"values": series})[0], estimator.predict(series), rtol=TOLERANCE)


@pytest.mark.slow
def test_a_pruned_model_and_one_of_a_single_token_export_too(tmp_path):
    series, y = draw(24, 2, 30), np.arange(24) % 3
    pruned = SmallClassifier(random_state=0).fit(series, y).prune(3, series, y)
    assert_same_as_predict_proba(pruned, tmp_path / "pruned.onnx", 2)
    assert_same_as_predict_proba(SmallClassifier(random_state=0).fit(series[:, :, :1], y), tmp_path / "one.onnx", 2)


@pytest.mark.slow
def test_the_default_recipe_makes_a_file_of_about_the_size_of_its_parameters(tmp_path):
    estimator = AlphabetClassifier(random_state=0).fit(draw(24, 1, 60), np.arange(24) % 2)
    assert_same_as_predict_proba(estimator, tmp_path / "model.onnx", 1, shapes=[(1, 1), (2, 61), (1, 500)])
    estimator.save(tmp_path / "model.safetensors")
    assert (tmp_path / "model.onnx").stat().st_size < 1.2 * (tmp_path / "model.safetensors").stat().st_size


@pytest.mark.slow
def test_a_missing_value_is_never_mistaken_for_a_number(tmp_path):
    estimator = SmallClassifier(random_state=0).fit(draw(24, 2, 30), np.arange(24) % 2)
    estimator.to_onnx(tmp_path / "model.onnx")
    series = draw(3, 2, 40)
    series[1, 0, 20] = np.nan
    probabilities, _ = open_session(tmp_path / "model.onnx").run(None, {"values": series})
    assert np.isnan(probabilities[1]).all()
    assert np.isfinite(probabilities[[0, 2]]).all()


@pytest.mark.slow
def test_the_file_says_what_it_takes_and_gives(tmp_path):
    estimator = SmallClassifier(random_state=0).fit(draw(24, 2, 30), np.arange(24) % 3)
    estimator.to_onnx(tmp_path / "model.onnx")
    model = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(model, full_check=True)
    (values,), (probabilities, scores) = model.graph.input, model.graph.output
    sizes = [d.dim_param or d.dim_value for d in values.type.tensor_type.shape.dim]
    assert (values.name, sizes) == ("values", ["batch", 2, "length"])
    for output in (probabilities, scores):
        assert [d.dim_param or d.dim_value for d in output.type.tensor_type.shape.dim] == ["batch", 3]
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]  # no partial file is left


@pytest.mark.slow
def test_what_cannot_be_exported_is_said_in_one_sentence(tmp_path, monkeypatch):
    series, y = draw(24, 1, 30), np.arange(24) % 2
    timed = SmallClassifier(random_state=0).fit(series, y, times=np.arange(30.0))
    with pytest.raises(LearnError, match=r"fitted with times=.*fit without"):
        timed.to_onnx(tmp_path / "model.onnx")
    estimator = SmallClassifier(random_state=0).fit(series, y)
    with pytest.raises(LearnError, match="There is no folder"):
        estimator.to_onnx(tmp_path / "nowhere" / "model.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(LearnError, match=r"alphabet-learn\[onnx\]"):
        estimator.to_onnx(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
