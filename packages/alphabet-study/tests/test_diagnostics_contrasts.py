"""Paired contrasts: Student's interval, wins and losses, Holm, and the paper's own numbers under them."""

import math

import numpy as np
import pandas as pd
import pytest
from alphabet_study.diagnostics.contrasts import adjust_holm, count_wins, paired_interval
from alphabet_study.diagnostics.published import ABLATION, CORRUPTION_PAIRED, POLE_CONTRASTS
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student_t
from scipy.stats import ttest_1samp


@settings(deadline=None)
@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=20).filter(lambda values: len(set(values)) > 1))
def test_the_interval_is_students(values):
    found = paired_interval([value / 10 for value in values])
    expected = ttest_1samp([value / 10 for value in values], 0.0)
    bounds = expected.confidence_interval(0.95)
    assert found.mean == pytest.approx(np.mean(values) / 10)
    assert (found.low, found.high) == pytest.approx((bounds.low, bounds.high))
    assert found.p_value == pytest.approx(expected.pvalue)


def test_equal_differences_have_no_width_and_a_single_one_no_interval():
    assert paired_interval([2.0, 2.0, 2.0]) == (2.0, 2.0, 2.0, 0.0)
    assert paired_interval([0.0, 0.0]) == (0.0, 0.0, 0.0, 1.0)
    single = paired_interval([3.0])
    assert single.mean == 3.0
    assert all(math.isnan(value) for value in single[1:])


def test_rounding_is_no_win():
    assert count_wins([0.1 + 0.2 - 0.3, 1.0, -0.5, 0.0, 2.0]) == (2, 2, 1)


def test_holm_multiplies_the_smallest_by_the_number_and_leaves_nan_out():
    adjusted = adjust_holm(pd.Series([0.01, math.nan, 0.04, 0.03], index=list("abcd")))
    assert adjusted["a"] == pytest.approx(0.03)
    assert adjusted["d"] == adjusted["c"] == pytest.approx(0.06)
    assert math.isnan(adjusted["b"])
    assert adjust_holm(pd.Series([math.nan])).isna().all()


def published_p_value(effect, tasks=17):
    error = (effect.high - effect.low) / 2 / student_t.ppf(0.975, tasks - 1)
    return 2 * student_t.sf(abs(effect.mean) / error, tasks - 1)


def test_published_intervals_are_symmetric_and_lead_to_the_published_p_values():
    leads = [result.lead for result in ABLATION.values() if result.lead is not None]
    for effect in (*leads, *POLE_CONTRASTS.values(), *CORRUPTION_PAIRED.values()):
        # bounds are rounded to one or two digits
        assert (effect.low + effect.high) / 2 == pytest.approx(effect.mean, abs=0.06)
    adjusted = adjust_holm(pd.Series([published_p_value(lead) for lead in leads]))
    assert (adjusted > 0.05).all()
    borderline = POLE_CONTRASTS["cascaded bank retained against random"]
    assert published_p_value(borderline) == pytest.approx(0.052, abs=0.0015)


def test_the_published_leads_are_differences_of_the_published_accuracies():
    for result in ABLATION.values():
        if result.lead is not None:
            # two accuracies rounded to .0005 each
            assert 100 * (ABLATION["full"].accuracy - result.accuracy) == pytest.approx(result.lead.mean, abs=0.101)
