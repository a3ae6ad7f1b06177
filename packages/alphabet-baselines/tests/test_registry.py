"""The paper's configuration table, literally, and what a wrong name gets."""

import pytest
import torch
from alphabet_baselines import ALPHABET_PAIRS, FAMILIES, build, candidates
from alphabet_core import RECIPES, Alphabet, AlphabetError

TABLE = {
    "cnn1d": ("CNN1D", ((2, 3), (4, 5))),
    "tcn": ("TCN", ((3, 3), (5, 5))),
    "transformer": ("Transformer", ((1, 2), (2, 4))),
    "mamba": ("Mamba", ((16, 3), (32, 4))),
    "s4d": ("S4D", ((1, 16), (3, 16))),
    "s5": ("S5", ((1, 16), (2, 32))),
    "lru": ("LRU", ((1, 16), (2, 32))),
    "gru": ("GRU", ((1, 16), (2, 32))),
    "lstm": ("LSTM", ((1, 16), (2, 32))),
}
EVERYONE = [*TABLE, "alphabet"]


def test_the_families_are_the_papers_nine():
    assert {name: (entry.title, entry.choices) for name, entry in FAMILIES.items()} == TABLE


@pytest.mark.parametrize("family", EVERYONE)
def test_eighteen_candidates_with_distinct_ordered_keys(family):
    found = candidates(family)
    assert len(found) == 18
    assert len({candidate.key for candidate in found}) == 18
    assert list(found) == sorted(found)
    assert [candidate.key for candidate in found] == sorted(candidate.key for candidate in found)


@pytest.mark.parametrize("family", TABLE)
def test_candidates_are_widths_times_choices_times_recipes(family):
    expected = {(w, c, r) for w in (32, 64, 128) for c in TABLE[family][1] for r in "ABC"}
    assert {(c.width, c.choice, c.recipe_name) for c in candidates(family)} == expected


def test_alphabet_has_its_six_capacity_pairs():
    expected = {(32, 8), (32, 16), (64, 16), (64, 32), (128, 16), (128, 32)}
    assert set(ALPHABET_PAIRS) == expected
    assert {(c.width, *c.choice, c.recipe_name) for c in candidates("alphabet")} == {
        (*pair, recipe) for pair in expected for recipe in "ABC"
    }


def test_keys_are_frozen():
    # Keys decide ties of the selection, so a change of their text would change published results.
    assert [c.key for c in candidates("gru")][2:4] == ["gru/032/01x16/C", "gru/032/02x32/A"]
    assert candidates("mamba")[-1].key == "mamba/128/32x04/C"
    assert candidates("alphabet")[0].key == "alphabet/032/08/A"
    assert candidates("alphabet")[-1].key == "alphabet/128/32/C"


@pytest.mark.parametrize("family", EVERYONE)
def test_every_candidate_builds_what_it_says(family):
    for candidate in candidates(family):
        model = candidate.build(channels=2, outputs=4)
        assert candidate.recipe is RECIPES[candidate.recipe_name]
        assert candidate.microbatch == (32 if candidate.width == 128 else None)
        with torch.no_grad():
            assert model(torch.randn(2, 9, 2)).shape == (2, 4)


def test_alphabet_is_the_cores_own_model():
    model = build("alphabet", channels=2, outputs=5, width=64, choice=(16,))
    assert isinstance(model, Alphabet)
    assert sum(parameter.numel() for parameter in model.parameters()) == 6437


GOOD = {"channels": 1, "outputs": 2, "width": 8, "choice": (1, 16)}
BAD = [
    ("grru", {}, r"family must be one of cnn1d, tcn, .*; got 'grru'"),
    ("gru", {"width": 0}, "width must be a positive integer; got 0"),
    ("gru", {"channels": True}, "channels must be a positive integer; got True"),
    ("gru", {"outputs": 2.0}, "outputs must be a positive integer; got 2.0"),
    (
        "gru",
        {"choice": (1, 17)},
        r"choice of gru must be one of the tuples \(\(1, 16\), \(2, 32\)\), each \(depth, state\)",
    ),
    ("gru", {"choice": (1.0, 16)}, r"choice of gru must be one of the tuples .*; got \(1.0, 16\)"),
    ("gru", {"choice": [1, 16]}, r"choice of gru must be one of the tuples .*; got \[1, 16\]"),
    (["gru"], {}, r"family must be one of .*, or alphabet for the model itself; got \['gru'\]"),
    ("gru", {"metadata": None}, "metadata must be a tuple of names"),
    ("gru", {"metadata": "observed"}, "metadata must be a tuple of names"),
    ("alphabet", {"choice": (4,), "metadata": ("clock",)}, r"metadata must be a tuple of names .*; got \('clock',\)"),
    ("gru", {"algorithm": "fft"}, "algorithm of gru must be one of fused, sequential; got 'fft'"),
    ("alphabet", {}, r"choice of alphabet must be \(modes,\); got \(1, 16\)"),
    ("alphabet", {"choice": (5,)}, "modes=5 needs a frame"),
    ("alphabet", {"choice": (4,), "algorithm": "fft"}, "algorithm of alphabet must be one of chunked"),
    ("mamba", {"choice": (16, 3), "algorithm": "official"}, "algorithm='official' runs on a CUDA device"),
]


@pytest.mark.parametrize(("family", "change", "message"), BAD)
def test_a_wrong_argument_is_named(family, change, message, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)  # the messages of a machine without CUDA, on any
    with pytest.raises(AlphabetError, match=message):
        build(family, **{**GOOD, **change})


def test_candidates_of_an_unknown_family_are_refused():
    with pytest.raises(AlphabetError, match="family must be one of"):
        candidates("rnn")
