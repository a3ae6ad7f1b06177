"""Forms: what a value must look like, as a check and as JSON Schema from the same description."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from alphabet_audit.errors import printable

Schema = dict[str, Any]
# Neither control characters nor halves of surrogate pairs nor what reverses the direction of writing.
PRINTABLE = "[^\\u0000-\\u001f\\u007f-\\u009f\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]"
LONGEST_TEXT = 1000
LARGEST_COUNT = 10**12
LARGEST_NUMBER = 1e300


@dataclass(frozen=True)
class Form:
    """A check, the JSON Schema that says the same; for mappings the forms of their fields, and which may be absent."""

    check: Callable[[Any], bool]
    schema: Schema
    fields: Mapping[str, "Form"] | None = None
    optional: frozenset[str] = frozenset()


def text(pattern: str | None = None, least: int = 0) -> Form:
    """A string of one printable line, or one that matches a pattern as a whole."""
    found = re.compile(pattern or f"{PRINTABLE}{{{least},{LONGEST_TEXT}}}")
    return Form(
        lambda value: isinstance(value, str) and len(value) <= LONGEST_TEXT and found.fullmatch(value) is not None,
        {"type": "string", "pattern": f"^(?:{found.pattern})$", "maxLength": LONGEST_TEXT},
    )


def lines(most: int = LONGEST_TEXT) -> Form:
    """A string that may have several lines, such as an error's message in version 1."""
    found = re.compile(f"(?:{PRINTABLE}|[\\n\\r\\t])*")
    return Form(
        lambda value: isinstance(value, str) and len(value) <= most and found.fullmatch(value) is not None,
        {"type": "string", "pattern": f"^(?:{found.pattern})$", "maxLength": most},
    )


def count(least: int = 0, most: int = LARGEST_COUNT) -> Form:
    """An integer within bounds; True is none."""
    return Form(
        lambda value: type(value) is int and least <= value <= most,
        {"type": "integer", "minimum": least, "maximum": most},
    )


def number(least: float = 0.0, most: float = LARGEST_NUMBER) -> Form:
    """A finite number within bounds."""
    return Form(
        lambda value: type(value) in (int, float) and least <= value <= most,
        {"type": "number", "minimum": least, "maximum": most},
    )


def one_of(*values: Any) -> Form:
    """One of some constants; 1 is not True."""
    kinds = {(type(value), value) for value in values}
    return Form(lambda value: isinstance(value, str | int) and (type(value), value) in kinds, {"enum": list(values)})


NULL = Form(lambda value: value is None, {"type": "null"})
FLAG = Form(lambda value: isinstance(value, bool), {"type": "boolean"})


def either(*forms: Form) -> Form:
    """A value of one of several forms."""
    checks = [form.check for form in forms]
    return Form(lambda value: any(check(value) for check in checks), {"anyOf": [form.schema for form in forms]})


def list_of(form: Form, least: int, most: int | None = None) -> Form:
    """A list of at least so many entries of one form, and at most so many, or exactly."""
    most = least if most is None else most
    check = form.check
    return Form(
        lambda value: isinstance(value, list) and least <= len(value) <= most and all(map(check, value)),
        {"type": "array", "items": form.schema, "minItems": least, "maxItems": most},
    )


def pair_of(first: Form, second: Form) -> Form:
    """A list of two entries."""
    one, two = first.check, second.check
    return Form(
        lambda value: isinstance(value, list) and len(value) == 2 and one(value[0]) and two(value[1]),
        {"type": "array", "prefixItems": [first.schema, second.schema], "minItems": 2, "maxItems": 2},
    )


def fields(**forms: Form) -> Form:
    """A mapping with exactly these fields."""
    return mapping(forms)


def mapping(forms: Mapping[str, Form], optional: Iterable[str] = ()) -> Form:
    """A mapping with exactly these fields, but for optional ones, whose names need not be those of variables."""
    names, absent = set(forms), frozenset(optional)
    checks = {name: form.check for name, form in forms.items()}
    return Form(
        lambda value: (
            isinstance(value, dict)
            and names - absent <= value.keys() <= names
            and all(checks[name](each) for name, each in value.items())
        ),
        {
            "type": "object",
            "properties": {name: form.schema for name, form in forms.items()},
            "required": [name for name in forms if name not in absent],
            "additionalProperties": False,
        },
        forms,
        absent,
    )


def map_of(name: str, form: Form, most: int, least: int = 0) -> Form:
    """A mapping whose names match a pattern as a whole and whose values have one form."""
    found, check = re.compile(name), form.check
    return Form(
        lambda value: (
            isinstance(value, dict)
            and least <= len(value) <= most
            and all(found.fullmatch(key) is not None for key in value)
            and all(map(check, value.values()))
        ),
        {
            "type": "object",
            "patternProperties": {f"^(?:{name})$": form.schema},
            "additionalProperties": False,
            "minProperties": least,
            "maxProperties": most,
        },
    )


def find_misfits(value: Any, form: Form, place: str = "") -> Iterator[str]:
    """What is wrong with a value, in words that name the place: unknown fields, missing ones, and bad ones."""
    if form.check(value):
        return
    if form.fields is None or not isinstance(value, dict):
        yield f"has a bad {place or 'form'}: {printable(value)}"
        return
    prefix = f"{place}." if place else ""
    yield from (f"has an unknown field {prefix}{printable(name)}" for name in sorted(set(value) - set(form.fields)))
    for name, inner in form.fields.items():
        if name not in value:
            if name not in form.optional:
                yield f"has no {prefix}{name}"
        else:
            yield from find_misfits(value[name], inner, f"{prefix}{name}")
