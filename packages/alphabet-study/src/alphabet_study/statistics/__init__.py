"""Statistics of results: from fits to means, ranks, tests and pictures.

summary       finals of fits as one row per cell            ranks         ranks by task, mean ranks, Top-1 and Top-3
significance  Friedman, signed-rank tests, Holm             figures       critical differences, rank against parameters
paper         the paper's table, and ours beside it
"""

from alphabet_study.statistics.figures import plot_critical_differences, plot_rank_against_parameters
from alphabet_study.statistics.paper import TITLES, compare_with_paper, read_paper
from alphabet_study.statistics.ranks import count_top, mean_ranks, rank_tasks, summarize_ranks
from alphabet_study.statistics.significance import Friedman, compare_all, compare_pairs, fill_matrix
from alphabet_study.statistics.summary import read_fits, summarize_finals

__all__ = [
    "TITLES",
    "Friedman",
    "compare_all",
    "compare_pairs",
    "compare_with_paper",
    "count_top",
    "fill_matrix",
    "mean_ranks",
    "plot_critical_differences",
    "plot_rank_against_parameters",
    "rank_tasks",
    "read_fits",
    "read_paper",
    "summarize_finals",
    "summarize_ranks",
]
