"""The pole audit, on models in which it is known beforehand which poles decide."""

import pandas as pd
import pytest
import torch
from alphabet_core import Alphabet, AlphabetConfig, Examples
from alphabet_study.diagnostics.poles import (
    CONTRASTS,
    DRAWS,
    RESULTS,
    TOP,
    audit_poles,
    draw_masks,
    margin_error,
    plan_poles,
    pole_table,
    summarize_poles,
)
from alphabet_study.diagnostics.published import POLE_CONTRASTS, POLE_FIGURES
from rich.console import Console

BANK, MODE = 1, 5


def make_examples(model, count, seed):
    """Random series, with the class that the model itself predicts."""
    values = torch.randn(count, 20, 1, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        return Examples(values, model(values).argmax(dim=1))


@pytest.fixture(scope="module")
def decided_by_one_pole():
    """A model whose head reads a single pole of the cascaded bank, centred so that both classes occur."""
    torch.manual_seed(0)
    model = Alphabet(AlphabetConfig(channels=1, width=32, modes=16, outputs=2))
    values = torch.randn(64, 20, 1, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        weight = model.head.weight.view(2, 2, 16, 7)
        direction = weight[1, BANK, MODE].clone()
        weight.zero_()
        weight[1, BANK, MODE] = direction
        read = model.describe(values)[:, BANK, MODE] @ direction
        model.head.bias.copy_(torch.stack([read.median(), torch.tensor(0.0)]))
    return model


@pytest.fixture(scope="module")
def audit(decided_by_one_pole):
    model = decided_by_one_pole
    return audit_poles(model, make_examples(model, 60, 2), make_examples(model, 40, 3), seed=23)


def test_without_the_one_pole_that_decides_nothing_is_predicted(audit):
    assert audit["score"] == 1.0
    assert audit["score_without_top"] == 0.5
    assert audit["score_without_cascaded"] == 0.5
    assert audit["score_without_bottom"] == 1.0


def test_the_one_pole_alone_predicts_as_the_whole_model(audit):
    assert audit["agreement_with_top"] == 1.0
    assert audit["agreement_with_cascaded"] == 1.0
    assert audit["agreement_with_bottom"] < 1.0


def test_random_poles_lie_between(audit):
    # 8 of 32 poles miss the deciding one in three of four draws, 16 in two: 64 draws, standard errors of .05 and .06
    assert audit["score_without_random"] == pytest.approx(1.0 - 0.5 * 0.25, abs=0.11)
    assert audit["score_without_random_bank"] == pytest.approx(1.0 - 0.5 * 0.5, abs=0.13)
    assert audit["agreement_with_bottom"] < audit["agreement_with_random"] < 1.0
    assert audit["agreement_with_random"] < audit["agreement_with_random_bank"] < 1.0


def test_all_attribution_lies_in_the_bank_of_the_one_pole(audit):
    assert audit["cascaded_share"] == 1.0
    assert audit["cascaded_in_top"] >= 1
    assert audit["rank_correlation"] == pytest.approx(1.0)
    assert list(audit) == list(RESULTS)


@pytest.mark.slow
def test_the_audit_depends_on_its_seed_in_the_random_poles_alone(decided_by_one_pole, audit):
    model = decided_by_one_pole
    folds = make_examples(model, 60, 2), make_examples(model, 40, 3)
    assert audit_poles(model, *folds, seed=23) == audit
    other = audit_poles(model, *folds, seed=31)
    assert {name for name in RESULTS if other[name] != audit[name]} <= {name for name in RESULTS if "random" in name}
    assert other != audit


def test_random_masks_have_the_size_that_they_stand_beside():
    masks = torch.stack(draw_masks((2, 16), TOP, torch.Generator().manual_seed(1)))
    assert masks.shape == (DRAWS, 2, 16)
    assert (masks.flatten(1).sum(dim=1) == TOP).all()
    assert len({tuple(mask.flatten().tolist()) for mask in masks}) > DRAWS // 2
    # every pole is drawn now and then: one that never is has a chance of (3/4)^64, 1e-8
    assert masks.any(dim=0).all()


def test_the_error_of_a_margin_is_seen():
    logits = torch.tensor([[1.0, 3.5, 2.0], [0.0, -1.0, 4.0]])
    exact = torch.tensor([1.5, 4.0], dtype=torch.float64)
    assert margin_error(logits, exact) == 0.0
    assert margin_error(logits, exact + torch.tensor([0.0, 1e-3])) == pytest.approx(1e-3)


def test_a_models_own_margins_are_exact_sums():
    torch.manual_seed(4)
    model = Alphabet(AlphabetConfig(channels=1, width=32, modes=16, outputs=3))
    row = audit_poles(model, make_examples(model, 30, 5), make_examples(model, 30, 6), seed=1)
    # Logits of about 1 in single precision: two roundings of 2^-24 each, and the descriptor itself is the same.
    assert row["margin_error"] < 1e-6
    assert 0.0 < row["cascaded_share"] < 1.0


def test_the_plan_audits_learned_and_fixed_poles():
    fits = plan_poles(["Coffee", "ECG200"])
    assert len(fits) == 2 * 2 * 5
    assert {fit.variant for fit in fits} == {"full", "fixed-poles"}


def test_the_summary_averages_seeds_then_data_sets_and_stands_beside_the_paper():
    rows = []
    for variant, lost in (("full", 0.4), ("fixed-poles", 0.2)):
        for task, shift in (("A", 0.0), ("B", 0.2)):
            for seed in (1, 2):
                row = dict.fromkeys(RESULTS, 0.5) | {"task": task, "variant": variant, "seed": seed}
                row |= {
                    "cascaded_in_top": seed - 1,
                    "score_without_top": 0.5 - lost - shift,
                    "margin_error": seed * 1e-6,
                }
                rows.append(row)
    summary = summarize_poles(pd.DataFrame(rows)).set_index(["variant", "quantity"])
    top = summary.loc[("full", "top 8 removed against random")]
    assert top["value"] == pytest.approx(100 * (0.4 + 0.6) / 2)
    assert top["low"] < top["value"] < top["high"]
    assert summary.loc[("fixed-poles", "top 8 removed against bottom"), "value"] == pytest.approx(30)
    assert summary.loc[("full", "checkpoints with a cascaded pole in top 8"), "value"] == 0.5
    assert summary.loc[("full", "cascaded share of top 8"), "value"] == pytest.approx(0.5 / 8)
    assert summary.loc[("full", "largest error of a margin"), "value"] == 2e-6
    console = Console(record=True, width=200)
    console.print(pole_table(summary.reset_index()))
    shown = console.export_text()
    assert "+26.9 [+19.0, +34.7]" in shown
    assert "0.99" in shown


def test_every_published_number_has_one_of_ours_beside_it():
    assert set(POLE_CONTRASTS) == set(CONTRASTS)
    row = dict.fromkeys(RESULTS, 0.5) | {"task": "A", "variant": "full", "seed": 1}
    assert set(POLE_FIGURES) <= set(summarize_poles(pd.DataFrame([row]))["quantity"])
