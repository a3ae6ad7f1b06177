"""The manifest of a run: all that is settled before its first record."""

from datetime import UTC, datetime
from typing import Any

from alphabet_audit.declare.declarations import Declarations
from alphabet_audit.evidence.chain import VERSION


def make_manifest(
    kind: str,
    device: str,
    environment: dict[str, Any],
    declarations: Declarations,
    *,
    plan: dict[str, Any] | None = None,
    cells: dict[str, Any] | None = None,
    compiled: bool = False,
) -> dict[str, Any]:
    """The manifest of a new run. When the run is resumed, only `created` may differ."""
    return {
        "version": VERSION,
        "kind": kind,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": device,
        "environment": environment,
        "plan": plan or {},
        "cells": cells or {},
        "declarations": declarations.digests,
        "compiled": compiled,
    }
