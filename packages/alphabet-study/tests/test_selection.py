"""Two-stage selection: 18 candidates, six of them confirmed, one frozen; ties by the declared key, TEST unknown."""

import dataclasses
import random

import pytest
from alphabet_baselines import FAMILIES
from alphabet_study.errors import StudyError
from alphabet_study.protocol.records import CONFIRM, DIVERGED, DONE, FAILED, FINAL, SCREEN, Cell, FitKey, Job, Outcome
from alphabet_study.protocol.selection import Frozen, expected_keys, freeze, ready_jobs, round_half_up
from alphabet_study.protocol.settings import ADAPTED, FAMILY_NAMES, PAPER, SMALL, Settings
from alphabet_study.registry import TASKS

CELL = Cell("GunPoint", "gru")
TASK = TASKS["GunPoint"]
FORECAST = TASKS["ETTh1"]


def score_of(candidate, seed):
    """A score that depends on nothing but the fit's name."""
    return random.Random(f"{candidate}/{seed}").randrange(1000) / 1000


def run_all(cell, task, settings, score=score_of, epoch=lambda candidate, seed: 10 + seed):
    """Outcomes of a whole cell, stage by stage, as a campaign would run it, with the number of jobs of each round."""
    outcomes, rounds = {}, []
    while jobs := ready_jobs(cell, task, settings, outcomes):
        rounds.append(len(jobs))
        for job in jobs:
            outcomes[job.key] = (
                job,
                Outcome(DONE, score=score(job.candidate, job.key.seed), best_epoch=epoch(job.candidate, job.key.seed)),
            )
    return outcomes, rounds


def plain_choice(candidates, score, direction=1):
    """The definition in a few lines: the best six at seed 7, then the best mean over seeds 7, 11 and 19."""
    six = sorted(candidates, key=lambda key: (-direction * score(key, 7), key))[:6]
    means = {key: sum(score(key, seed) for seed in (7, 11, 19)) / 3 for key in six}
    return min(six, key=lambda key: (-direction * means[key], key)), six


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_a_cell_has_35_fits_and_the_study_28700(family):
    keys = expected_keys(Cell("GunPoint", family), PAPER)
    assert len(keys) == len(set(keys)) == PAPER.fits_per_cell == 35
    assert [sum(key.stage == stage for key in keys) for stage in (SCREEN, CONFIRM, FINAL)] == [18, 12, 5]
    assert len(TASKS) * (1 + len(FAMILIES)) * 35 == 28_700


def test_the_stages_follow_each_other_and_give_the_expected_keys():
    outcomes, rounds = run_all(CELL, TASK, PAPER)
    assert rounds == [18, 12, 5]
    assert sorted(outcomes) == sorted(expected_keys(CELL, PAPER))


@pytest.mark.parametrize("family", ["alphabet", "lru", ADAPTED])
def test_the_frozen_configuration_is_the_definitions(family):
    cell = Cell("GunPoint", family)
    outcomes, _ = run_all(cell, TASK, PAPER)
    best, six = plain_choice([candidate.key for candidate in PAPER.candidates(family)], score_of)
    frozen = freeze(cell, TASK, PAPER, outcomes)
    assert frozen.candidate == best
    assert {job.candidate for key, (job, _) in outcomes.items() if key.stage == CONFIRM} == set(six)
    assert {job.candidate for key, (job, _) in outcomes.items() if key.stage == FINAL} == {best}
    assert frozen.mean_score == pytest.approx(sum(score_of(best, seed) for seed in (7, 11, 19)) / 3)


def test_a_metric_that_falls_is_minimized():
    cell = Cell("ETTh1", "gru")
    outcomes, _ = run_all(cell, FORECAST, PAPER)
    best, _ = plain_choice([candidate.key for candidate in PAPER.candidates("gru")], score_of, direction=-1)
    frozen = freeze(cell, FORECAST, PAPER, outcomes)
    assert frozen.candidate == best
    assert frozen.mean_score > 0


def test_exact_ties_go_to_the_lower_key():
    outcomes, _ = run_all(CELL, TASK, PAPER, score=lambda *_: 0.5)
    keys = sorted(candidate.key for candidate in PAPER.candidates("gru"))
    assert freeze(CELL, TASK, PAPER, outcomes).candidate == keys[0]
    assert {job.candidate for key, (job, _) in outcomes.items() if key.stage == CONFIRM} == set(keys[:6])


def test_the_final_on_all_of_train_lasts_the_median_epoch_rounded():
    epochs = {7: 10, 11: 13, 19: 40}
    outcomes, _ = run_all(CELL, TASK, PAPER, epoch=lambda _, seed: epochs.get(seed, 1))
    assert freeze(CELL, TASK, PAPER, outcomes).epochs == 13
    assert all(job.epochs == 13 for key, (job, _) in outcomes.items() if key.stage == FINAL)
    assert [round_half_up(value) for value in (12.0, 12.5, 13.5)] == [12, 13, 14]


