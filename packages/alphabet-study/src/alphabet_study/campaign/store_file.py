"""A store as a file: how it is opened and created, of which kind it is, and what was settled at its creation."""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from alphabet_study.campaign.clock import utc_now
from alphabet_study.campaign.schema import APPLICATION_ID, PLANNED, VERSION, create_tables
from alphabet_study.errors import StudyError
from alphabet_study.protocol.settings import Settings


def connect_to_write(path: Path) -> sqlite3.Connection:
    """A connection to the file, which is created if there is none."""
    return _connect(path, "rwc")


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection that cannot write; another process may be writing."""
    try:
        connection = _connect(path, "ro")
        connection.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError:
        if path.with_name(path.name + "-wal").exists():
            raise
        # A folder in which no lock file can be made: nobody can write there either.
        connection = _connect(path, "ro&immutable=1")
    return connection


def prepare(path: Path, connection: sqlite3.Connection, settings: Settings, environment: Mapping[str, Any]) -> None:
    """Create the tables and the manifest of a new store; refuse a damaged file and a store of other settings."""
    execute = connection.execute
    if not execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        execute("PRAGMA journal_mode = WAL")
        with connection:
            execute("BEGIN IMMEDIATE")
            create_tables(connection)
            manifest = {"settings": asdict(settings), "settings_digest": settings.digest(), "created": utc_now()}
            for name, value in {**manifest, **environment}.items():
                execute("INSERT INTO manifest VALUES (?, ?)", (name, json.dumps(value)))
    check_kind(path, connection)
    execute("PRAGMA synchronous = FULL")
    for (finding,) in execute("PRAGMA quick_check(1)"):
        if finding != "ok":
            raise sqlite3.DatabaseError(finding)
    _check_settings(path, read_manifest(connection), settings)
    execute(PLANNED)


def check_kind(path: Path, connection: sqlite3.Connection) -> None:
    """Refuse a database that is no store, or a store of another version."""
    kind = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if kind != APPLICATION_ID:
        raise StudyError(f"{path}: this file is a database, but no store of alphabet-study; name another file")
    if version != VERSION:
        raise StudyError(
            f"{path}: this store has schema version {version}, and this alphabet-study reads version {VERSION}: use "
            "the version that wrote it to `export`, and `import` the CSV into a new store"
        )


def read_manifest(connection: sqlite3.Connection) -> dict[str, Any]:
    """What was settled when the store was created."""
    rows = connection.execute("SELECT name, value FROM manifest").fetchall()
    return {name: json.loads(value) for name, value in rows}


def settings_of(values: Mapping[str, Any]) -> Settings:
    """The settings that were written as JSON, where tuples are lists."""
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }
    return Settings(**fields)


def refuse_folder(path: Path) -> None:
    """Refuse a path at which a store cannot be, because a folder is there."""
    if path.is_dir():
        raise StudyError(f"{path} is a folder; a store is a file: name one by --store, such as {path / 'small.sqlite'}")


def _check_settings(path: Path, manifest: Mapping[str, Any], settings: Settings) -> None:
    if manifest["settings_digest"] == settings.digest():
        return
    mine, theirs = json.loads(json.dumps(asdict(settings))), manifest["settings"]
    differing = [
        f"{name} {theirs.get(name)} there, {mine[name]} here" for name in mine if theirs.get(name) != mine[name]
    ]
    raise StudyError(
        f"{path}: this store holds a campaign with other settings ({'; '.join(differing)}): "
        "use the same --settings as before, or another --store"
    )


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, timeout=60.0
    )
    connection.row_factory = sqlite3.Row
    return connection
