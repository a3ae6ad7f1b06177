"""The corruption audit: deterministic corruptions, and a TEST that opens only under what a campaign has frozen."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from alphabet_core import Examples
from alphabet_study.campaign.store import Store
from alphabet_study.campaign.transfer import export_csv
from alphabet_study.data_root import data_digest, embedded_folder
from alphabet_study.diagnostics.corruption import (
    ALPHABET,
    CLEAN,
    CORRUPTIONS,
    corrupt,
    corruption_table,
    halve_rate,
    measure_corrupted,
    plan_corruption,
    run_corruption,
    summarize_corruption,
)
from alphabet_study.diagnostics.frozen import read_campaign
from alphabet_study.diagnostics.published import CORRUPTION_GAPS
from alphabet_study.errors import StudyError
from alphabet_study.protocol.fitting import run_job
from alphabet_study.protocol.records import FINAL, Cell
from alphabet_study.protocol.selection import freeze, ready_jobs
from alphabet_study.protocol.settings import Settings
from alphabet_study.registry import TASKS
from rich.console import Console

TASK, OTHER = TASKS["ItalyPowerDemand"], TASKS["GunPoint"]
FAMILIES = ("alphabet", "cnn1d")
SETTINGS = Settings(
    name="tiny", kept=1, epochs=2, recipes=("B",), shapes=(0,), confirm_seeds=(11,), final_seeds=(23, 31)
)


@pytest.mark.parametrize("length", [1, 2, 7, 8])
def test_half_the_rate_is_numpys_linear_interpolation(length):
    values = torch.randn(3, length, 2, generator=torch.Generator().manual_seed(0))
    restored = halve_rate(values)
    kept = np.arange(0, length, 2)
    for row in range(3):
        for channel in range(2):
            series = values[row, :, channel].double().numpy()
            expected = np.interp(np.arange(length), kept, series[kept])
            assert restored[row, :, channel].numpy() == pytest.approx(expected, abs=1e-6)


def make_test(**side_inputs):
    values = torch.randn(50, 40, 1, generator=torch.Generator().manual_seed(1))
    return Examples(values, torch.zeros(50, dtype=torch.int64), **side_inputs)


def test_corruptions_are_what_their_names_say():
    test = make_test()
    values = {name: corrupt(test, name, TASK).values for name in (CLEAN, *CORRUPTIONS)}
    assert values[CLEAN].equal(test.values)
    assert values["amplitude x0.5"].equal(test.values * 0.5)
    assert values["amplitude x1.5"].equal(test.values * 1.5)
    assert values["half rate"].equal(halve_rate(test.values))
    noise = (values["noise 0.1"] - test.values) / 0.1
    # 2,000 draws: standard errors of .022 for the mean and .016 for the spread
    assert float(noise.mean()) == pytest.approx(0.0, abs=0.1)
    assert float(noise.std()) == pytest.approx(1.0, abs=0.08)
    assert torch.allclose((values["noise 0.2"] - test.values) / 0.2, noise, atol=1e-4)


def test_noise_is_the_same_for_every_family_and_seed_of_a_task():
    test = make_test()
    first, again, other = (corrupt(test, "noise 0.1", task).values for task in (TASK, TASK, OTHER))
    assert first.equal(again)
    assert not first.equal(other)


def test_series_with_gaps_and_unknown_corruptions_are_refused():
    with pytest.raises(StudyError, match="complete series of equal length, but it has valid"):
        corrupt(make_test(valid=torch.ones(50, 40, dtype=torch.bool)), "half rate", TASK)
    with pytest.raises(StudyError, match=r"corruption must be one of noise 0\.1"):
        corrupt(make_test(), "rust", TASK)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A complete small campaign on ItalyPowerDemand, its fits run one after the other."""
    path = tmp_path_factory.mktemp("campaign") / "tiny.sqlite"
    with Store.create_or_resume(path, SETTINGS, {}) as records:
        records.check_data(TASK.name, {part: data_digest(TASK, None, part) for part in ("train", "test")})
        for family in FAMILIES:
            cell, outcomes = Cell(TASK.name, family), {}
            while jobs := ready_jobs(cell, TASK, SETTINGS, outcomes):
                if jobs[0].key.stage == FINAL:
                    records.open_test(freeze(cell, TASK, SETTINGS, outcomes))
                for job in jobs:
                    record = run_job(job, TASK, SETTINGS, None)
                    records.add(record)
                    outcomes[job.key] = (job, record.outcome)
    return path


@pytest.mark.slow
def test_clean_scores_are_the_campaigns_and_a_second_run_computes_nothing(store, tmp_path):
    campaign = read_campaign(store)
    fits = plan_corruption(campaign, [TASK.name], FAMILIES, SETTINGS.final_seeds)
    rows = run_corruption(fits, campaign, None, tmp_path / "rows.csv")
    assert len(rows) == len(FAMILIES) * 2 * (1 + len(CORRUPTIONS))
    clean = rows[rows["corruption"] == CLEAN]
    assert (clean["score"] == clean["campaign"]).all()
    content = (tmp_path / "rows.csv").read_bytes()
    assert run_corruption(fits, campaign, None, tmp_path / "rows.csv").equals(rows)
    assert (tmp_path / "rows.csv").read_bytes() == content
    console = Console(record=True, width=200)
    console.print(corruption_table(summarize_corruption(rows), rows))
    assert "differ from the campaign's by at most 0." in console.export_text()


