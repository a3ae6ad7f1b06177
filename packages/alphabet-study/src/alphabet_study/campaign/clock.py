"""The time of day, for people to read; durations come from the monotonic clock, which never jumps."""

from datetime import UTC, datetime


def utc_now() -> str:
    """The time of day in UTC; nothing is computed from it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
