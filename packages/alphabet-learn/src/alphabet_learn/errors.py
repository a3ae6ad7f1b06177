"""The one error that this package raises for mistakes in its use."""


class LearnError(ValueError):
    """What was found, where, and what would be right."""
