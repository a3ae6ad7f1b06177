"""One fit: reproducible to the last bit, by the fused trainer, with the protocol's own rules for finals."""

import dataclasses

import pytest
import torch
from alphabet_core import RECIPES, TrainingStep, fit, fit_validated
from alphabet_study.errors import StudyError
from alphabet_study.protocol.fitting import find_candidate, run_final, run_job, run_selection
from alphabet_study.protocol.folds import make_folds, take_all_of_train
from alphabet_study.protocol.metrics import measure
from alphabet_study.protocol.records import DIVERGED, DONE, FINAL, SCREEN, FitKey, Job
from alphabet_study.protocol.sealing import load_train, open_test
from alphabet_study.protocol.settings import ADAPTED, FAMILY_NAMES, Settings
from alphabet_study.protocol.trainers import make_trainer
from alphabet_study.registry import TASKS

TASK = TASKS["ItalyPowerDemand"]
SETTINGS = Settings(name="test", epochs=4, patience=2)


def screen_job(family, position=0, seed=7):
    return Job(FitKey(TASK.name, family, SCREEN, position, seed), SETTINGS.candidates(family)[position].key)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_a_fit_gives_the_same_outcome_again(family):
    first, again = (run_job(screen_job(family), TASK, SETTINGS, None) for _ in range(2))
    assert first.outcome == again.outcome
    assert first.outcome.status == DONE
    assert 0 < first.outcome.score <= 1
    assert first.outcome.parameters == sum(
        p.numel() for p in SETTINGS.candidates(family)[0].build(channels=1, outputs=2).parameters() if p.requires_grad
    )


def test_alphabet_is_trained_by_the_fused_kernels_and_the_record_says_so():
    assert run_job(screen_job("alphabet"), TASK, SETTINGS, None).outcome.path == "fused"
    assert run_job(screen_job("cnn1d"), TASK, SETTINGS, None).outcome.path == "torch"


@pytest.mark.slow
def test_a_selection_fit_is_the_cores_own_loop():
    job = screen_job("gru", 1)
    folds = make_folds(TASK, load_train(TASK, None), SETTINGS)
    torch.manual_seed(7)
    model = SETTINGS.candidates("gru")[1].build(channels=1, outputs=2)
    step = TrainingStep(model, RECIPES["B"])
    fitted = fit_validated(step, folds.optimization, folds.validation, epochs=4, patience=2, seed=7)
    outcome = run_selection(job, TASK, SETTINGS, folds)
    assert outcome.validation_loss == pytest.approx(fitted.validation_loss, rel=1e-5)
    assert (outcome.best_epoch, outcome.epochs) == (fitted.best_epoch, fitted.epochs)


@pytest.mark.slow
def test_a_final_on_all_of_train_is_a_plain_fit_measured_on_test():
    job = Job(FitKey(TASK.name, "gru", FINAL, 0, 23), SETTINGS.candidates("gru")[0].key, 3, "frozen")
    train = load_train(TASK, None)
    folds = take_all_of_train(TASK, train)
    torch.manual_seed(23)
    model = find_candidate(job, SETTINGS).build(channels=1, outputs=2)
    examples = folds.optimization
    fit(TrainingStep(model, RECIPES["A"]), examples.values, examples.targets, epochs=3, seed=23)
    test = folds.scaler(open_test(job, TASK, None, train), targets=False)
    with torch.no_grad():
        expected = measure("balanced_accuracy", model(test.values), test.targets)
    outcome = run_final(job, TASK, SETTINGS, None)
    assert outcome.test["balanced_accuracy"] == pytest.approx(expected, abs=2e-3)
    assert (outcome.epochs, outcome.best_epoch, outcome.score) == (3, None, None)


@pytest.mark.slow
def test_a_final_of_another_suite_restores_its_checkpoint():
    task = TASKS["BasicMotions"]
    job = Job(FitKey(task.name, "cnn1d", FINAL, 0, 23), SETTINGS.candidates("cnn1d")[0].key, None, "frozen")
    outcome = run_job(job, task, SETTINGS, None).outcome
    assert outcome.best_epoch <= outcome.epochs <= 4
    assert set(outcome.test) == {"balanced_accuracy"}


def test_unequal_lengths_reach_the_fused_trainer():
    task = TASKS["JapaneseVowels"]
    folds = make_folds(task, load_train(task, None), SETTINGS)
    assert folds.optimization.valid is not None
    trainer = make_trainer("alphabet", SETTINGS.candidates("alphabet")[0], task.loss, folds, seed=7)
    assert trainer.path == "fused"


def test_the_adapted_row_starts_elsewhere_than_the_papers():
    folds = make_folds(TASK, load_train(TASK, None), SETTINGS)
    plain, adapted = (
        make_trainer(family, SETTINGS.candidates(family)[0], TASK.loss, folds, seed=7).step.model
        for family in ("alphabet", ADAPTED)
    )
    assert not torch.equal(plain.direct.lift.kernel, adapted.direct.lift.kernel)
    assert torch.equal(plain.head.weight, adapted.head.weight)


def test_divergence_is_a_result():
    settings = dataclasses.replace(SETTINGS, epochs=1)
    folds = make_folds(TASK, load_train(TASK, None), settings)
    broken = dataclasses.replace(folds.validation, values=folds.validation.values * 1e38)
    outcome = run_selection(screen_job("cnn1d"), TASK, settings, dataclasses.replace(folds, validation=broken))
    assert outcome.status == DIVERGED
    assert "never finite" in outcome.reason


def test_a_candidate_of_another_protocol_is_refused():
    with pytest.raises(StudyError, match="none of the candidates"):
        find_candidate(Job(screen_job("gru").key, "gru/999/01x16/A"), SETTINGS)


def test_the_number_of_torch_threads_is_given_back():
    threads = torch.get_num_threads()
    run_job(screen_job("cnn1d"), TASK, SETTINGS, None)
    assert torch.get_num_threads() == threads
