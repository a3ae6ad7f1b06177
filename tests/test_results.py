"""The results in the repository: the page is made from the fits, and the fits hold together as a campaign."""

import subprocess
import sys

import pytest
from alphabet_study.campaign.plan import check_seal
from alphabet_study.campaign.store import Store
from alphabet_study.campaign.transfer import import_csv
from alphabet_study.protocol.records import FINAL
from alphabet_study.protocol.settings import PAPER
from alphabet_study.registry import TASKS
from alphabet_testing.places import DOCS, ROOT

FITS, REASONS = ROOT / "study" / "fits.csv", ROOT / "study" / "reasons.toml"


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    path = tmp_path_factory.mktemp("campaign") / "paper.sqlite"
    with Store.create_or_resume(path, PAPER, {}) as store:
        import_csv(store, FITS, TASKS)
    return path


def test_every_final_was_trained_as_its_cell_was_frozen(campaign):
    with Store.read(campaign) as store:
        records = list(store.records())
        cells = {record.job.key.cell for record in records}
        outcomes = store.outcomes(cells)
    finals = {record.job.key.cell for record in records if record.job.key.stage == FINAL}
    assert finals
    for cell in finals:
        check_seal(cell, TASKS[cell.task], PAPER, {key: found for key, found in outcomes.items() if key.cell == cell})


@pytest.mark.slow
def test_the_page_is_made_from_the_fits(campaign, tmp_path):
    command = ["table", "--partial", "--settings", "paper", "--store", str(campaign), "--reasons", str(REASONS)]
    page = tmp_path / "results.md"
    subprocess.run([sys.executable, "-m", "alphabet_study", *command, "--page", str(page)], check=True, timeout=300)
    assert page.read_text(encoding="utf-8") == (DOCS / "results.md").read_text(encoding="utf-8")


def test_alphabets_fits_ran_on_the_fused_path(campaign):
    with Store.read(campaign) as store:
        paths = {record.outcome.path for record in store.records() if record.job.key.family == "alphabet"}
    assert paths == {"fused"}


def test_the_table_of_initial_values_is_made_from_its_fits():
    script = ROOT / "packages" / "alphabet-study" / "bench" / "initial_values.py"
    command = [sys.executable, str(script), str(ROOT / "study" / "initial-values.csv"), "--table"]
    table = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert table.strip() in (DOCS / "initial-values.md").read_text()
    assert "38 fits each" in table
