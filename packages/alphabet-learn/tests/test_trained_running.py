"""How a fit of the trained method runs: on any number of threads, within its budget, interrupted, or not at all."""

import io
import signal
import sys
import threading

import numpy as np
import pytest
import torch
from alphabet_core import DivergedError
from alphabet_learn import trained_fitting, trained_session
from alphabet_learn.errors import LearnError
from alphabet_learn.progress import Progress
from alphabet_learn.trained import Trained
from alphabet_learn.trained_fitting import WeightedCpuTrainer, fit_member, one_thread
from alphabet_testing.learn.trained import classify, fitted, jittered, regress, waves


@pytest.mark.parametrize("kind", ["regular", pytest.param("irregular", marks=pytest.mark.slow)])
def test_the_same_seed_gives_the_same_model_on_any_number_of_threads(kind):
    series, labels = waves(30, 12)
    series = series if kind == "regular" else jittered(series)
    before, engines = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            engines.append(fitted(series, classify(labels), seed=3, ensemble=2))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    for other in engines[1:]:
        assert other.calibration.scale == engines[0].calibration.scale
        for model, same, mean, same_mean in zip(
            engines[0].models, other.models, engines[0].baseline, other.baseline, strict=True
        ):
            assert all(torch.equal(a, b) for a, b in zip(model.parameters(), same.parameters(), strict=True))
            assert torch.equal(mean, same_mean)


@pytest.mark.slow
def test_long_steps_run_on_all_threads_with_the_same_result():
    series, labels = waves(64, 800)
    before, scores = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            engine = fitted(series, classify(labels), sizes=((32, 8),), epochs=2)
            scores.append(engine.scores(series))
    finally:
        torch.set_num_threads(before)
    assert np.array_equal(*scores)


def test_threads_have_their_number_back_whichever_leaves_first():
    before, entered, left = torch.get_num_threads(), threading.Event(), threading.Event()
    found = []

    def work():
        with one_thread():
            entered.set()
            left.wait(10)
        found.append(torch.get_num_threads())

    other = threading.Thread(target=work)
    with one_thread(), one_thread():
        other.start()
        entered.wait(10)
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
    left.set()
    other.join()
    assert found == [before]


def test_another_seed_gives_another_model_and_the_process_keeps_its_random_numbers():
    series, labels = waves()
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first, second = (fitted(series, classify(labels), seed=seed) for seed in (0, 1))
    assert torch.rand(1) == expected
    assert not np.array_equal(first.scores(series), second.scores(series))


def test_the_best_of_the_sizes_by_validation_loss_is_kept():
    series, labels = waves(40)
    sizes = ((8, 2), (16, 4), (16, 8))
    alone = {size: fitted(series, classify(labels), sizes=(size,)).members[0].validation_loss for size in sizes}
    chosen = fitted(series, classify(labels), sizes=sizes)
    assert chosen.size == min(alone, key=alone.get)
    assert chosen.members[0].validation_loss == min(alone.values())


def test_a_validation_loss_that_leaves_nothing_to_choose_by_ends_the_epochs_and_the_search(monkeypatch):
    series, labels = waves(24)
    monkeypatch.setattr(trained_fitting, "SETTLED", 100.0)
    engine = fitted(series, classify(labels), sizes=((8, 2), (16, 4)))
    assert (engine.size, engine.members[0].run) == ((8, 2), 1)
    assert fitted(series, regress(labels[:, None].astype(float))).members[0].run > 1


def test_the_budget_limits_epochs_and_leaves_out_sizes_without_reading_a_clock():
    series, labels = waves()
    options = {"sizes": ((8, 2), (16, 4)), "epochs": 30, "patience": 30}
    tiny = fitted(series, classify(labels), budget_seconds=1e-9, **options)
    assert (tiny.size, tiny.members[0].run) == ((8, 2), 1)
    runs = [fitted(series, classify(labels), budget_seconds=0.03, **options) for _ in range(2)]
    assert 1 < runs[0].members[0].run < 30
    assert runs[0].members[0].run == runs[1].members[0].run
    assert fitted(series, classify(labels), budget_seconds=None, **options).members[0].run == 30


