"""The report says what the evidence says, names its device everywhere, and needs nothing from elsewhere."""

import html.parser
import io
import re
import xml.etree.ElementTree
from dataclasses import replace

import pytest
from alphabet_audit import AuditError, geometric_mean, read_declarations
from alphabet_audit.declare.declarations import FILES
from alphabet_audit.evidence.chain import RECORDS, read_records
from alphabet_audit.judge.evaluate import describe_count
from alphabet_audit.show.compare import compare_runs, compare_with_paper, comparison_table, write_comparison
from alphabet_audit.show.pictures import draw_samples, shade
from alphabet_audit.show.report import write_report
from alphabet_testing.audit.evidence_copy import read_run
from alphabet_testing.audit.fake_bench import ENVIRONMENT, FakeBench, run_fake
from rich.console import Console

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Outline(html.parser.HTMLParser):
    """Tags that are opened and closed in order, the addresses that are named, and the text."""

    def __init__(self):
        super().__init__()
        self.open, self.addresses, self.text = [], [], []

    def handle_starttag(self, tag, attributes):
        self.addresses += [value for name, value in attributes if name in ("src", "href", "xlink:href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.addresses += [value for name, value in attributes if name in ("src", "href", "xlink:href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def outline(page):
    found = Outline()
    found.feed(page)
    assert found.open == []
    return found


@pytest.fixture(scope="module")
def page(whole_run, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    write_report(whole_run, read_declarations(), out)
    return out


def test_the_page_is_well_formed_and_stands_alone(page):
    text = (page / "report.html").read_text()
    found = outline(text)
    assert found.addresses == []
    assert not re.findall(r"https?://|@import|url\(|<script", text)
    pictures = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    assert len(pictures) == 181  # every phase row's samples, and the noise
    for picture in pictures:
        xml.etree.ElementTree.fromstring(picture)


def test_every_cell_stands_with_the_papers_value_and_both_devices(page, whole_run):
    text = " ".join("".join(outline((page / "report.html").read_text()).text).split())
    assert "status=pass" in text
    assert "Measured on cpu: a processor that does not exist" in text
    assert text.count("RTX 4090") >= 3
    rows = [r for r in read_records((whole_run / RECORDS).read_bytes(), "here") if r["kind"] == "row"]
    for row in rows:
        if row["opponent"] != "alphabet":
            assert f"{row['ratio']:.2f}" in text
    assert "44.38" in text  # the paper's largest ratio


def test_the_markdown_has_a_line_per_design_and_names_devices(page):
    text = (page / "report.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith(("| parameter-matched", "| same-width"))]
    assert len(lines) == 20
    assert all(line.count("|") == 12 for line in lines)
    assert "Measured on **cpu**" in text
    assert "RTX 4090, another device" in text
    assert "(5.02)" in text
    assert "(3.93)" in text


def test_means_stand_with_and_without_the_largest_cell(page, whole_run):
    """Of both phases together a cell is two rows, of which the larger says which cell it is."""
    rows = [r for r in read_records((whole_run / RECORDS).read_bytes(), "here") if r["kind"] == "row"]
    rows = [row for row in rows if row["opponent"] != "alphabet"]
    cell = max(rows, key=lambda row: row["ratio"])
    rest = [r["ratio"] for r in rows if (r["design"], r["opponent"]) != (cell["design"], cell["opponent"])]
    assert len(rest) == 178
    above = sum(row["ratio"] > 1.0 for row in rows)
    without = f"{geometric_mean(rest):.2f}"
    (line,) = [each for each in (page / "report.md").read_text().splitlines() if each.startswith("- Both phases")]
    assert f"above one in {above} of 180 rows; without the largest cell ({cell['opponent']} at " in line
    assert line.endswith(f" {without}x")
    html = " ".join((page / "report.html").read_text().split())
    assert f"Above one<b>{above} of 180 rows</b>" in html
    assert f"both phases: {without}×" in html
    same = [r["ratio"] for r in rows if (r["design"].split()[0], r["phase"]) == ("same-width", "step")]
    assert len(same) == 9
    shown = f"same width: geometric mean {geometric_mean(same):.2f}x; without the largest "
    assert shown in (page / "report.md").read_text()
    assert f"{geometric_mean(sorted(same)[:-1]):.2f}×" in html


def test_failures_and_reasons_are_shown(tmp_path):
    broken = "same-width 32/512/64 s5 step"
    declarations = run_fake(tmp_path, "same-width", crashing={broken})
    write_report(tmp_path, declarations, tmp_path)
    text = " ".join((tmp_path / "report.html").read_text().split())
    assert "status=fail" in text
    assert "out of memory" in text
    assert "Complete step, same width" not in text  # no mean over eight of nine
    assert "Inference, same width" in text


def test_what_evidence_says_cannot_become_markup(tmp_path):
    environment = {**ENVIRONMENT, "device": {"type": "cpu", "name": "<script>alert(1)</script>", "cores": 2}}
    declarations = run_fake(tmp_path, "same-width", environment=environment)
    write_report(tmp_path, declarations, tmp_path)
    assert "<script>" not in (tmp_path / "report.html").read_text()


def test_a_ratio_without_its_samples_is_not_shown(tmp_path):
    declarations = run_fake(tmp_path, "same-width")
    run = read_run(tmp_path, FILES)
    lost = "same-width 32/512/64 gru step"
    run.records = [each for each in run.records if (each["kind"], each.get("key")) != ("group", lost)]
    run.write(tmp_path)
    write_report(tmp_path, declarations, tmp_path)
    assert "its samples are missing" in (tmp_path / "report.html").read_text()


def test_a_damaged_run_has_no_report(tmp_path):
    declarations = run_fake(tmp_path, "same-width")
    run = read_run(tmp_path, FILES)
    run.records[40].pop("key")
    run.write(tmp_path)
    with pytest.raises(AuditError, match=r"is damaged: record 40 \(\w+\) has no key"):
        write_report(tmp_path, declarations, tmp_path)


def test_only_a_ledger_has_a_report(tmp_path):
    with pytest.raises(AuditError, match="is not the folder of a run"):
        write_report(tmp_path, read_declarations(), tmp_path)


def test_one_of_anything_is_counted_in_the_singular():
    assert [describe_count(count, "sessions") for count in (0, 1, 2)] == ["0 sessions", "1 session", "2 sessions"]
    assert describe_count(1, "gates not run") == "1 gate not run"
    assert describe_count(1260, "groups") == "1,260 groups"


def test_tables_repeat_their_heads_on_paper_and_samples_do_not_need_colour(page):
    text = (page / "report.html").read_text()
    tables = re.findall(r"<table.*?</table>", text, flags=re.DOTALL)
    assert len(tables) == 5
    assert all("<thead>" in table for table in tables)
    dots, rings = (set(re.findall(pattern, text)) for pattern in (r'r="2\.2" fill="(#\w+)"', r'fill="(none)" stroke'))
    assert len(dots) == len(rings) == 1


def test_colours_are_white_at_one_and_symmetric():
    assert shade(1.0) == "#ffffff"
    assert shade(16.0) == shade(100.0) != shade(1 / 16) == shade(0.001)


def test_every_block_is_a_dot():
    groups = [
        {"number": n, "order": "ABBA", "seconds": [0.02, 0.05, 0.05, 0.02], "repeats": {"A": 2, "B": 1}}
        for n in range(7)
    ]
    picture = draw_samples(groups, "a caption")
    assert picture.count("<circle") == 28
    heights = set(re.findall(r'cy="([\d.]+)"', picture))
    assert len(heights) == 2


class Slower(FakeBench):
    """One family takes twice as long."""

    def prepare(self, row, execution):
        found = super().prepare(row, execution)
        return replace(found, seconds=found.seconds * (2.0 if row.family == "gru" else 1.0))


def test_a_comparison_marks_what_noise_does_not_explain(tmp_path, whole_run):
    declarations = run_fake(tmp_path / "one", "same-width")
    environment = {**ENVIRONMENT, "versions": {**ENVIRONMENT["versions"], "torch": "2.14.0"}}
    run_fake(tmp_path / "two", "same-width", environment=environment, bench=Slower)
    found = compare_runs([tmp_path / "one", tmp_path / "two"], declarations)
    assert {change.family for change in found.changes if change.clear} == {"gru"}
    assert len(found.changes) == 18
    assert all(
        change.factor == pytest.approx(2.0 if change.family == "gru" else 1.0, rel=0.02) for change in found.changes
    )
    assert "versions: torch: 2.13.0 -> 2.14.0" in found.remarks
    console = Console(width=130, record=True, file=io.StringIO())
    console.print(comparison_table(found))
    assert console.export_text().count("changed") == 2


def test_a_run_with_fewer_rows_is_compared_where_both_have_one(tmp_path, whole_run):
    declarations = run_fake(tmp_path, "same-width")
    found = compare_runs([whole_run, tmp_path], declarations)
    assert len(found.changes) == 180
    assert sum(change.factor is not None for change in found.changes) == 18


def test_runs_of_different_devices_are_not_compared_as_if_they_were_one(tmp_path):
    declarations = run_fake(tmp_path / "one", "same-width")
    device = {**ENVIRONMENT["device"], "name": "another processor"}
    run_fake(tmp_path / "two", "same-width", environment={**ENVIRONMENT, "device": device}, bench=Slower)
    folders = [tmp_path / "one", tmp_path / "two"]
    with pytest.raises(AuditError, match=r"different devices: .*another processor.*--across-devices"):
        compare_runs(folders, declarations)
    found = compare_runs(folders, declarations, across_devices=True)
    assert not any(change.clear for change in found.changes)
    assert all(step.seconds is None for change in found.changes for step in change.steps)


def test_a_trend_shows_every_run_and_where_it_changed(tmp_path):
    declarations = run_fake(tmp_path / "1", "same-width")
    run_fake(tmp_path / "2", "same-width", bench=Slower)
    run_fake(tmp_path / "3", "same-width", bench=Slower)
    found = compare_runs([tmp_path / name for name in "123"], declarations)
    gru = next(change for change in found.changes if (change.family, change.phase) == ("gru", "step"))
    assert len(gru.ratios) == 3
    assert [step.clear for step in gru.steps] == [True, False]
    text = write_comparison(found, tmp_path / "page").read_text()
    assert outline(text).addresses == []
    assert text.count('class="changed"') == 2


def test_a_run_stands_beside_the_papers_table_with_both_devices_named(whole_run):
    found = compare_with_paper(whole_run, read_declarations())
    assert len(found.changes) == 180
    assert found.names == ["paper, RTX 4090", "run, cpu"]
    assert max(change.ratios[0] for change in found.changes) == 44.38
    assert not any(change.clear for change in found.changes)
