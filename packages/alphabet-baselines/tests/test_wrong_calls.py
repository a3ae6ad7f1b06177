"""Whatever is wrong with a call of a family, one sentence says which argument it is; nothing else is raised."""

import pytest
from alphabet_baselines import FAMILIES, build, candidates, match_parameters
from alphabet_testing.wrong_values import (
    NO_COUNTS,
    NO_TENSORS,
    NO_TENSORS_NOR_NONE,
    VALUES,
    assert_refused,
    list_cases,
)

SIZES = {"channels": 2, "outputs": 3, "width": 8, "choice": FAMILIES["s5"].choices[0]}
MODEL = build("s5", **SIZES)
NO_NAMES = {"None": None, "a list": ["gru"], "a number": 1, "text": "rnn"}
CALLS = [
    ("channels", NO_COUNTS, lambda it: build("s5", **SIZES | {"channels": it})),
    ("outputs", NO_COUNTS, lambda it: build("s5", **SIZES | {"outputs": it})),
    ("width", NO_COUNTS, lambda it: build("s5", **SIZES | {"width": it})),
    ("family", NO_NAMES, lambda it: build(it, **SIZES)),
    ("family", NO_NAMES, candidates),
    ("choice", {**NO_COUNTS, "a list": [1, 16], "fractions": (1.0, 16)},
     lambda it: build("s5", **SIZES | {"choice": it})),
    ("choice", {**NO_COUNTS, "a pair": (1, 16)},
     lambda it: build("alphabet", **SIZES | {"choice": it})),
    ("modes", {"text": ("8",), "0": (0,), "too many": (9,)}, lambda it: build("alphabet", **SIZES | {"choice": it})),
    ("metadata", {"None": None, "text": "observed", "another": ("valid",), "a list in it": (["observed"],)},
     lambda it: build("s5", **SIZES, metadata=it)),
    ("algorithm", {"a list": ["fft"], "a number": 1, "text": "slow"}, lambda it: build("s5", **SIZES, algorithm=it)),
    ("target", NO_COUNTS, lambda it: match_parameters("gru", it, channels=2, outputs=3)),
    ("values", NO_TENSORS, MODEL),
    ("observed", NO_TENSORS_NOR_NONE, lambda it: MODEL(VALUES, observed=it)),
    ("valid", NO_TENSORS_NOR_NONE, lambda it: MODEL(VALUES, valid=it)),
]  # fmt: skip


@pytest.mark.parametrize(("argument", "call", "value"), list_cases(CALLS))
def test_a_wrong_call_is_refused_in_one_sentence(argument, call, value):
    assert_refused(argument, call, value)