@pytest.mark.slow
def test_an_export_gives_the_same_plan_as_the_store(store, tmp_path):
    with Store.read(store) as records:
        export_csv(records, tmp_path / "fits.csv")
    plans = [
        plan_corruption(read_campaign(path), [TASK.name], FAMILIES, [23]) for path in (store, tmp_path / "fits.csv")
    ]
    assert plans[0] == plans[1]
    assert read_campaign(store).families([TASK.name]) == list(FAMILIES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "family", "seed"), [(OTHER.name, "alphabet", 23), (TASK.name, "gru", 23), (TASK.name, "alphabet", 43)]
)
def test_what_the_campaign_has_not_opened_stays_sealed(store, task, family, seed):
    with pytest.raises(StudyError, match=f"no finished final of {task}/{family} with seed {seed}.*stays sealed"):
        plan_corruption(read_campaign(store), [task], [family], [seed])


@pytest.mark.slow
def test_a_configuration_that_selection_did_not_freeze_is_refused(store):
    campaign = read_campaign(store)
    forged = {
        key: replace(record, job=replace(record.job, frozen="0" * 64)) if key.stage == FINAL else record
        for key, record in campaign.records.items()
    }
    with pytest.raises(StudyError, match="records of different campaigns were mixed"):
        plan_corruption(replace(campaign, records=forged), [TASK.name], ["alphabet"], [23])
    finals = {key: record for key, record in campaign.records.items() if key.stage == FINAL}
    with pytest.raises(StudyError, match="has no record yet"):
        plan_corruption(replace(campaign, records=finals), [TASK.name], ["alphabet"], [23])


@pytest.mark.slow
def test_other_data_than_the_campaigns_are_refused(store, tmp_path):
    campaign = read_campaign(store)
    changed = replace(campaign, data={TASK.name: {**campaign.data[TASK.name], "test": "0" * 64}})
    fits = plan_corruption(campaign, [TASK.name], ["alphabet"], [23])
    with pytest.raises(StudyError, match="the files of TEST are not those of"):
        run_corruption(fits, changed, None, tmp_path / "rows.csv")
    assert not (tmp_path / "rows.csv").exists()


@pytest.mark.slow
def test_data_that_change_after_the_start_give_no_row(store, tmp_path):
    source = embedded_folder(TASK)
    for file in TASK.files:
        (tmp_path / file.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.path).write_bytes((source / file.name).read_bytes())
    campaign = read_campaign(store)
    campaign.check_data(TASK, tmp_path)
    test = tmp_path / TASK.files_test[0].path
    test.write_bytes(test.read_bytes() + b"\n")
    (fit,) = plan_corruption(campaign, [TASK.name], FAMILIES[:1], [23])
    with pytest.raises(StudyError, match="the files of TEST are not those of"):
        measure_corrupted(fit, campaign, tmp_path)


def made_up(scores):
    return pd.DataFrame(
        [
            {"task": task, "family": family, "seed": seed, "corruption": name, "score": value, "campaign": value}
            for (name, family), tasks in scores.items()
            for task, values in tasks.items()
            for seed, value in enumerate(values)
        ]
    )


def test_the_summary_compares_with_the_best_mean_and_with_each_tasks_best():
    rows = made_up(
        {
            ("half rate", ALPHABET): {"A": (0.9, 0.7), "B": (0.5, 0.5)},
            ("half rate", "gru"): {"A": (0.9, 0.9), "B": (0.1, 0.1)},
            ("half rate", "tcn"): {"A": (0.3, 0.3), "B": (0.6, 0.6)},
        }
    )
    row = summarize_corruption(rows).iloc[0]
    assert row["alphabet"] == pytest.approx(0.65)
    assert (row["best_family"], row["families"]) == ("gru", 3)
    assert row["gap"] == pytest.approx(100 * (0.65 - 0.5))
    assert row["paired"] == pytest.approx(100 * ((0.8 - 0.9) + (0.5 - 0.6)) / 2)
    console = Console(record=True, width=200)
    console.print(corruption_table(summarize_corruption(rows), rows))
    assert "+1.3" in console.export_text()  # an empty clean part included


def test_a_single_family_has_no_gap():
    rows = made_up({(CLEAN, ALPHABET): {"A": (0.9,)}})
    assert summarize_corruption(rows)["gap"].isna().all()
    console = Console(record=True, width=200)
    console.print(corruption_table(summarize_corruption(rows), rows))
    assert "nan" not in console.export_text()


def test_every_published_gap_is_one_of_the_corruptions():
    assert set(CORRUPTION_GAPS) == set(CORRUPTIONS)
