"""Values that are wrong for an argument of some kind, by what they are: tables of wrong calls are made of them."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from alphabet_core import AlphabetError

Call = Callable[[Any], object]

VALUES = torch.linspace(-1, 1, 96).view(4, 12, 2)
NO_TENSORS = {
    "None": None,
    "a number": 1.0,
    "a list": [[0.0, 1.0]],
    "text": "values",
    "an array": np.zeros((4, 12, 2), np.float32),
    "a sparse tensor": VALUES.to_sparse(),
    "a nested tensor": torch.nested.nested_tensor([VALUES[0], VALUES[0, :5]], layout=torch.jagged),
}
NO_TENSORS_NOR_NONE = {name: value for name, value in NO_TENSORS.items() if value is not None}
NO_COUNTS = {
    "None": None,
    "0": 0,
    "-1": -1,
    "1.5": 1.5,
    "2.0": 2.0,
    "True": True,
    "NaN": math.nan,
    "text": "2",
    "an array": np.ones(1),
}
NO_RATES = {
    "None": None,
    "0": 0.0,
    "-1": -1.0,
    "NaN": math.nan,
    "infinity": math.inf,
    "True": True,
    "text": "fast",
    "a tensor": torch.ones(2, 2),
}
NO_SEEDS = {"None": None, "1.5": 1.5, "text": "0", "NaN": math.nan, "True": True}
NO_PATHS = {"None": None, "a number": 3, "a list": ["model"], "a tensor": VALUES}
NO_SWITCHES = {"text": "no", "0": 0, "1": 1, "a tensor": torch.tensor(True)}


def without(values: dict[str, object], *names: str) -> dict[str, object]:
    """The same values but for these, which are fine somewhere."""
    return {name: value for name, value in values.items() if name not in names}


def list_cases(calls: Iterable[tuple[str, dict[str, object], Call]]) -> list[Any]:
    """One parameter set (argument, call, value) for every wrong value of every call of a table."""
    return [
        pytest.param(argument, call, value, id=f"{number}-{argument}-{name}")
        for number, (argument, values, call) in enumerate(calls)
        for name, value in values.items()
    ]


def assert_refused(argument: str, call: Call, value: object) -> None:
    """Assert that the call is refused with one sentence that names the argument."""
    with pytest.raises(AlphabetError) as refused:
        call(value)
    assert argument in str(refused.value)
    assert "\n" not in str(refused.value)
