"""Whether the report beside some evidence is the evidence's own: word by word, or by its ratios if it is older."""

import html.parser
import os
import re
from pathlib import Path

from alphabet_audit.declare.declarations import Declarations
from alphabet_audit.declare.designs import PHASES
from alphabet_audit.errors import printable
from alphabet_audit.evidence.files import read_bounded
from alphabet_audit.show import PAGE, TABLE
from alphabet_audit.show.report import REPORT_FORMAT, make_pages
from alphabet_audit.show.results import Results

LARGEST_REPORT = 1 << 26
# Pages of runs of version 1 may be older than the line that says which code made them.
MADE_BY = re.compile(r"alphabet-audit report [0-9]{1,3}\b")


class Rows(html.parser.HTMLParser):
    """The rows of all tables of a page, each entry with its small print in brackets."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._path: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")
        self._path.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._path and self._path.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1] and {"td", "th"} & set(self._path):
            self.rows[-1][-1] += f" ({data})" if self._path[-1] == "small" else data


def check_report(run: Path, results: Results, declarations: Declarations) -> tuple[list[str], list[str]]:
    """What can be said of the reports in a run's folder: reasons against them, and what was found right."""
    wrong, right = [], []
    for name, wanted in make_pages(results, declarations).items():
        if not os.path.lexists(run / name):
            continue
        found = read_bounded(run / name, LARGEST_REPORT).decode(errors="replace")
        if found.split() == wanted.split():
            right.append(f"{name} is what this evidence gives")
        elif REPORT_FORMAT in found or (results.manifest["version"] > 1 and MADE_BY.search(found) is None):
            wrong.append(f"{name} is not what this evidence gives: {first_difference(found, wanted)}")
        elif (difference := compare_tables(name, found, wanted, results.designs)) is not None:
            wrong.append(f"{name} does not show what this evidence gives: {difference}")
        else:
            right.append(
                f"{name} was written by another version: its ratios are this evidence's, its words not compared"
            )
    return wrong, right


def first_difference(found: str, wanted: str) -> str:
    """The first word in which two texts differ, in words."""
    for number, (one, other) in enumerate(zip(found.split(), wanted.split(), strict=False)):
        if one != other:
            return f"word {number + 1} is {printable(one)} in place of {printable(other)}"
    return "one of them is longer"


def compare_tables(name: str, found: str, wanted: str, designs: list[str]) -> str | None:
    """The first difference between the ratios that two pages show, or None."""
    read = {PAGE: read_html, TABLE: read_markdown}[name]
    rows, expected = (read(text, designs) for text in (found, wanted))
    if len(rows) != len(expected):
        return f"it has {len(rows)} lines of designs; there are {len(expected)}"
    for one, other in zip(rows, expected, strict=True):
        if one != other:
            return f"{printable(' | '.join(one), 200)} in place of {printable(' | '.join(other), 200)}"
    return None


def read_html(text: str, designs: list[str]) -> list[list[str]]:
    """The rows of the ledger's tables on a page: one per phase and design."""
    page = Rows()
    page.feed(text)
    rows = [[" ".join(entry.split()) for entry in row] for row in page.rows]
    return [row for row in rows if row and row[0] in designs][: len(PHASES) * len(designs)]


def read_markdown(text: str, designs: list[str]) -> list[list[str]]:
    """The rows of the ledger's tables in Markdown."""
    lines = [line.strip().strip("|") for line in text.splitlines() if line.startswith("| ")]
    rows = [[re.sub(r"\\(.)", r"\1", entry.strip()) for entry in line.split(" | ")] for line in lines]
    return [row for row in rows if row[0] in designs]
