"""What evidence holds is text on every page, and nothing is written through a link (points 7 and 8)."""

import pytest
from alphabet_audit import AuditError
from alphabet_audit.declare.declarations import FILES
from alphabet_audit.evidence.chain import RECORDS
from alphabet_testing.audit.commands import command
from alphabet_testing.audit.evidence_copy import read_run
from alphabet_testing.audit.fake_bench import run_fake
from alphabet_testing.audit.scripted_run import SCRIPT, find_active_markup, plant_scripts


def test_point_7_a_script_in_every_string_becomes_no_markup(part):
    """Strings of records and manifest, wherever their forms allow any words; the run fails, and its page shows why."""
    plant_scripts(part)
    assert command("report", part).exit_code == 1
    page = (part / "report.html").read_text()
    assert page.count("alert(") > 30
    assert find_active_markup(page) == set()
    assert "Content-Security-Policy" in page
    assert "default-src 'none'" in page
    assert "<script" not in (part / "report.md").read_text().replace("\\<", "")
    assert command("compare", part, part, "--out", part).exit_code == 0
    assert find_active_markup((part / "compare.html").read_text()) == set()


def test_point_7_a_script_in_the_design_of_a_null_row_becomes_no_markup(part):
    """As it was found: the picture of the noise wrote it as it stood."""
    run = read_run(part, FILES)
    for record in run.records:
        if record["kind"] == "row" and record["opponent"] == "alphabet":
            record["design"] += SCRIPT
    run.write(part)
    command("report", part)
    page = (part / "report.html").read_text()
    assert "&lt;script&gt;alert" in page[page.index('aria-label="noise"') :]
    assert find_active_markup(page) == set()


@pytest.mark.parametrize("name", ["report.html", "report.md"])
def test_point_8_a_link_under_a_drafts_name_is_not_written_through(name, part, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (part / f"{name}.draft").symlink_to(victim)
    (part / name).symlink_to(victim)
    command("report", part)
    assert victim.read_text() == "mine"
    assert (part / name).is_file()
    assert not (part / name).is_symlink()


def test_point_8_evidence_is_not_written_through_a_link(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / RECORDS).symlink_to(victim)
    with pytest.raises(AuditError, match="cannot be written"):
        run_fake(tmp_path / "run", "same-width")
    assert victim.read_text() == ""
