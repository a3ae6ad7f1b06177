"""The one error type that a user's mistake raises."""


class AlphabetError(ValueError):
    """A mistake in the caller's input: the message names the argument, what was found and what would be right."""
