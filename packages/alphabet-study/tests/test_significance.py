import itertools

import numpy as np
import pandas as pd
import pytest
from alphabet_study.errors import StudyError
from alphabet_study.statistics import compare_all, compare_pairs, fill_matrix, rank_tasks, read_paper
from alphabet_study.statistics.significance import signed_rank_p_value
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, wilcoxon

HALVES = st.integers(-6, 6).map(lambda step: step / 2)


def p_value_by_definition(differences):
    """The share of all sign changes whose sum of positive ranks is at least as far from its middle, in plain loops."""
    size = [abs(difference) for difference in differences]
    ranks = [sum(b < a for b in size) + (sum(b == a for b in size) + 1) / 2 for a in size]
    kept = [(rank, difference > 0) for rank, difference in zip(ranks, differences, strict=True) if difference != 0]
    middle = sum(rank for rank, _ in kept) / 2
    found = abs(sum(rank for rank, positive in kept if positive) - middle)
    changes = list(itertools.product((False, True), repeat=len(kept)))
    sums = (sum(rank for (rank, _), positive in zip(kept, change, strict=True) if positive) for change in changes)
    return sum(abs(total - middle) >= found - 1e-9 for total in sums) / len(changes)


def holm_by_definition(p_values):
    """The k-th smallest of n is multiplied by n - k + 1; none falls below its predecessor or exceeds 1."""
    adjusted, largest = {}, 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, p_values[index] * (len(p_values) - place)))
        adjusted[index] = largest
    return [adjusted[index] for index in range(len(p_values))]


def make_ranks(tasks, families, seed=0, ahead=0.0):
    values = np.random.default_rng(seed).normal(size=(tasks, families))
    values[:, 0] -= ahead
    return pd.DataFrame(values, columns=[f"family {index}" for index in range(families)]).rank(axis=1)


@given(st.lists(HALVES, min_size=1, max_size=7))
def test_few_differences_are_tested_exactly_with_zeros_ranked_and_dropped(differences):
    found = signed_rank_p_value(np.array(differences))
    assert found == pytest.approx(p_value_by_definition(differences))


@pytest.mark.parametrize("differences", [[1.5, -0.5, 0.0, 2.0, 2.0, -3.0], [1.0, 2.0, 3.0, -4.0], [0.0, 0.0, 1.0, 2.0]])
def test_few_differences_have_the_p_value_of_scipy(differences):
    assert signed_rank_p_value(np.array(differences)) == pytest.approx(
        wilcoxon(differences, zero_method="pratt").pvalue
    )


def test_many_differences_have_the_p_value_of_scipy_by_pratt():
    difference = np.random.default_rng(3).integers(-5, 8, 40) / 2
    assert (difference == 0).any()
    assert signed_rank_p_value(difference) == wilcoxon(difference, zero_method="pratt").pvalue
    assert signed_rank_p_value(difference) != wilcoxon(difference, zero_method="wilcox").pvalue


@pytest.mark.parametrize("tasks", [1, 5, 13, 14, 82])
def test_families_that_always_tie_do_not_differ(tasks):
    ranks = pd.DataFrame({"a": [2.0] * tasks, "b": [2.0] * tasks, "c": [2.0] * tasks})
    pairs = compare_pairs(ranks)
    assert (pairs["p_value"] == 1.0).all()
    assert (pairs["p_holm"] == 1.0).all()
    assert (pairs["ties"] == tasks).all()
    assert not pairs["significant"].any()
    if tasks > 1:
        assert (compare_all(ranks).statistic, compare_all(ranks).p_value) == (0.0, 1.0)


def test_friedman_equals_its_formula_where_nothing_ties():
    ranks = make_ranks(tasks=12, families=5, ahead=0.8)
    found = compare_all(ranks)
    n, k = ranks.shape
    statistic = 12 * n / (k * (k + 1)) * sum((mean - (k + 1) / 2) ** 2 for mean in ranks.mean())
    assert found.statistic == pytest.approx(statistic)
    assert found.p_value == pytest.approx(chi2.sf(statistic, k - 1))
    assert (found.tasks, found.families) == (n, k)


def test_pairs_state_their_effect_and_their_counts():
    ranks = pd.DataFrame({"a": [1.0, 1.0, 2.5, 3.0], "b": [2.0, 3.0, 2.5, 1.0], "c": [3.0, 2.0, 1.0, 2.0]})
    pairs = compare_pairs(ranks).set_index(["first", "second"])
    assert list(pairs.index) == [("a", "b"), ("a", "c"), ("b", "c")]
    first = pairs.loc[("a", "b")]
    assert first["difference"] == pytest.approx(ranks["a"].mean() - ranks["b"].mean())
    assert (first["wins"], first["ties"], first["losses"]) == (2, 1, 1)


@pytest.mark.parametrize(("seed", "families"), [(0, 2), (1, 4), (2, 5)])
def test_holm_equals_its_definition(seed, families):
    pairs = compare_pairs(make_ranks(tasks=16, families=families, seed=seed, ahead=1.5))
    expected = holm_by_definition(pairs["p_value"].tolist())
    assert pairs["p_holm"].tolist() == pytest.approx(expected)
    assert pairs["significant"].tolist() == [value <= 0.05 for value in expected]


def test_the_matrix_of_p_values_is_symmetric_and_holds_every_pair():
    pairs = compare_pairs(make_ranks(tasks=20, families=4, ahead=2.0))
    matrix = fill_matrix(pairs)
    assert (matrix == matrix.T).all(axis=None)
    assert (np.diag(matrix) == 1.0).all()
    for row in pairs.itertuples():
        assert matrix.loc[row.second, row.first] == row.p_holm


def test_the_order_of_families_changes_signs_and_nothing_else():
    ranks = make_ranks(tasks=15, families=4, seed=5, ahead=1.0)
    forth, back = compare_pairs(ranks), compare_pairs(ranks[ranks.columns[::-1]])
    one, other = (fill_matrix(pairs).sort_index().sort_index(axis=1) for pairs in (forth, back))
    pd.testing.assert_frame_equal(one, other)
    assert sorted(forth["difference"]) == pytest.approx(sorted(-back["difference"]))


def test_on_the_papers_table_alphabet_leads_seven_families_significantly_and_ties_with_s4d_and_s5():
    pairs = compare_pairs(rank_tasks(read_paper()))
    against = pairs[pairs["first"] == "alphabet"].set_index("second")
    assert (against["difference"] < 0).all()
    assert sorted(against.index[~against["significant"]]) == ["s4d", "s5"]
    assert compare_all(rank_tasks(read_paper())).p_value < 1e-9


def test_too_few_families_or_tasks_are_refused():
    with pytest.raises(StudyError, match="needs 3 families and 2 tasks; got 2 and 5"):
        compare_all(make_ranks(tasks=5, families=2))
    with pytest.raises(StudyError, match="pairs need 2 families and a task; got 1 and 5"):
        compare_pairs(make_ranks(tasks=5, families=1))
