"""The one error of this package, and words that can be printed whatever they hold."""

LONGEST_SHOWN = 80


class AuditError(Exception):
    """A mistake in what was asked for or handed in: the message names it, where it is, and what to do."""


def printable(value: object, most: int = LONGEST_SHOWN) -> str:
    """A value in one line without control characters or surrogates, cut to a length: it can be printed anywhere."""
    try:
        text = value if isinstance(value, str) else str(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, a list inside itself
        text = f"a {type(value).__name__} that cannot be shown"
    return escape_controls(text if len(text) <= most else text[:most] + " ...")


def escape_controls(text: str) -> str:
    """A text in which whatever is not printable, newlines too, is written as an escape, as in ascii()."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode("ascii")
        for character in text
    )
