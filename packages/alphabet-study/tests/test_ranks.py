import math

import numpy as np
import pandas as pd
import pytest
from alphabet_study.errors import StudyError
from alphabet_study.statistics import count_top, mean_ranks, rank_tasks, read_paper, summarize_ranks
from alphabet_study.statistics.paper import PUBLISHED, REPORTED, SELECTED, TITLES
from alphabet_study.statistics.ranks import rank_values
from hypothesis import given, settings
from hypothesis import strategies as st

# The paper's tolerances, written out here so that a change there is seen.
RTOL, ATOL = 1e-5, 1e-8
# Coarse steps make exact ties frequent; both signs and many magnitudes occur.
COARSE = st.integers(-40, 40).map(lambda step: step / 8)
TABLES = st.integers(1, 6).flatmap(
    lambda families: st.lists(st.lists(COARSE, min_size=families, max_size=families), min_size=1, max_size=5)
)


def make_frame(table, directions=None):
    directions = directions or ["max"] * len(table)
    return pd.DataFrame(
        [
            {"task": f"task {row}", "family": f"family {column}", "value": value, "direction": directions[row]}
            for row, values in enumerate(table)
            for column, value in enumerate(values)
        ]
    )


def rank_by_definition(values):
    """Ranks of a list, the smallest first, in plain loops: groups by chains of close pairs, then the mean place."""
    group = list(range(len(values)))
    changed = True
    while changed:
        changed = False
        for i, a in enumerate(values):
            for j, b in enumerate(values):
                if abs(a - b) <= ATOL + RTOL * max(abs(a), abs(b)) and group[i] != group[j]:
                    group[i] = group[j] = min(group[i], group[j])
                    changed = True
    ranks = []
    for i in range(len(values)):
        mine = [j for j in range(len(values)) if group[j] == group[i]]
        before = sum(1 for j, value in enumerate(values) if group[j] != group[i] and value < values[i])
        ranks.append(sum(range(before + 1, before + len(mine) + 1)) / len(mine))
    return ranks


@given(
    st.lists(COARSE, min_size=1, max_size=8),
    st.lists(st.sampled_from([0.0, 3e-9, 9e-9, 4e-6, 9e-6, 2e-5]), min_size=8, max_size=8),
)
def test_ranks_equal_their_definition_by_plain_loops(values, nudges):
    values = [value + nudge for value, nudge in zip(values, nudges, strict=False)]
    assert rank_values(np.array(values)).tolist() == rank_by_definition(values)


@settings(max_examples=20)
@given(TABLES)
def test_ranks_of_a_task_sum_to_those_of_distinct_values(table):
    families = len(table[0])
    assert (rank_tasks(make_frame(table)).sum(axis=1) == families * (families + 1) / 2).all()


@settings(max_examples=20)
@given(TABLES)
def test_ranks_depend_on_order_alone(table):
    # Steps of 1/8 stay far from each other under this map, so that no tie is made or undone.
    transformed = [[math.copysign(abs(value) ** 1.5, value) * 3 + 1 for value in row] for row in table]
    pd.testing.assert_frame_equal(rank_tasks(make_frame(transformed)), rank_tasks(make_frame(table)))


@settings(max_examples=20)
@given(TABLES, st.randoms(use_true_random=False))
def test_order_of_rows_changes_nothing(table, random):
    frame = make_frame(table)
    order = list(range(len(frame)))
    random.shuffle(order)
    expected = rank_tasks(frame)
    shuffled = rank_tasks(frame.iloc[order])
    pd.testing.assert_frame_equal(shuffled.loc[expected.index, expected.columns], expected)


@settings(max_examples=20)
@given(TABLES)
def test_a_negated_metric_to_be_minimized_gives_the_same_ranks(table):
    negated = [[-value for value in row] for row in table]
    flipped = rank_tasks(make_frame(negated, ["min"] * len(table)))
    pd.testing.assert_frame_equal(flipped, rank_tasks(make_frame(table)))


@settings(max_examples=20)
@given(TABLES)
def test_turning_the_direction_mirrors_the_ranks(table):
    mirrored = len(table[0]) + 1 - rank_tasks(make_frame(table))
    pd.testing.assert_frame_equal(rank_tasks(make_frame(table, ["min"] * len(table))), mirrored)


def test_each_task_follows_its_own_direction():
    ranks = rank_tasks(make_frame([[0.9, 0.5], [0.9, 0.5]], ["max", "min"]))
    assert ranks.to_numpy().tolist() == [[1.0, 2.0], [2.0, 1.0]]


