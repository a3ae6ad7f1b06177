"""From a suite's TOML file to its tasks: defaults filled in, placeholders replaced, every key known.

A file has [defaults], which every task takes unless it says otherwise, [origins], the addresses from which files can be
fetched, and one [tasks.NAME] per task. Beside the fields of `Task` a table may have

    like       another task of the file, whose keys but hashes and `embedded` this one takes unless it says otherwise
    geometry   the fields channels, length, outputs, train_size and test_size; a task's are added to the defaults'
    folder     where the files lie below the data root
    files_train, files_test   the names of the files in that folder; files: of those that hold both parts. [1-5] in a
               name stands for five files, here and in the option `validation`
    sha256     hashes by the name of the file; contents: those of what repacked archives hold
    origin     the entry of [origins] from which the files can be fetched, "none" where the defaults name one
    fill       values for the placeholders {...} in folder, files, source and the origin, beside {name} of the task,
               {file} and {part} (train or test) of the file

so that a task among a hundred of its kind takes a few lines.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from importlib import resources
from typing import Any

from alphabet_study.errors import StudyError
from alphabet_study.registry.task import DataFile, Task

SUITE_FILES = ("ucr.toml", "uea.toml", "general.toml")
NO_ORIGIN = "none"
_RANGE = re.compile(r"\[(\d+)-(\d+)\]")
_GEOMETRY = ("channels", "length", "outputs", "train_size", "test_size")
_OWN_KEYS = ("sha256", "contents", "embedded", "like")
_FILE_KEYS = ("folder", "files", "files_train", "files_test", "sha256", "contents", "origin", "fill")
_KNOWN = {field.name for field in fields(Task)} - {"name", *_GEOMETRY} | {"geometry", "like", *_FILE_KEYS}


def load_registry() -> dict[str, Task]:
    """All tasks by name, in the order of the suite files."""
    tasks: dict[str, Task] = {}
    for file in SUITE_FILES:
        text = resources.files("alphabet_study.registry").joinpath(file).read_text(encoding="utf-8")
        for task in parse_suite(text, file):
            if task.name in tasks:
                raise StudyError(f"{file}: task {task.name} is declared twice, first in suite {tasks[task.name].suite}")
            tasks[task.name] = task
    return tasks


def parse_suite(text: str, where: str) -> list[Task]:
    """The tasks that a suite's file declares; `where` names the file in errors."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{where}: not valid TOML, {error}") from error
    unknown = set(content) - {"defaults", "origins", "tasks"}
    if unknown:
        raise StudyError(
            f"{where}: unknown table [{sorted(unknown)[0]}]; a suite has [defaults], [origins] and [tasks.NAME]"
        )
    tables, origins = content.get("tasks", {}), content.get("origins", {})
    return [_task(name, _merged(name, tables, content.get("defaults", {}), where), origins, where) for name in tables]


def _merged(name: str, tables: Mapping[str, Any], defaults: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A task's table on top of that of the task that it is like, on top of the defaults."""
    table = tables[name]
    model = tables.get(table.get("like"), {})
    if ("like" in table and not model) or "like" in model:
        raise StudyError(
            f"{where}: task {name} is like {table['like']}, which is not declared here or like another itself"
        )
    inherited = {key: value for key, value in model.items() if key not in _OWN_KEYS}
    merged: dict[str, Any] = {**defaults, **inherited, **table}
    unknown = set(merged) - _KNOWN
    if unknown:
        raise StudyError(
            f"{where}: task {name} has the unknown key {sorted(unknown)[0]!r}; see alphabet_study.registry.loading"
        )
    merged["geometry"] = {
        key: value for part in (defaults, model, table) for key, value in part.get("geometry", {}).items()
    }
    merged.pop("like", None)
    if "no_reader" in table:
        merged.pop("reader", None)
    return merged


def _task(name: str, merged: dict[str, Any], origins: Mapping[str, Any], where: str) -> Task:
    geometry = merged.pop("geometry")
    odd = [key for key, value in geometry.items() if key not in _GEOMETRY or type(value) is not int or value < 1]
    if odd:
        raise StudyError(
            f"{where}: task {name}: geometry has {odd[0]} = {geometry[odd[0]]!r}; counts of {', '.join(_GEOMETRY)} only"
        )
    if "validation" in merged.get("options", {}):
        merged["options"] = {**merged["options"], "validation": list(_numbered(merged["options"]["validation"]))}
    declared = {key: merged.pop(key, None) for key in _FILE_KEYS}
    values = {"name": name, **(declared["fill"] or {})}
    merged["source"] = _filled(merged.get("source", ""), values, where, name)
    merged |= {key: geometry.get(key) for key in _GEOMETRY}
    merged |= _files(name, declared, values, origins, where)
    try:
        return Task(name=name, **merged)
    except TypeError as error:
        raise StudyError(f"{where}: task {name} lacks a field: {error}") from error


def _files(
    name: str, declared: Mapping[str, Any], values: Mapping[str, Any], origins: Mapping[str, Any], where: str
) -> dict[str, tuple[DataFile, ...]]:
    """The declared files of TRAIN and TEST, as arguments of `Task`."""
    origin = declared["origin"] or NO_ORIGIN
    if origin != NO_ORIGIN and origin not in origins:
        raise StudyError(
            f"{where}: task {name}: origin {origin!r} is not in [origins]: {', '.join(origins) or 'it is empty'}"
        )
    hashes = {kind: dict(declared[kind] or {}) for kind in ("sha256", "contents")}
    seen: set[str] = set()

    def build(part: str, file: str) -> DataFile:
        known = {**values, "part": part}
        known["file"] = _filled(file, known, where, name)
        seen.add(known["file"])
        published = {} if origin == NO_ORIGIN else origins[origin]
        return DataFile(
            path=f"{_filled(declared['folder'] or '', known, where, name)}/{known['file']}",
            **{kind: hashes[kind].get(known["file"]) for kind in hashes},
            **{key: _filled(template, known, where, name) for key, template in published.items()},
        )

    both = tuple(build("train", file) for file in _numbered(declared["files"]))
    train = tuple(build("train", file) for file in _numbered(declared["files_train"]))
    test = tuple(build("test", file) for file in _numbered(declared["files_test"]))
    stray = {file for table in hashes.values() for file in table} - seen
    if stray:
        raise StudyError(f"{where}: task {name} has a hash for {sorted(stray)[0]}, which is none of its files")
    return {"files_train": (*both, *train), "files_test": (*both, *test)}


def _numbered(names: Sequence[str] | None) -> Iterator[str]:
    """The names with one range such as [1-5] replaced by each of its numbers."""
    for name in names or ():
        match = _RANGE.search(name)
        if match is None:
            yield name
        else:
            first, last = map(int, match.groups())
            yield from (f"{name[: match.start()]}{number}{name[match.end() :]}" for number in range(first, last + 1))


def _filled(template: str, values: Mapping[str, Any], where: str, name: str) -> str:
    try:
        return template.format_map(values)
    except KeyError as error:
        raise StudyError(
            f"{where}: task {name}: nothing fills the placeholder {{{error.args[0]}}} of {template!r}"
        ) from error
