"""The page of the gallery, written from its two tables."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import tables
from modules import MODULES, find_digest
from notes import CAUSES, KNOWN_RACES, REFUSALS, explain
from review import GROUPS
from triton_tests import FILES
from triton_tests import find_digest as find_tests_digest

HEAD = """# alphabet-ptx on other people's kernels

Launchers of public packages, unmodified, called on CPU tensors inside `ptx_device`: Triton compiles their kernels for
{arch}, and alphabet-ptx executes the PTX. Every result and gradient is compared with a definition in float64.
Written by `nox -s ptx-gallery` from `packages/alphabet-ptx/gallery`; do not edit.

An error is the largest difference from the definition, as a part of the definition's largest entry. The tolerance of a
case follows from the precision in which its kernels compute: {fp32:.0e} in float32, {tf32:.0e} where tensor cores cut
float32 operands to 11 bits (tf32), {bf16:.0e} in bfloat16, and none where nothing is rounded.
"""

REVIEW = """\
A review before this package had a driver launched 66 of other people's launchers by a trial, and 53 were right (its
table adds up to 67). It names groups and subjects, not calls, so its launches cannot be found one by one; below, each
group stands beside all rows of its packages. Counted are the group's launches less one for every row here that is not
right, as if each such row were one of the review's: the least that can be said."""


def write_page(path: Path) -> None:
    """Write the page, with what the tables hold."""
    from case import BF16, FP32, TF32

    cases, tests = tables.read(tables.HERE / "gallery.csv"), tables.read(tables.HERE / "triton_tests.csv")
    parts = [HEAD.format(arch="sm_89", fp32=FP32, tf32=TF32, bf16=BF16)]
    if cases:
        parts += [
            "## Launchers",
            *tell_age(cases, {find_digest(module) for module in MODULES}),
            *summarize(cases),
            "",
            *compare_with_review(cases),
            "",
            *detail(cases),
        ]
        parts += [*list_faults(cases), *list_races(cases)]
    if tests:
        parts += ["", "## Triton's own tests", *summarize_tests(tests)]
    path.write_text("\n".join(parts).rstrip() + "\n", encoding="utf-8")


def row_of(*cells: object) -> str:
    """One line of a table."""
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def head(*cells: str) -> list[str]:
    """The two lines above a table's rows."""
    return ["", row_of(*cells), "|" + "---|" * len(cells)]


def group(rows: Iterable[dict[str, str]], key: str) -> dict[str, list[dict[str, str]]]:
    """The rows by the value of a column, in their order."""
    groups: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        groups.setdefault(row[key], []).append(row)
    return groups


def tell_age(rows: list[dict[str, str]], digests: set[str]) -> list[str]:
    """How many rows are older than the code, if any are."""
    old = sum(row["digest"] not in digests for row in rows)
    return ["", f"{old} of these {len(rows)} rows are older than the package as it is now."] if old else []


def good(row: dict[str, str]) -> bool:
    """Whether a case did what it should: right, or refused for a fault of its own that is known."""
    return row["outcome"] in ("right", "fault found")


def summarize(cases: list[dict[str, str]]) -> list[str]:
    """Per source how many cases are right."""
    lines = head("source", "version", "right, of", "launches", "largest error in float32", "largest error otherwise")
    for source, rows in group(cases, "source").items():
        errors: dict[bool, list[float]] = {True: [], False: []}
        for row in rows:
            if row["outcome"] == "right":
                errors[float(row["tolerance"]) <= 1e-5].append(float(row["error"]))
        largest = [f"{max(errors[kind]):.0e}" if errors[kind] else "" for kind in (True, False)]
        count = f"{sum(map(good, rows))} of {len(rows)}"
        lines.append(row_of(source, rows[0]["version"], count, sum(int(row["launches"]) for row in rows), *largest))
    total = f"**{sum(map(good, cases))} of {len(cases)}**"
    return [*lines, row_of("all", "", total, sum(int(row["launches"]) for row in cases), "", "")]


