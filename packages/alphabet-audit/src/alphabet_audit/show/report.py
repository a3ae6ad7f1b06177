"""`alphabet-audit report RUN`: one page that needs no network, and the same table in Markdown."""

import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from alphabet_audit.declare.declarations import Declarations
from alphabet_audit.declare.designs import ALPHABET, PHASES, SAME_WIDTH
from alphabet_audit.errors import AuditError, escape_controls
from alphabet_audit.evidence.files import write_whole
from alphabet_audit.judge.evaluate import Evaluation, describe_count
from alphabet_audit.protocol.ratios import geometric_mean
from alphabet_audit.show import PAGE, TABLE
from alphabet_audit.show.paper import DEVICE, Paper, read_paper
from alphabet_audit.show.pictures import draw_intervals, draw_samples, shade
from alphabet_audit.show.results import Results, read_results

# The line by which a page says which code made it: `evaluate` compares this code's pages word by word. A change of a
# template or of a word raises the number.
REPORT_FORMAT = "alphabet-audit report 4"
PHASE_TITLES = {"inference": "Inference", "step": "Complete step"}


@dataclass(frozen=True)
class Entry:
    """One row as it is shown: the title of its family, and its ratio or why there is none. paper: the paper's ratio."""

    title: str
    ratio: float | None
    paper: float | None
    interval: tuple[float, float] | None = None
    milliseconds: tuple[float, float] | None = None
    execution: str = ""
    failure: str = ""
    picture: str = ""

    @property
    def color(self) -> str:
        """The background: the colour of the ratio, or white where there is none."""
        return shade(self.ratio) if self.ratio is not None else "#ffffff"


@dataclass(frozen=True)
class Line:
    """One line of a table: a design in one phase, with an entry for each family."""

    design: str
    entries: list[Entry]
    mean: float | None
    paper_mean: float | None


def write_report(run: Path, declarations: Declarations, out: Path) -> tuple[list[Path], Evaluation]:
    """Write the report of a run as HTML and as Markdown into a folder; returns both paths and the verdict."""
    results = read_results(run, declarations)
    pages = make_pages(results, declarations)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AuditError(f"{out} cannot be written ({error.strerror}); choose another --out") from error
    for name, content in pages.items():
        write_whole(out / name, content.encode())
    return [out / name for name in pages], results.evaluation


def make_pages(results: Results, declarations: Declarations) -> dict[str, str]:
    """The report's two pages by the names of their files."""
    context = make_context(results, read_paper(declarations.designs), dict(declarations.designs.families))
    return {PAGE: render_page("report.html", context), TABLE: make_markdown(context)}