def test_other_suites_restore_their_checkpoint_instead():
    task = TASKS["JapaneseVowels"]
    outcomes, _ = run_all(Cell("JapaneseVowels", "gru"), task, PAPER)
    assert all(job.epochs is None for key, (job, _) in outcomes.items() if key.stage == FINAL)


def test_what_diverged_ranks_last_and_the_cell_goes_on():
    best = max(PAPER.candidates("gru"), key=lambda candidate: score_of(candidate.key, 7)).key
    outcomes = {}
    for job in ready_jobs(CELL, TASK, PAPER, outcomes):
        good = Outcome(DONE, score=score_of(job.candidate, 7), best_epoch=3)
        outcomes[job.key] = job, Outcome(DIVERGED, "not finite") if job.candidate == best else good
    confirmed = {job.candidate for job in ready_jobs(CELL, TASK, PAPER, outcomes)}
    assert len(confirmed) == 6
    assert best not in confirmed


def test_a_failed_fit_stops_its_cell_instead_of_changing_the_choice():
    outcomes = {}
    jobs = ready_jobs(CELL, TASK, PAPER, outcomes)
    for job in jobs:
        outcomes[job.key] = job, Outcome(DONE, score=0.5, best_epoch=3)
    outcomes[jobs[4].key] = jobs[4], Outcome(FAILED, "killed")
    assert ready_jobs(CELL, TASK, PAPER, outcomes) == []
    del outcomes[jobs[4].key]
    assert ready_jobs(CELL, TASK, PAPER, outcomes) == [jobs[4]]


@pytest.mark.parametrize("stage", [SCREEN, CONFIRM])
def test_a_record_of_another_candidate_than_its_slots_is_refused(stage):
    outcomes, _ = run_all(CELL, TASK, PAPER)
    key = next(key for key in outcomes if key.stage == stage and key.slot == 0)
    job, outcome = outcomes[key]
    other = next(candidate.key for candidate in PAPER.candidates("gru") if candidate.key != job.candidate)
    outcomes[key] = dataclasses.replace(job, candidate=other), outcome
    with pytest.raises(
        StudyError, match=rf"{key}: the record is of the candidate {other}, but {job.candidate} belongs"
    ):
        freeze(CELL, TASK, PAPER, outcomes)


def test_freezing_with_a_failed_fit_is_refused():
    outcomes, _ = run_all(CELL, TASK, PAPER)
    key = FitKey("GunPoint", "gru", SCREEN, 3, 7)
    outcomes[key] = outcomes[key][0], Outcome(FAILED, "killed")
    with pytest.raises(StudyError, match=r"GunPoint/gru/screen/3/7 failed; .*--retry-failed"):
        freeze(CELL, TASK, PAPER, outcomes)


def test_freezing_before_all_is_there_is_refused():
    with pytest.raises(StudyError, match="no record yet"):
        freeze(CELL, TASK, PAPER, {})


def test_a_cell_whose_candidates_all_diverged_freezes_nothing():
    outcomes = {}
    for _ in range(2):
        for job in ready_jobs(CELL, TASK, PAPER, outcomes):
            outcomes[job.key] = job, Outcome(DIVERGED, "not finite")
            if len(outcomes) == 30:
                break
        if len(outcomes) == 30:
            break
    with pytest.raises(StudyError, match="every confirmed candidate diverged"):
        freeze(CELL, TASK, PAPER, outcomes)


def test_the_hash_of_a_frozen_configuration_covers_each_of_its_fields():
    frozen = Frozen(CELL, "gru/032/01x16/A", 12, 0.9, PAPER.digest())
    changes = {"cell": Cell("Coffee", "gru"), "candidate": "x", "epochs": 13, "mean_score": 0.8, "settings": "other"}
    assert set(changes) == {field.name for field in dataclasses.fields(Frozen)}
    changed = [dataclasses.replace(frozen, **{name: value}).digest() for name, value in changes.items()]
    assert len({frozen.digest(), *changed}) == 6
    assert frozen.digest() == Frozen(CELL, "gru/032/01x16/A", 12, 0.9, PAPER.digest()).digest()


def test_settings_differ_in_their_digest():
    assert PAPER.digest() != SMALL.digest() != dataclasses.replace(SMALL, epochs=29).digest()
    assert PAPER.digest() == Settings().digest()


@pytest.mark.parametrize("wrong", [{"kept": 19}, {"kept": 0}, {"validation_share": 1.0}, {"confirm_seeds": (7,)}])
def test_settings_refuse_what_cannot_be(wrong):
    with pytest.raises(StudyError):
        Settings(**wrong)


def test_a_key_reads_as_it_is_written():
    assert str(FitKey("GunPoint", "gru", SCREEN, 3, 7)) == "GunPoint/gru/screen/3/7"
    assert Job(FitKey("GunPoint", "gru", SCREEN, 3, 7), "x").key.cell == CELL