def compare_with_review(cases: list[dict[str, str]]) -> list[str]:
    """The groups of the review beside the rows that stand for them.

    A group counts as far as its rows are right, and at most for the launches that the review had.
    """
    lines = ["### Beside the review", "", *REVIEW.splitlines()]
    lines += head(
        "the review's group", "right then, of", "rows here", "right now, of", "counted", "what stands for what"
    )
    counted = 0
    for name, count, right, sources, note in GROUPS:
        rows = [row for row in cases if row["source"] in sources]
        good_rows = sum(map(good, rows))
        # As many as the review had, less those that are not right here.
        covered = max(0, min(count, good_rows, count - (len(rows) - good_rows)))
        counted += covered
        shown = ", ".join(sources)
        lines.append(row_of(name, f"{right} of {count}", shown, f"{good_rows} of {len(rows)}", covered, note))
    total = sum(count for _, count, *_ in GROUPS)
    before = sum(right for _, _, right, *_ in GROUPS)
    lines.append(row_of("all", f"{before} of {total}", "", "", f"**{counted} of {total}**", ""))
    return lines


def detail(cases: list[dict[str, str]]) -> list[str]:
    """Every case."""
    lines = head("source", "case", "outcome", "error", "tolerance", "launches", "instructions", "kernels with races")
    for row in cases:
        tolerance = f"{float(row['tolerance']):.0e}" if float(row["tolerance"]) else "exact"
        raced = ", ".join(f"`{name}`" for name in row["raced"].split())
        numbers = (row["launches"], f"{int(row['steps']):,}")
        lines.append(row_of(row["source"], row["name"], row["outcome"], row["error"], tolerance, *numbers, raced))
    return lines


def list_faults(cases: list[dict[str, str]]) -> list[str]:
    """What is not right, and why."""
    lines = ["", "### Refused, wrong, or a fault of the source"]
    for row in cases:
        if row["reason"]:
            why = REFUSALS.get((row["source"], row["name"]))
            told = f" {why}." if why else ""
            lines.append(f"- {row['source']}, {row['name']} ({row['outcome']}).{told} `{row['reason'][:300]}`")
    return lines if len(lines) > 2 else []


def list_races(cases: list[dict[str, str]]) -> list[str]:
    """The kernels that raced, with what is known of each."""
    kernels = sorted({name for row in cases for name in row["raced"].split()})
    lines = ["", "### Races"]
    lines += [f"- `{name}`: {KNOWN_RACES.get(name, 'not looked into')}" for name in kernels]
    return lines if kernels else []


def summarize_tests(tests: list[dict[str, str]]) -> list[str]:
    """Per file of tests how they ended; then every failure by its cause."""
    lines = [
        "",
        "Of each test function in these files at most three parametrizations: the first, the middle one and the last.",
        "Skipped is what Triton itself skips on this architecture. `Ours` are failures that alphabet-ptx causes.",
    ]
    ran = {row["test"].partition("::")[0] for row in tests}
    missing = [name for name in (file.rpartition("/")[2].partition("::")[0] for file in FILES) if name not in ran]
    if missing:
        lines.append(f"Not run yet: {', '.join(missing)}.")
    lines += tell_age(tests, {find_tests_digest()})
    lines += head("file", "passed", "failed", "of these ours", "skipped", "left out")
    files: dict[str, Counter[str]] = {}
    causes: dict[str, list[str]] = {}
    for row in tests:
        count = files.setdefault(row["test"].partition("::")[0], Counter())
        outcome = "failed" if row["outcome"] == "crashed" else row["outcome"]
        count[outcome] += 1
        if outcome == "failed":
            cause = explain(row["test"], row["reason"])
            count["ours"] += CAUSES[cause]
            causes.setdefault(cause, []).append(row["test"])
    total: Counter[str] = Counter()
    for name, count in files.items():
        total += count
        lines.append(row_of(name, count["passed"], count["failed"], count["ours"], count["skipped"], count["left out"]))
    lines.append(row_of("all", *(total[each] for each in ("passed", "failed", "ours", "skipped", "left out"))))
    concerned = total["passed"] + total["ours"]
    lines += ["", f"Of the {concerned} that concern a device, {100 * total['passed'] / concerned:.1f} % pass.", ""]
    for cause, names in sorted(causes.items(), key=lambda item: (not CAUSES[item[0]], -len(item[1]))):
        shown = ", ".join(f"`{name}`" for name in names)
        lines.append(f"- {cause} ({'ours' if CAUSES[cause] else 'not ours'}, {len(names)}): {shown}")
    return lines