def render_page(template: str, context: dict[str, Any]) -> str:
    """A page of HTML, in which whatever comes from evidence is escaped."""
    environment = Environment(
        loader=PackageLoader("alphabet_audit.show"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(context, style=read_style(), report_format=REPORT_FORMAT)


def read_style() -> Markup:
    """The style that all pages share."""
    return Markup((files("alphabet_audit.show") / "templates" / "style.css").read_text(encoding="utf-8"))


def make_context(results: Results, paper: Paper, titles: dict[str, str]) -> dict[str, Any]:
    """Everything that the page shows, by the names that its template uses."""
    lines = {
        phase: [make_line(results, paper, titles, design, phase) for design in results.designs] for phase in PHASES
    }
    nulls = [row for row in results.nulls if "interval" in row]
    inside = sum(row["interval"][0] <= 1.0 <= row["interval"][1] for row in nulls)
    return {
        "manifest": results.manifest,
        "device": f"{results.device}{results.evaluation.restriction}",
        "device_name": results.manifest["environment"]["device"].get("name", "unnamed"),
        "paper_device": DEVICE,
        "evaluation": results.evaluation,
        "families": list(titles.values()),
        "phase_titles": PHASE_TITLES,
        "phases": lines,
        "noise": draw_intervals(nulls) if nulls else "",
        "noise_inside": inside,
        "noise_rows": len(nulls),
        "headline": make_headline(lines),
        "parity": results.parity,
        "environment": flatten(results.manifest["environment"], skip=("imports",)),
        "imports": results.manifest["environment"].get("imports", {}),
        "phase_headlines": {PHASE_TITLES[phase]: each for phase, each in results.evaluation.headlines.items()},
        "remarks_counted": describe_count(len(results.evaluation.remarks), "remarks"),
        "cells": results.manifest["cells"],
        "titles": {ALPHABET: "ALPHABET", **titles},
    }


def make_line(results: Results, paper: Paper, titles: dict[str, str], design: str, phase: str) -> Line:
    """The line of a design in one phase."""
    entries = [make_entry(results, paper, design, family, title, phase) for family, title in titles.items()]
    ratios = [entry.ratio for entry in entries if entry.ratio is not None]
    # A mean over fewer families than were planned would be another number under the same name.
    mean = geometric_mean(ratios) if len(ratios) == len(entries) else None
    return Line(design, entries, mean, paper.mean(design, phase))


def make_entry(results: Results, paper: Paper, design: str, family: str, title: str, phase: str) -> Entry:
    """The entry of a family in a line, with its raw samples if it was timed."""
    published, row = paper.ratio(design, family, phase), results.rows.get((design, family, phase))
    if row is None or "ratio" not in row:
        failure = "not run" if row is None else f"{row['status']}: {row['error']}"
        return Entry(title, None, published, failure=failure)
    start, groups = results.starts.get(row["key"]), results.groups.get(row["key"])
    if start is None or groups is None:
        return Entry(title, None, published, failure="its samples are missing")
    caption = f"{design}, {title}, {phase}: milliseconds per call, block by block"
    return Entry(
        title,
        row["ratio"],
        published,
        (row["interval"][0], row["interval"][1]),
        (1e3 * row["seconds"]["A"], 1e3 * row["seconds"]["B"]),
        start["execution"],
        picture=draw_samples(groups, caption),
    )


def make_headline(lines: dict[str, list[Line]]) -> list[dict[str, Any]]:
    """The geometric means of the same-width design, which the paper quotes first, for phases that have all families."""
    return [
        {"phase": PHASE_TITLES[phase], "mean": line.mean, "paper": line.paper_mean, **without_largest(line)}
        for phase, found in lines.items()
        for line in found
        if line.design.startswith(SAME_WIDTH) and line.mean is not None
    ]


def without_largest(line: Line) -> dict[str, Any]:
    """The geometric mean of a line that is timed whole without its largest ratio, and whose that is."""
    *rest, largest = sorted((entry.ratio, entry.title) for entry in line.entries if entry.ratio is not None)
    return {"trimmed": geometric_mean([ratio for ratio, _ in rest]), "largest": f"{largest[1]}, {largest[0]:.1f}x"}


def flatten(fields: dict[str, Any], skip: tuple[str, ...] = (), prefix: str = "") -> list[tuple[str, str]]:
    """Nested fields as names and values, one pair per line of a table."""
    found = []
    for name, value in fields.items():
        if name in skip:
            continue
        if isinstance(value, dict):
            found += flatten(value, prefix=f"{prefix}{name}: ")
        else:
            found.append((f"{prefix}{name}", "not available" if value is None else str(value)))
    return found


def make_markdown(context: dict[str, Any]) -> str:
    """The report as Markdown: a table per phase with this device's ratios, and the paper's in brackets."""
    manifest, evaluation = context["manifest"], context["evaluation"]
    git = manifest["environment"]["git"] or {}
    lines = [
        f"<!-- {REPORT_FORMAT} -->",
        f"Measured on **{context['device']}** ({quote(context['device_name'])}), {quote(manifest['created'][:10])}, "
        f"commit {quote(str(git.get('commit'))[:12])}; status={evaluation.status}, "
        f"scope={quote(evaluation.scope or 'unknown')}, evidence of version {evaluation.version}.",
        "A ratio is a family's time divided by ALPHABET's; "
        f"in brackets the paper's, measured on an {DEVICE}, another device.",
        "",
        *(f"- {title}: {quote(each.describe())}" for title, each in context["phase_headlines"].items()),
        *(
            f"- {each['phase']} at the same width: geometric mean {each['mean']:.2f}x; without the largest "
            f"({quote(each['largest'])}) {each['trimmed']:.2f}x"
            for each in context["headline"]
        ),
        *([f"- Both phases: {quote(evaluation.total.describe())}"] if evaluation.total else []),
    ]
    for phase, rows in context["phases"].items():
        lines += ["", f"### {PHASE_TITLES[phase]} ({context['device']})", ""]
        lines.append(f"| design B/T/D | {' | '.join(map(quote, context['families']))} | geometric mean |")
        lines.append("|---" * (2 + len(context["families"])) + "|")
        for row in rows:
            cells = [write_pair(entry.ratio, entry.paper) for entry in row.entries]
            lines.append(f"| {quote(row.design)} | {' | '.join(cells)} | {write_pair(row.mean, row.paper_mean)} |")
    inside, count = context["noise_inside"], context["noise_rows"]
    counts = evaluation.counts
    lines += ["", f"Noise: ALPHABET against itself has 1.0 inside its interval in {inside} of {count} rows."]
    lines.append(f"Sessions: {counts.get('sessions', 0)}, rows resumed: {counts.get('resumes', 0)}.")
    lines += ["", "Worth a look:", ""] if evaluation.remarks else []
    lines += [f"- {quote(remark.describe())}" for remark in evaluation.remarks]
    lines += ["", f"Last record: `{manifest['head']}`, number {manifest['records']}."]
    return "\n".join(lines) + "\n"


def quote(text: str) -> str:
    """A text of evidence in Markdown, without effect: neither markup nor HTML nor a new line or column."""
    return re.sub(r"([\\`*_\[\]<>|&])", r"\\\1", escape_controls(text))


def write_pair(ratio: float | None, paper: float | None) -> str:
    """A ratio, and the paper's in brackets if it has one."""
    mine = "failed" if ratio is None else f"{ratio:.2f}"
    return mine if paper is None else f"{mine} ({paper:.2f})"
