"""The spectral control: every estimator on the same paths, the core's own protocol, the paper's numbers beside ours."""

import pandas as pd
import pytest
import torch
from alphabet_baselines import FAMILIES, build
from alphabet_core.spectral_control import balanced_accuracy, run_seed
from alphabet_study.diagnostics.published import SPECTRAL_ACCURACY, SPECTRAL_EXCESS
from alphabet_study.diagnostics.spectral import (
    BAYES,
    SpectralFit,
    autocovariances,
    nearest_prototype,
    plan_spectral,
    realize_paths,
    run_estimator,
    run_spectral,
    spectral_table,
    summarize_spectral,
)
from alphabet_study.errors import StudyError
from rich.console import Console


def test_the_plan_is_the_papers():
    fits = plan_spectral()
    points = {(fit.estimator, fit.eps, fit.length) for fit in fits}
    assert len(fits) == len(set(fits)) == 5 * len(points)
    assert len(points) == 4 * 5 + 2 + 3 * 2
    assert {fit.seed for fit in fits} == {23, 31, 43, 47, 59}
    assert {(fit.paths, fit.epochs) for fit in fits if fit.estimator == "full"} == {(512, 60)}
    # whatever the paper publishes is among what we compute
    assert set(SPECTRAL_ACCURACY) <= points
    assert set(SPECTRAL_EXCESS) <= points


@pytest.mark.parametrize("wrong", [{"separations": [1.0]}, {"lengths": [8]}, {"paths": 2}, {"seeds": []}])
def test_a_plan_that_cannot_run_is_refused(wrong):
    with pytest.raises(StudyError):
        plan_spectral(**wrong)


def test_autocovariances_are_the_plain_means_of_products():
    paths = torch.randn(3, 11, 1, generator=torch.Generator().manual_seed(0))
    found = autocovariances(paths, 4)
    for row in range(3):
        x = paths[row, :, 0].double().tolist()
        for lag in range(5):
            products = [x[t] * x[t + lag] for t in range(11 - lag)]
            assert float(found[row, lag]) == pytest.approx(sum(products) / len(products))


def test_low_lags_are_blind_and_the_told_ones_see():
    paths = realize_paths(SpectralFit("any", 0.8, 128, 23, 4000, 0))
    blind, told = (balanced_accuracy(nearest_prototype(paths, highest), paths.labels) for highest in (4, 8))
    # Of 2,000 validation paths a blind rule gets half with a standard error of .011. Classes do differ a little in how
    # much low-lag estimates spread, which a distance to prototypes can hardly use.
    assert blind == pytest.approx(0.5, abs=0.05)
    assert told > 0.9


def test_every_estimator_sees_the_same_paths_of_a_seed():
    first, second = (realize_paths(SpectralFit(name, 0.4, 32, 23, 64, 1)) for name in (BAYES, "full"))
    assert all(torch.equal(left, right) for left, right in zip(first, second, strict=True))
    other = realize_paths(SpectralFit(BAYES, 0.4, 32, 31, 64, 1))
    assert not torch.equal(first.train, other.train)
    assert len(first.train) == 64
    assert len(first.validation) == 32


@pytest.mark.slow
def test_a_family_is_trained_by_the_cores_own_protocol():
    def make():
        return build("lru", channels=1, outputs=2, width=64, choice=FAMILIES["lru"].choices[0])

    score, bayes = run_seed(23, 0.8, make, length=16, epochs=1)
    assert run_estimator(SpectralFit("lru", 0.8, 16, 23, 512, 1))["score"] == score
    assert run_estimator(SpectralFit(BAYES, 0.8, 16, 23, 512, 0))["score"] == bayes


@pytest.mark.slow
def test_full_model_and_control_are_trained_by_the_fused_kernels_at_the_published_sizes():
    full, energy = (run_estimator(SpectralFit(name, 0.4, 16, 23, 64, 1)) for name in ("full", "energy-only"))
    assert (full["path"], full["parameters"]) == ("fused", 5698)
    assert (energy["path"], energy["parameters"]) == ("fused", 5705)


@pytest.mark.slow
def test_a_small_sweep_runs_and_is_shown_beside_the_paper(tmp_path):
    fits = plan_spectral(separations=[0.4], lengths=[16, 32], seeds=[23, 31], paths=16, epochs=1)
    rows = run_spectral(fits, tmp_path / "rows.csv")
    assert len(rows) == len(fits)
    assert rows["score"].between(0, 1).all()
    console = Console(record=True, width=200)
    console.print(spectral_table(summarize_spectral(rows)))
    shown = console.export_text()
    assert all(name in shown for name in ("bayes", "autocovariances-4", "energy-only", "full", "lru", "s4d"))


def test_the_summary_pairs_every_seed_with_its_own_ceiling():
    scores = {BAYES: (0.9, 0.7), "full": (0.86, 0.7)}
    rows = pd.DataFrame(
        [
            {"estimator": name, "eps": 0.4, "length": 128, "seed": seed, "score": score, "parameters": 5698}
            for name, pair in scores.items()
            for seed, score in zip((23, 31), pair, strict=True)
        ]
    )
    summary = summarize_spectral(rows).set_index("estimator")
    assert summary.loc["full", "score"] == pytest.approx(0.78)
    assert summary.loc["full", "excess"] == pytest.approx((0.9 + 1.0) / 2)
    assert summary.loc[BAYES, "excess"] == 1.0
    assert summary.loc["full", "published_score"] == 0.856
    assert summary.loc["full", "published_excess"] == 0.913
    console = Console(record=True, width=200)
    console.print(spectral_table(summary.reset_index()))
    assert ".856" in console.export_text()


def test_a_ceiling_at_chance_gives_no_share():
    rows = pd.DataFrame(
        [
            {"estimator": name, "eps": 0.4, "length": 128, "seed": 23, "score": 0.5, "parameters": 1}
            for name in (BAYES, "full")
        ]
    )
    assert summarize_spectral(rows)["excess"].isna().all()
