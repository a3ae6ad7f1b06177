"""Where the checkout's files are, for tests that read pages, declarations or data."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
AUDIT = ROOT / "audit"
DOCS = ROOT / "docs"
