import json

import pytest
import torch
from alphabet_core.spectral_control import balanced_accuracy, bayes_decision, draw_paths, main


def test_paths_have_the_stated_autocovariances():
    paths, labels = draw_paths(4000, 200, 0.4, torch.Generator().manual_seed(1))
    x = paths.squeeze(-1)
    for label, at_five in ((0, 0.0), (1, 0.2)):
        rows = x[labels == label]
        covariance = [float((rows[:, lag:] * rows[:, : 200 - lag]).mean()) for lag in range(7)]
        # 2,000 x 195 products: a standard error of 0.0016
        assert covariance == pytest.approx([1, 0, 0, 0, 0, at_five, 0], abs=0.01)


def test_bayes_is_a_ceiling_that_low_lags_cannot_see():
    paths, labels = draw_paths(4000, 128, 0.4, torch.Generator().manual_seed(2))
    assert balanced_accuracy(bayes_decision(paths, 0.4), labels) == pytest.approx(0.875, abs=0.02)
    shuffled = paths[:, torch.randperm(128, generator=torch.Generator().manual_seed(3))]
    assert balanced_accuracy(bayes_decision(shuffled, 0.4), labels) == pytest.approx(0.5, abs=0.05)


def test_balanced_accuracy_weighs_classes_equally():
    assert balanced_accuracy(torch.tensor([0, 0, 0, 0]), torch.tensor([0, 0, 0, 1])) == 0.5


@pytest.fixture
def threads_restored():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.usefixtures("threads_restored")
def test_the_command_prints_a_result_and_writes_it(tmp_path, capsys):
    main(["--eps", "0.8", "--epochs", "1", "--seeds", "23", "--length", "32", "--json", str(tmp_path / "out.json")])
    printed = capsys.readouterr().out
    result = json.loads((tmp_path / "out.json").read_text())
    assert "seed  23: balanced accuracy" in printed
    assert f"mean {result['mean']:.3f}" in printed
    assert len(result["scores"]) == 1


def test_a_bad_separation_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--eps", "1.5"])
    assert "--eps must lie" in capsys.readouterr().err
