import dataclasses
import json

import pytest
from alphabet_core import VARIANTS, Alphabet, AlphabetConfig, AlphabetError

COUNTS = [
    ("full", (2, 64, 16, 5), 6_437),
    ("full", (1, 64, 16, 2), 5_698),
    ("one-scan", (1, 72, 32, 2), 5_698),
    ("no-synthesis", (1, 64, 16, 2), 5_570),
    ("fixed-poles", (1, 64, 16, 2), 5_634),
    ("energy-only", (1, 64, 16, 2), 5_705),
]


@pytest.mark.parametrize(("variant", "sizes", "count"), COUNTS)
def test_trainable_parameter_counts_are_the_papers(variant, sizes, count):
    config = AlphabetConfig.variant(variant, **dict(zip(("channels", "width", "modes", "outputs"), sizes, strict=True)))
    assert sum(p.numel() for p in Alphabet(config).parameters() if p.requires_grad) == count


SIZES = {"channels": 2, "width": 8, "modes": 4, "outputs": 3}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"modes": 5}, ["modes=5", "width=8", "modes <= 4"]),
        ({"channels": 0}, ["channels", "positive", "0"]),
        ({"width": -3}, ["width", "-3"]),
        ({"outputs": 2.5}, ["outputs", "2.5"]),
        ({"modes": True}, ["modes", "True"]),
        ({"lags": ()}, ["lags", "non-empty"]),
        ({"lags": (1, 1)}, ["lags", "distinct"]),
        ({"lags": (1, 0)}, ["lags[1]", "0"]),
        ({"lags": 3}, ["lags", "3"]),
        ({"cascaded": False}, ["synthesis", "cascaded"]),
        ({"cascaded": 1}, ["cascaded", "True or False"]),
        ({"energy_hidden": 0}, ["energy_hidden", "0"]),
    ],
)
def test_a_bad_field_is_named_with_its_value(change, words):
    with pytest.raises(AlphabetError) as caught:
        AlphabetConfig(**{**SIZES, **change})
    assert all(word in str(caught.value) for word in words), caught.value


def test_configuration_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        AlphabetConfig(**SIZES).width = 16  # type: ignore[misc]


@pytest.mark.parametrize("variant", VARIANTS)
def test_configuration_survives_json(variant):
    config = AlphabetConfig.variant(variant, **SIZES, lags=(1, 3))
    assert AlphabetConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_an_unknown_variant_or_field_is_refused():
    with pytest.raises(AlphabetError, match="no-such"):
        AlphabetConfig.variant("no-such", **SIZES)
    with pytest.raises(AlphabetError, match="depth"):
        AlphabetConfig.from_dict({**SIZES, "depth": 2})
    with pytest.raises(AlphabetError, match="width"):
        AlphabetConfig.from_dict({"channels": 2, "modes": 1, "outputs": 1})


def test_fixed_poles_are_drawn_per_model_and_never_trained():
    models = [Alphabet(AlphabetConfig.variant("fixed-poles", **SIZES)) for _ in range(2)]
    assert not models[0].direct.poles.raw_decay.equal(models[1].direct.poles.raw_decay)
    assert not any("poles" in name for name, _ in models[0].named_parameters())
    assert any("poles.raw_decay" in name for name in models[0].state_dict())
