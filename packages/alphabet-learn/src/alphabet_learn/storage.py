"""save and load: a fitted estimator as one safetensors file, with its labels, versions and a hash. No pickle anywhere.

The file holds tensors, and two entries of text: `model`, a JSON object with the estimator's class, its parameters, what
`fit` found out, the engine's numbers and the versions of the packages that wrote it; and `sha256`, over that text and
all tensors. What the recipe fixes, such as identity frames, is not stored. `engine_storage` takes engines apart.
"""

import hashlib
import importlib.metadata
import json
import os
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from alphabet_learn.engine_storage import Contents, pack_engine, unpack_engine
from alphabet_learn.errors import LearnError
from alphabet_learn.plain import from_plain, to_plain

Array = NDArray[Any]

FORMAT, VERSION = "alphabet-learn", 1
DTYPES = {"F32", "F64", "I64"}
PACKAGES = ("alphabet-learn", "alphabet-core", "alphabet-cpu", "torch", "numpy", "scikit-learn")
# What reading text or numbers that are not as save writes them may raise, hash or no hash.
MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
ATTRIBUTE = re.compile(r"[a-z][a-z0-9_]*_")  # what `fit` sets, by scikit-learn's convention


def save(estimator: Any, path: str | Path) -> Path:
    """Write a fitted estimator to `path` and return that path; a crash leaves an older file as it was.

    Parameters that are not plain data, such as a RandomState, come back as their defaults.
    """
    if not hasattr(estimator, "engine_"):
        raise LearnError(f"This {type(estimator).__name__} is not fitted yet: call fit before save.")
    target = Path(path)
    if not target.parent.is_dir():
        raise LearnError(f"There is no folder {target.parent}: create it first.")
    contents = pack_engine(estimator.engine_)
    parameters = {name: to_plain(value) for name, value in estimator.get_params(deep=False).items()}
    fitted = {name: to_plain(value) for name, value in vars(estimator).items() if _is_fitted(name)}
    if unknown := [name for name, value in fitted.items() if value is None]:
        found = type(getattr(estimator, unknown[0])).__name__
        raise LearnError(f"{unknown[0]} is a {found}, which is no plain data: no file can hold it.")
    model = json.dumps(
        {
            "estimator": type(estimator).__name__,
            "parameters": {name: value for name, value in parameters.items() if value is not None},
            "fitted": fitted,
            "engine": contents.facts,
            "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        },
        sort_keys=True,
    )
    arrays = {name: np.ascontiguousarray(array) for name, array in contents.tensors.items()}
    entries = {"format": FORMAT, "version": str(VERSION), "model": model, "sha256": _digest(model, arrays)}
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        safetensors.numpy.save_file(arrays, partial, metadata=entries)
        partial.replace(target)
    except OSError as problem:
        raise LearnError(f"{target} cannot be written: {problem.strerror or problem}.") from problem
    finally:
        partial.unlink(missing_ok=True)
    return target


def load(path: str | Path) -> Any:
    """The estimator that `save` wrote; a file that is damaged, edited, foreign or of a newer format is refused."""
    source = Path(path)
    if not source.is_file():
        raise LearnError(f"There is no file {source}: pass one that save wrote.")
    arrays, entries = _read(source)
    model = entries["model"]
    if entries.get("sha256") != _digest(model, arrays):
        raise LearnError(f"{source} does not match its own hash, so it is damaged or was edited: save the model again.")
    try:
        facts = json.loads(model)
        return _build(facts, arrays)
    except MALFORMED as problem:
        reason = str(problem).rstrip(".") if isinstance(problem, LearnError) else f"{type(problem).__name__}: {problem}"
        raise LearnError(f"{source} does not hold an estimator as save writes it ({reason}).") from problem


def _read(source: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """The tensors, copied from the file, and the entries of text, of a file whose format is ours."""
    try:
        # A tensor is mapped from the file, whose size safetensors has compared with the sizes of all tensors before.
        with safetensors.safe_open(source, framework="np") as file:
            entries: dict[str, str] = file.metadata() or {}
            _check_format(source, entries)
            names = list(file.keys())
            kinds = {file.get_slice(name).get_dtype() for name in names}
            if not kinds <= DTYPES:
                raise LearnError(
                    f"{source} holds tensors of {', '.join(sorted(kinds - DTYPES))}, which save never writes."
                )
            return {name: np.array(file.get_tensor(name)) for name in names}, entries
    except (safetensors.SafetensorError, struct.error, OSError) as problem:
        raise LearnError(f"{source} is not a readable safetensors file, or is cut short: {problem}.") from problem


def _check_format(source: Path, entries: dict[str, str]) -> None:
    found, version = entries.get("format"), entries.get("version", "")
    if found != FORMAT or "model" not in entries or not version.isascii() or not version.isdigit() or len(version) > 9:
        raise LearnError(
            f"{source} holds something else than an estimator of alphabet-learn: pass a file that save wrote."
        )
    if int(version) > VERSION:
        raise LearnError(
            f"{source} has format {version}, but this alphabet-learn reads formats up to {VERSION}: upgrade it."
        )


def _build(facts: dict[str, Any], arrays: dict[str, Array]) -> Any:
    from alphabet_learn.estimators import AlphabetClassifier, AlphabetRegressor, AlphabetTransformer

    classes = {cls.__name__: cls for cls in (AlphabetClassifier, AlphabetRegressor, AlphabetTransformer)}
    if facts["estimator"] not in classes:
        raise LearnError(f"its class is {facts['estimator']!r}, which is none of {', '.join(classes)}")
    cls = classes[facts["estimator"]]
    estimator = cls(**{name: from_plain(value) for name, value in facts["parameters"].items()})
    for name, value in facts["fitted"].items():
        if not _is_fitted(name) or hasattr(cls, name):
            raise LearnError(f"{name!r} is no attribute that fit sets")
        setattr(estimator, name, from_plain(value))
    estimator.engine_ = unpack_engine(Contents(facts["engine"], arrays), channels=estimator.channels_in_)
    return estimator


def _is_fitted(name: str) -> bool:
    return ATTRIBUTE.fullmatch(name) is not None and name != "engine_"


def _digest(model: str, arrays: dict[str, Array]) -> str:
    """SHA-256 over the text and every tensor's name, dtype, shape and bytes, in the order of names."""
    digest = hashlib.sha256(model.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
