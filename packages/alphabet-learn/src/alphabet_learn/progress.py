"""Progress: one line on a terminal, and nothing anywhere else."""

import shutil
import sys


class Progress:
    """One line on a terminal's standard error, rewritten in place; nothing where that is no terminal."""

    def __init__(self, wanted: bool | None = None) -> None:
        self._shown = wanted is not False and sys.stderr is not None and sys.stderr.isatty()
        self._written = False

    def show(self, text: str) -> None:
        """Put this text in the place of what the line said."""
        if self._shown:
            columns = shutil.get_terminal_size().columns
            sys.stderr.write("\r\x1b[2K" + text[: columns - 1])
            sys.stderr.flush()
            self._written = True

    def end(self, text: str = "") -> None:
        """Leave this text on the line and go to the next, or leave no line at all without a text."""
        self.show(text)
        if self._written and text:
            sys.stderr.write("\n")
