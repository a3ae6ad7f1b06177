"""The tables of a store, and what its file says about itself."""

import sqlite3

APPLICATION_ID = 0x414C5342  # "ALSB": marks the file as a store of this package
VERSION = 1

TABLES = """
-- What was settled when the store was created: settings (JSON and digest), created, package versions, source digest.
CREATE TABLE manifest (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

-- The digest of every task's files, as they were when the first of its fits was planned.
CREATE TABLE data (
    task TEXT NOT NULL, part TEXT NOT NULL CHECK (part IN ('train', 'test')), digest TEXT NOT NULL,
    PRIMARY KEY (task, part)
) WITHOUT ROWID;

-- One line per task and family whose TEST was opened, and under which frozen configuration.
CREATE TABLE openings (
    task TEXT NOT NULL, family TEXT NOT NULL, frozen TEXT NOT NULL, candidate TEXT NOT NULL, epochs INTEGER,
    opened TEXT NOT NULL,
    PRIMARY KEY (task, family)
) WITHOUT ROWID;

CREATE TABLE fits (
    task TEXT NOT NULL, family TEXT NOT NULL, stage TEXT NOT NULL CHECK (stage IN ('screen', 'confirm', 'final')),
    slot INTEGER NOT NULL, seed INTEGER NOT NULL,
    candidate TEXT NOT NULL, train_epochs INTEGER, frozen TEXT CHECK ((stage = 'final') = (frozen IS NOT NULL)),
    status TEXT NOT NULL CHECK (status IN ('done', 'diverged', 'failed')), reason TEXT,
    score REAL, validation_loss REAL, best_epoch INTEGER, epochs INTEGER, parameters INTEGER, path TEXT,
    test TEXT NOT NULL,
    seconds REAL NOT NULL, finished TEXT NOT NULL, machine TEXT NOT NULL, sources TEXT NOT NULL,
    PRIMARY KEY (task, family, stage, slot, seed)
) WITHOUT ROWID;
"""

# The cells that `run` was asked for, begun or not. Stores of earlier versions have no such table: for them it is empty.
PLANNED = """
CREATE TABLE IF NOT EXISTS planned (
    task TEXT NOT NULL, family TEXT NOT NULL,
    PRIMARY KEY (task, family)
) WITHOUT ROWID;
"""


def create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables of an empty store inside the caller's transaction."""
    for statement in TABLES.split(";"):
        if statement.strip():
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