@pytest.fixture
def ctrl_c():
    """Ctrl-C raises KeyboardInterrupt, also where the tests run in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def interrupt(monkeypatch, ctrl_c):
    """`interrupt(after=n)`: a Ctrl-C arrives while the n-th line of progress is written."""

    def arrange(after):
        lines = []

        def show(self, text):
            lines.append(text)
            if len(lines) == after:
                signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(Progress, "show", show)

    return arrange


def test_an_interrupt_keeps_the_best_model_so_far_and_says_so(interrupt):
    series, labels = waves(24)
    interrupt(after=3)
    with pytest.warns(UserWarning, match="interrupted: the estimator keeps the best model so far"):
        engine = fitted(series, classify(labels), epochs=50)
    assert engine.members[0].run == 3
    reference = fitted(series, classify(labels), epochs=3)
    assert np.array_equal(engine.scores(series), reference.scores(series))


def test_an_interrupt_without_validation_keeps_the_last_finished_epoch(interrupt):
    series, labels = waves(4)
    interrupt(after=2)
    with pytest.warns(UserWarning, match="interrupted"):
        engine = fitted(series, classify(labels))
    assert np.array_equal(engine.scores(series), fitted(series, classify(labels), epochs=2).scores(series))


def test_an_interrupt_at_the_second_size_chooses_among_what_there_is(interrupt):
    series, labels = waves(24)
    interrupt(after=5)  # the first size takes four epochs
    with pytest.warns(UserWarning, match="interrupted"):
        engine = fitted(series, classify(labels), sizes=((8, 2), (16, 4)), ensemble=2)
    assert len(engine.models) == 1


def test_an_interrupt_before_the_first_epoch_ends_the_fit_and_leaves_an_earlier_one(monkeypatch, ctrl_c):
    series, labels = waves(24)
    engine = fitted(series, classify(labels))
    before = engine.scores(series)

    def stop(*_, **__):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(WeightedCpuTrainer, "__call__", stop)
    with pytest.raises(KeyboardInterrupt):
        engine.fit(series, classify(1 - labels), seed=0)
    assert np.array_equal(engine.scores(series), before)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "verbose", "lines"), [(Terminal, True, 1), (Terminal, False, 0), (io.StringIO, True, 0)]
)
def test_progress_is_one_line_on_a_terminal_and_nothing_elsewhere(monkeypatch, stream, verbose, lines):
    series, labels = waves(24)
    fitted(series, classify(labels))  # so that the note about compiling kernels is not in the stream
    monkeypatch.setattr(sys, "stderr", stream())
    fitted(series, classify(labels), verbose=verbose, sizes=((8, 2), (16, 4)))
    written = sys.stderr.getvalue()
    assert written.count("\n") == lines
    assert bool(written) == bool(lines)
    assert written.count("\r") > 4 * lines - 1


def test_training_that_diverges_for_one_size_leaves_the_others_and_for_all_is_reported(monkeypatch):
    series, labels = waves(24)

    def diverge(plan, size, held_out, **settings):
        if size in diverging:
            raise DivergedError("planted")
        return fit_member(plan, size, held_out, **settings)

    monkeypatch.setattr(trained_session, "fit_member", diverge)
    diverging = [(8, 2)]
    assert fitted(series, classify(labels), sizes=((8, 2), (16, 4))).size == (16, 4)
    diverging = [(8, 2), (16, 4)]
    with pytest.raises(LearnError, match="diverged for every size"):
        fitted(series, classify(labels), sizes=((8, 2), (16, 4)))


@pytest.mark.parametrize(
    "options",
    [
        {"sizes": ()},
        {"sizes": ((8, 5),)},
        {"budget_seconds": 0.0},
        {"ensemble": 0},
        {"epochs": 1.5},
        {"patience": True},
        {"recipe": "Z"},
        {"validation_share": 1.0},
    ],
)
def test_a_wrong_option_is_named_with_its_value_and_a_remedy(options):
    (name,) = options
    with pytest.raises(LearnError, match=rf"{name} is .*pass"):
        Trained(**options)


def test_sizes_are_read_from_any_sequence_of_pairs():
    assert Trained(sizes=np.array([[32, 8]])).sizes == ((32, 8),)


def test_torchs_default_dtype_may_be_float64():
    series, labels = waves(12)
    torch.set_default_dtype(torch.float64)
    try:
        scores = fitted(series, classify(labels)).scores(series)
    finally:
        torch.set_default_dtype(torch.float32)
    assert np.isfinite(scores).all()