def test_a_chain_of_close_values_is_one_tie_even_if_its_ends_are_apart():
    chain = [1.0, 1.0 + 8e-6, 1.0 + 16e-6]
    assert not np.isclose(chain[0], chain[2], rtol=RTOL, atol=ATOL)
    assert rank_tasks(make_frame([[*chain, 2.0]])).to_numpy().tolist() == [[3.0, 3.0, 3.0, 1.0]]


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(
    ("lower", "difference", "tied"),
    [
        (0.0, 0.9e-8, True),
        (0.0, 1.1e-8, False),
        (1.0, 1.00100005e-5, True),  # close by the larger magnitude alone, so the direction must not matter
        (1.0, 1.0011e-5, False),
        (1000.0, 0.9e-2, True),
        (1000.0, 1.1e-2, False),
    ],
)
def test_values_tie_within_the_papers_tolerances_in_both_directions(lower, difference, tied, sign):
    ranks = rank_values(sign * np.array([lower, lower + difference]))
    assert bool(ranks[0] == ranks[1]) == tied


@pytest.mark.parametrize(("ties", "expected"), [("average", 1.5), ("best", 1.0), ("worst", 2.0)])
def test_a_shared_place_counts_by_the_stated_rule(ties, expected):
    ranks = rank_tasks(make_frame([[0.5, 0.5, 0.1]]), ties=ties)
    assert ranks.iloc[0].tolist() == [expected, expected, 3.0]
    assert count_top(ranks, 1).tolist() == [int(expected <= 1.0)] * 2 + [0]


def test_missing_cells_are_refused_by_their_keys():
    frame = make_frame([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
    frame.loc[5, "value"] = math.nan
    with pytest.raises(StudyError, match=r"2 of 6 cells have no value.*task 0/family 1, task 2/family 1"):
        rank_tasks(frame.drop(index=1))
    with pytest.raises(StudyError, match="task 0/another, task 1/another"):
        rank_tasks(make_frame([[0.1], [0.3]]), families=["family 0", "another"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop(columns="direction"), "lacks direction"),
        (lambda frame: pd.concat([frame, frame.iloc[:1]]), "several for task 0/family 0"),
        (lambda frame: frame.assign(direction=["max", "min"]), r"task 0: direction must be max or min.*'max', 'min'"),
        (lambda frame: frame.assign(direction="up"), "direction must be max or min"),
        (lambda frame: frame.assign(value=[0.5, math.inf]), "must be finite.*task 0/family 1"),
    ],
)
def test_results_that_cannot_be_ranked_are_refused(change, message):
    with pytest.raises(StudyError, match=message):
        rank_tasks(change(make_frame([[0.5, 0.6]])))


def test_the_papers_table_is_complete_and_its_companion_rows_are_apart():
    paper = read_paper()
    assert len(paper) == 820
    assert set(paper["family"]) == set(TITLES)
    assert paper.groupby("suite")["task"].nunique().to_dict() == {"UCR": 30, "UEA-fault": 31, "general": 21}
    assert not paper.duplicated(["task", "family"]).any()
    companions = read_paper(SELECTED)
    assert companions["task"].nunique() == 7
    assert set(companions["task"]) < set(paper["task"])
    with pytest.raises(StudyError, match=f"role must be {REPORTED} or {SELECTED}"):
        read_paper("both")


def test_a_damaged_copy_of_the_papers_table_is_named(tmp_path):
    damaged = tmp_path / "table.csv"
    damaged.write_text("task,suite,role,metric,direction,family,mean,sd\nRock,UCR,report,Acc.,max,ALPHABET,much,0.1\n")
    with pytest.raises(StudyError, match=r"table\.csv is not the paper's table.*much"):
        read_paper(path=damaged)


def test_the_papers_table_puts_alphabet_first_and_s4d_second():
    means = mean_ranks(rank_tasks(read_paper()))
    assert list(means.index[:3]) == ["alphabet", "s4d", "s5"]
    assert round(means["alphabet"], 2) == 3.92
    assert round(means["s4d"], 2) == 4.11
    assert means.mean() == pytest.approx(5.5)


@pytest.mark.parametrize(("ties", "top_1", "top_3"), [("average", 15, 44), ("worst", 15, 43), ("best", 22, 47)])
def test_what_the_rounded_table_gives_for_the_published_counts(ties, top_1, top_3):
    """The paper says 14 and 43: the worst place is nearest, and no rule on the rounded table gives 14."""
    found = summarize_ranks(read_paper(), ties=ties).loc["alphabet"]
    assert (found["top_1"], found["top_3"]) == (top_1, top_3)


def test_the_published_mean_rank_is_one_that_rounding_allows():
    """Rounding only creates ties: the unrounded mean rank lies between those of the best and of the worst places."""
    best, worst = (rank_tasks(read_paper(), ties=ties)["alphabet"].mean() for ties in ("best", "worst"))
    assert best <= PUBLISHED["alphabet"].mean_rank <= worst
