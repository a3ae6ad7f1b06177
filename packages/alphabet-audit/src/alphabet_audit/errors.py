"""The one error that this package raises for what a user can put right."""


class AuditError(Exception):
    """A mistake in what was asked for or handed in: the message names it, where it is, and what to do."""
