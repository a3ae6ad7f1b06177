import itertools

import numpy as np
import pandas as pd
import pytest
from alphabet_study.errors import StudyError
from alphabet_study.statistics import (
    TITLES,
    compare_pairs,
    fill_matrix,
    mean_ranks,
    plot_critical_differences,
    plot_rank_against_parameters,
    rank_tasks,
    read_paper,
)
from matplotlib.text import Annotation

SIZES = {name: 5000.0 * (place + 1) for place, name in enumerate(TITLES)}
CROWDED = dict.fromkeys(TITLES, 8000.0)


@pytest.fixture(scope="module")
def paper():
    return read_paper()


def boxes_of(figure, texts):
    figure.draw_without_rendering()
    return {text.get_text(): text.get_window_extent() for text in texts}


def assert_apart(figure, boxes):
    """Texts cover neither each other nor the figure's edge."""
    for (name, box), (other_name, other) in itertools.combinations(boxes.items(), 2):
        assert not box.overlaps(other), f"{name} covers {other_name}"
    for name, box in boxes.items():
        assert all(figure.bbox.contains(*corner) for corner in (box.min, box.max)), f"{name} is cut off"


@pytest.mark.parametrize("tasks", [10, 82])
def test_every_family_is_named_with_its_mean_rank_and_no_name_covers_another(paper, tasks):
    shown = paper[paper["task"].isin(paper["task"].unique()[:tasks])]
    figure = plot_critical_differences(shown)
    axes = figure.axes[0]
    boxes = boxes_of(figure, axes.texts)
    expected = {f"{TITLES[name]} {rank:.2f}" for name, rank in mean_ranks(rank_tasks(shown)).items()}
    found = {" ".join(sorted(text.split(), reverse=True)) for text in boxes}
    assert found == {" ".join(sorted(text.split(), reverse=True)) for text in expected}
    low, high = axes.get_xlim()
    ticks = boxes_of(figure, [label for label in axes.get_xticklabels() if low <= label.get_position()[0] <= high])
    assert_apart(figure, {**boxes, **ticks, **boxes_of(figure, [axes.title])})


def test_bars_join_exactly_the_families_that_do_not_differ(paper):
    ranks = rank_tasks(paper)
    means, matrix = mean_ranks(ranks), fill_matrix(compare_pairs(ranks))
    lines = plot_critical_differences(paper).axes[0].lines
    bars = [line.get_xdata() for line in lines if line.get_marker() == "o"]
    joined = set()
    for bar in bars:
        members = [name for name, rank in means.items() if any(abs(rank - x) < 1e-9 for x in bar)]
        assert len(members) == len(bar)
        joined |= {frozenset(pair) for pair in itertools.combinations(members, 2)}
    alike = {frozenset(pair) for pair in itertools.combinations(means.index, 2) if matrix.loc[pair] > 0.05}
    assert joined == alike
    assert frozenset(("alphabet", "s4d")) in joined
    assert frozenset(("alphabet", "tcn")) not in joined


@pytest.mark.parametrize("sizes", [SIZES, CROWDED], ids=["apart", "all equally large"])
def test_every_family_stands_at_its_size_and_mean_rank_with_a_name_that_covers_nothing(paper, sizes):
    figure = plot_rank_against_parameters(paper.assign(parameters=paper["family"].map(sizes)))
    axes = figure.axes[0]
    assert axes.get_xscale() == "log"
    dots = np.array(sorted(tuple(dots.get_offsets()[0]) for dots in axes.collections))
    expected = sorted((sizes[name], rank) for name, rank in mean_ranks(rank_tasks(paper)).items())
    np.testing.assert_allclose(dots, np.array(expected))
    names = [text for text in axes.texts if isinstance(text, Annotation)]
    assert {text.get_text() for text in names} == set(TITLES.values())
    assert_apart(figure, boxes_of(figure, names))


def test_the_size_of_a_family_is_its_median_over_tasks():
    frame = pd.DataFrame(
        [
            {"task": task, "family": family, "value": value, "direction": "max", "parameters": size}
            for task, size in (("a", 100), ("b", 300), ("c", 10_000))
            for family, value in (("alphabet", 0.9), ("gru", 0.8))
        ]
    )
    axes = plot_rank_against_parameters(frame).axes[0]
    assert sorted(tuple(dots.get_offsets()[0]) for dots in axes.collections) == [(300.0, 1.0), (300.0, 2.0)]


def test_what_cannot_be_drawn_is_refused(paper):
    with pytest.raises(StudyError, match="lacks parameters"):
        plot_rank_against_parameters(paper)
    with pytest.raises(StudyError, match="must be positive; they are not for alphabet"):
        plot_rank_against_parameters(paper[paper["family"].isin(["alphabet", "gru"])].assign(
            parameters=lambda frame: frame["family"].map({"alphabet": 0, "gru": 5})
        ))  # fmt: skip
    with pytest.raises(StudyError, match="at least 2 families"):
        plot_critical_differences(paper[paper["family"] == "alphabet"])
