"""Warnings that point at the user's own line, through whatever calls lie between."""

import sys
import warnings

CALLERS = ("aeon", "alphabet_learn", "joblib", "sklearn")  # whose frames are not the user's


def warn_user(message: str) -> None:
    """Warn at the nearest line that belongs neither to this package nor to what calls estimators for users."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).split(".")[0] in CALLERS:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, UserWarning, stacklevel=level)
