"""The one error type that a user's mistake, a malformed file or an impossible request raises."""


class StudyError(ValueError):
    """A mistake that the message explains: what was found, where, and what to do about it."""
