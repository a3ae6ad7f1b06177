"""The audit's commands, called inside the test's own process."""

from alphabet_audit.cli import app
from typer.testing import CliRunner


def command(*arguments):
    """What `alphabet-audit` printed, its exit code, and what it raised."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])
