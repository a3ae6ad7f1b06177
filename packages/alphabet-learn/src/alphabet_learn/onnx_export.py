"""to_onnx: a fitted estimator as one ONNX file, from raw values to probabilities, for any runtime of that format.

    values (batch, channels, length) float32  ->  probabilities and scores; predictions of a regression

The file holds everything: views, standardization, all models, head and calibration. Batch and length are dynamic. All
series of a batch have one length, nothing is missing, and tokens are one step apart; NaN in a series makes its output
NaN. `onnx_network` writes the graph node by node: torch.onnx takes a minute for 24 random banks, and a file three times
the size of the parameters.
"""

import os
from pathlib import Path
from typing import Any

from alphabet_learn.errors import LearnError


def to_onnx(estimator: Any, path: str | Path) -> Path:
    """Write a fitted estimator as an ONNX file and return its path; it needs the package onnx.

    Input `values` (batch, channels, length) float32, in the order of axes that `fit` takes, of at least one token.
    Outputs `probabilities`, as predict_proba returns them, and `scores` (batch, K); of a regression `predictions`
    (batch, outputs); all float32. Series must be complete and regular: estimators fitted with times are refused, and
    series of unequal length go one by one.
    """
    if estimator.timed_:
        raise LearnError(
            "The model was fitted with times=, which an ONNX file does not read: fit without times=, on series that "
            "are resampled to equal steps."
        )
    try:
        import onnx
    except ImportError as missing:
        raise LearnError("to_onnx needs onnx: pip install 'alphabet-learn[onnx]'.") from missing
    from alphabet_learn.onnx_network import write_engine

    target = Path(path)
    if not target.parent.is_dir():
        raise LearnError(f"There is no folder {target.parent}: create it first.")
    model = write_engine(estimator.engine_, estimator.channels_in_)
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        onnx.save_model(model, str(partial))
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target
