import io
import json
import math

import numpy as np
import pandas as pd
import pytest
from alphabet_study.errors import StudyError
from alphabet_study.page import NOTHING_YET, markdown_table, read_reasons, result_table, write_page
from alphabet_study.protocol.settings import PAPER, SMALL
from alphabet_study.registry import TASKS as REGISTRY
from alphabet_study.registry.task import Task
from alphabet_study.statistics import TITLES, compare_with_paper, read_fits, read_paper, summarize_finals
from alphabet_study.statistics.paper import LEAST_SD
from rich.console import Console

NAMES = ("ACSF1", "Coffee", "Rock")


def make_task(name, metric="balanced_accuracy"):
    return Task(
        name=name, suite="UCR", title=name, objective="forecasting" if metric == "mse" else "classification",
        metric=metric, selection_metric=metric, split="stratified", final_training="full-train", channels=1, length=9,
        outputs=2, train_size=9, test_size=9, source="here", citation="none", reader="ts",
    )  # fmt: skip


TASKS = {name: make_task(name) for name in NAMES}


def make_fits(task, family, values, *, metric="balanced_accuracy", seeds=PAPER.final_seeds, **changes):
    screen = {"stage": "screen", "slot": 0, "seed": 7, "test": "{}", "frozen": None, "train_epochs": None}
    final = {"stage": "final", "slot": 0, "frozen": "f00d", "train_epochs": 40}
    position = list(TITLES).index(family.removesuffix("-adapted"))
    shared = {
        "task": task, "family": family, "candidate": f"{family}/064/16/B", "status": "done", "reason": None,
        "score": 0.5, "validation_loss": 0.7, "best_epoch": 40, "epochs": 48, "parameters": 5000 + 100 * position,
        "path": "fused", "seconds": 36.0, "finished": "2026-11-17T10:00:00Z", "machine": "a processor",
        "sources": "0123456789abcdef",
    }  # fmt: skip
    rows = [{**shared, **screen}]
    for seed, value in zip(seeds, values, strict=True):
        test = json.dumps({metric: value, "accuracy": 0.0})
        rows.append({**shared, **final, "seed": seed, "test": test, **changes})
    return pd.DataFrame(rows)


def make_campaign(*, families=tuple(TITLES), tasks=NAMES, shift=0.0):
    """Five finals around the paper's mean of every cell, spread by .01."""
    paper = read_paper().set_index(["task", "family"])["value"]
    spread = np.array([-0.01, -0.005, 0.0, 0.005, 0.01])
    return pd.concat(
        [make_fits(task, family, paper[task, family] + shift + spread) for task in tasks for family in families],
        ignore_index=True,
    )


def cells_of(page, heading):
    """The rows of the first table under a heading, each as a dict by column."""
    lines = iter(page[page.index(f"\n## {heading}\n") :].splitlines())
    table = []
    for line in lines:
        if line.startswith("|"):
            table.append([cell.strip() for cell in line.strip("|").split(" | ")])
        elif table:
            break
    return [dict(zip(table[0], row, strict=True)) for row in table[2:]]


def test_a_cell_is_the_mean_and_sample_deviation_of_its_final_seeds():
    values = [0.5, 0.6, 0.7, 0.8, 0.9]
    (row,) = summarize_finals(make_fits("Rock", "gru", values), TASKS).itertuples()
    assert (row.task, row.family, row.metric, row.direction) == ("Rock", "gru", "balanced_accuracy", "max")
    assert row.value == pytest.approx(0.7)
    assert row.sd == pytest.approx(math.sqrt(sum((value - 0.7) ** 2 for value in values) / 4))
    assert (row.n, row.candidate, row.epochs, row.parameters) == (5, "gru/064/16/B", 40, 5800)
    assert (row.path, row.incomplete) == ("fused", "")


def test_fits_come_through_a_file_unchanged(tmp_path):
    fits = make_campaign(tasks=("Rock",), families=("alphabet", "gru"))
    fits["frozen"] = fits["frozen"].where(fits["frozen"].isna(), "1234567890")
    fits.loc[0, "reason"] = "nan"
    fits.to_csv(tmp_path / "fits.csv", index=False)
    read = read_fits(tmp_path / "fits.csv")
    assert read.loc[0, "reason"] == "nan"
    assert read["frozen"].dropna().unique().tolist() == ["1234567890"]
    pd.testing.assert_frame_equal(summarize_finals(read, TASKS), summarize_finals(fits, TASKS))
    with pytest.raises(StudyError, match=r"absent\.csv cannot be read as fits"):
        read_fits(tmp_path / "absent.csv")


def test_rows_of_python_objects_give_the_same_summary():
    fits = make_fits("Rock", "gru", [0.5] * 5).assign(best_epoch=None)
    objects = fits.astype(object).where(fits.notna(), None)
    (row,) = summarize_finals(objects, TASKS).itertuples()
    assert (row.epochs, row.parameters) == (48.0, 5800.0)


def test_a_campaign_without_fits_gives_an_empty_table_and_page(tmp_path):
    fits = make_fits("Rock", "gru", [0.5] * 5).iloc[:0]
    results = summarize_finals(fits, TASKS)
    assert len(results) == 0
    assert result_table(results).row_count == 0
    write_page(results, read_paper(), fits, tmp_path / "page.md")
    assert "No cell of ALPHABET is complete." in (tmp_path / "page.md").read_text(encoding="utf-8")


def test_incomplete_cells_are_refused_by_name_or_listed_without_a_value():
    whole = make_fits("ACSF1", "alphabet", [0.5] * 5)
    short = make_fits("Rock", "gru", [0.5] * 3, seeds=(23, 31, 43))
    short.loc[3, ["status", "reason", "test"]] = ["failed", "out of memory", "{}"]
    screened = make_fits("Coffee", "s5", [0.5] * 5).iloc[:1]
    fits = pd.concat([whole, short, screened], ignore_index=True)
    with pytest.raises(
        StudyError, match=r"2 of 3 cells.*Rock/gru .*seed 43 failed: out of memory; seed 47 missing"
    ) as error:
        summarize_finals(fits, TASKS)
    assert "Coffee/s5 (no final yet)" in str(error.value)
    assert "ACSF1" not in str(error.value)
    partial = summarize_finals(fits, TASKS, partial=True).set_index("task")
    assert partial["value"].isna().to_dict() == {"ACSF1": False, "Rock": True, "Coffee": True}
    assert partial["n"].to_dict() == {"ACSF1": 5, "Rock": 2, "Coffee": 0}


def test_the_settings_say_which_seeds_a_cell_needs():
    fits = make_fits("Rock", "gru", [0.5, 0.7], seeds=SMALL.final_seeds)
    assert summarize_finals(fits, TASKS, settings=SMALL)["value"].tolist() == [pytest.approx(0.6)]
    with pytest.raises(StudyError, match="seed 43 missing"):
        summarize_finals(fits, TASKS)
    with pytest.raises(StudyError, match=r"finals of others: Rock/gru/final/0/43"):
        summarize_finals(make_fits("Rock", "gru", [0.5] * 5), TASKS, settings=SMALL)


@pytest.mark.parametrize(
    ("fits", "message"),
    [
        (make_fits("Rock", "gru", [0.5] * 5).assign(frozen=list("abcdef")), "several frozen configurations"),
        (make_fits("Rock", "gru", [0.5] * 5, metric="mse"), r"Rock/gru, seed 23: test must be .*balanced_accuracy"),
        (make_fits("Rock", "gru", [0.5, 0.5, math.nan, 0.5, 0.5]), "seed 43: balanced_accuracy must be finite"),
        (pd.concat([make_fits("Rock", "gru", [0.5] * 5)] * 2), "several of Rock/gru/screen/0/7"),
        (make_fits("Stone", "gru", [0.5] * 5), "not in the registry: Stone"),
        (make_fits("Rock", "gru", [0.5] * 5).drop(columns="test"), "lacks test"),
    ],
)
def test_fits_that_give_no_result_are_refused(fits, message):
    with pytest.raises(StudyError, match=message):
        summarize_finals(fits, TASKS)


def make_results(**columns):
    return pd.DataFrame({"task": ["t"], "family": ["gru"], "direction": ["max"], "value": [0.7], **columns})


def make_paper(**columns):
    return pd.DataFrame(
        {"task": ["t"], "family": ["gru"], "direction": ["max"], "value": [0.6], "sd": [0.04], **columns}
    )


@pytest.mark.parametrize(
    ("value", "sd", "direction", "deviations", "verdict"),
    [
        (0.70, 0.04, "max", 2.5, "ahead"),
        (0.70, 0.06, "max", 0.1 / 0.06, "within"),
        (0.50, 0.04, "max", -2.5, "behind"),
        (0.50, 0.04, "min", 2.5, "ahead"),
        (0.61, 0.0, "max", 0.01 / LEAST_SD, "within"),
        (0.62, 0.0, "max", 0.02 / LEAST_SD, "ahead"),
        (0.60, 0.0, "max", 0.0, "within"),
    ],
)
def test_differences_are_in_the_papers_deviations_with_a_floor_and_positive_is_better(
    value, sd, direction, deviations, verdict
):
    ours = make_results(value=[value], direction=[direction])
    (row,) = compare_with_paper(ours, make_paper(sd=[sd], direction=[direction])).itertuples()
    assert row.deviations == pytest.approx(deviations)
    assert (row.paper, row.paper_sd, row.verdict) == (0.6, sd, verdict)


def test_the_registry_names_and_directs_its_tasks_as_the_paper_does():
    paper = read_paper().drop_duplicates("task").set_index("task")["direction"].to_dict()
    assert {task.name: task.direction for task in REGISTRY.values()} == paper


def test_tasks_that_the_paper_names_or_measures_otherwise_are_refused():
    with pytest.raises(StudyError, match="no result for pam/gru; name tasks as it does"):
        compare_with_paper(make_results(task=["pam"]), make_paper())
    with pytest.raises(StudyError, match="other direction for t"):
        compare_with_paper(make_results(), make_paper(direction=["min"]))


def test_what_the_paper_does_not_have_is_never_compared_with_it():
    results = pd.concat(
        [make_results(), make_results(family=["alphabet-adapted"]), make_results(value=[math.nan], task=["u"])]
    )
    assert compare_with_paper(results, make_paper())["family"].tolist() == ["gru"]


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """A page of ten families on three tasks, our extension and one incomplete cell; ALPHABET is far ahead on ACSF1."""
    fits = make_campaign()
    high = [0.89, 0.90, 0.91, 0.92, 0.93]
    fits = fits[~((fits["task"] == "ACSF1") & (fits["family"] == "alphabet"))]
    more = [
        make_fits("ACSF1", "alphabet", high), make_fits("ACSF1", "alphabet-adapted", [0.95] * 5),
        make_fits("Adiac", "alphabet", [0.5] * 4, seeds=PAPER.final_seeds[:4]),
    ]  # fmt: skip
    fits = pd.concat([fits, *more], ignore_index=True)
    results = summarize_finals(fits, {**TASKS, "Adiac": make_task("Adiac")}, partial=True)
    out = tmp_path_factory.mktemp("docs") / "results.md"
    written = write_page(results, read_paper(), fits, out, reasons={"ACSF1": "another | start"})
    return fits, results, out, written


def test_the_page_shows_ours_beside_the_papers_with_reasons_where_they_differ(campaign):
    _, _, out, _ = campaign
    page = out.read_text(encoding="utf-8")
    (summary,) = (row for row in cells_of(page, "ALPHABET beside the paper") if row["family"] == "ALPHABET")
    assert (summary["tasks"], summary["ahead"], summary["within"], summary["behind"]) == ("3", "1", "2", "0")
    assert summary["mean difference"] == f"{(0.91 - 0.788) / 3:+.4f}"
    assert summary["median difference"] == "+0.0000"
    body = page[page.index("*Ahead*") :]
    rows = {row["task"]: row for row in cells_of("\n## x\n" + body, "x")}
    acsf = rows["ACSF1"]
    assert (acsf["ours"], acsf["paper"], acsf["difference"]) == ("0.910 (0.016)", "0.788 (0.020)", "+0.122")
    assert (acsf["in SD"], acsf[""], acsf["reason"]) == ("**+6.1**", "ahead", "another \\| start")
    assert (acsf["candidate"], acsf["epochs"], acsf["parameters"]) == ("`alphabet/064/16/B`", "40", "5,000")
    assert (acsf["path"], acsf["seeds"], acsf["alphabet-adapted"]) == ("fused", "5", "0.950 (0.000)")
    assert (rows["Rock"]["in SD"], rows["Rock"]["reason"], rows["Rock"]["alphabet-adapted"]) == ("+0.0", "", "–")


def test_the_page_ranks_the_tasks_that_all_ten_families_have(campaign):
    _, _, out, written = campaign
    page = out.read_text(encoding="utf-8")
    ranks = cells_of(page, "Ranks")
    assert [row["task"] for row in ranks] == list(NAMES)
    assert set(ranks[0]) == {"task", *TITLES.values()}
    assert ranks[0]["ALPHABET"] == "**1**"
    means = {row["family"]: row for row in cells_of("\n## x\n" + page[page.index("Mean ranks on these") :], "x")}
    ours = [float(row["ALPHABET"].strip("*")) for row in ranks]
    assert means["ALPHABET"]["mean rank"] == f"{sum(ours) / 3:.2f}"
    # The paper's own: first on ACSF1, one of two that share the first place on Coffee, seventh on Rock.
    assert means["ALPHABET"]["paper's mean rank"] == f"{(1 + 1.5 + 7) / 3:.2f}"
    assert "Friedman over 3 tasks" in page
    assert "even one that is ahead on all 3 would have an adjusted p-value of 1." in page
    pictures = [path for path in written if path.suffix == ".png"]
    assert len(pictures) == 2
    for picture in pictures:
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert f"]({picture.name})" in page
    assert "alphabet-adapted" not in page[page.index("\n## Ranks") :]


def test_the_page_lists_what_is_not_complete_and_counts_fits(campaign):
    fits, _, out, _ = campaign
    page = out.read_text(encoding="utf-8")
    assert "- Adiac/alphabet: seed 59 missing" in page
    assert f"{len(fits)} fits of 32 cells" in page
    assert f"{len(fits) * 36 / 3600:.1f} hours" in page
    assert "fused in 23 fits" in page
    assert "there are cells with 6 fits, where the paper's protocol has 35 in each" in page


def test_the_page_says_what_the_papers_table_gives_beside_what_is_published(campaign):
    rows = cells_of(campaign[2].read_text(encoding="utf-8"), "The paper's own table, recomputed")
    found = {row["tied families count"]: (row["mean rank"], row["Top-1"], row["Top-3"]) for row in rows}
    assert list(found.values()) == [
        ("3.92", "15", "44"),
        ("3.92", "15", "43"),
        ("3.92", "22", "47"),
        ("3.97", "14", "43"),
    ]


@pytest.mark.slow
def test_the_same_records_give_the_same_page(campaign, tmp_path):
    fits, results, _, written = campaign
    again = write_page(results, read_paper(), fits, tmp_path / "results.md", reasons={"ACSF1": "another | start"})
    assert [path.name for path in again] == [path.name for path in written]
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in written]


def test_a_page_of_one_family_has_no_ranks_and_owes_a_reason_for_each_flag(tmp_path):
    fits = make_campaign(families=("alphabet",), shift=-0.2)
    results = summarize_finals(fits, TASKS)
    assert write_page(results, read_paper(), fits, tmp_path / "new" / "page.md") == [tmp_path / "new" / "page.md"]
    page = (tmp_path / "new" / "page.md").read_text(encoding="utf-8")
    assert "## Ranks" not in page
    assert "Not complete" not in page
    assert page.count(NOTHING_YET) == page.count("| behind |") - 1  # the summary has a column of that name
    assert page.count(NOTHING_YET) >= 2


def test_reasons_are_texts_by_task_or_cell_of_the_results(tmp_path):
    path = tmp_path / "reasons.toml"
    path.write_text('Rock = "few series"\n"Rock/alphabet" = "its own"\n')
    assert read_reasons(path) == {"Rock": "few series", "Rock/alphabet": "its own"}
    fits = make_campaign(families=("alphabet",), tasks=("Rock",))
    results = summarize_finals(fits, TASKS)
    write_page(results, read_paper(), fits, tmp_path / "page.md", reasons=read_reasons(path))
    assert "its own" in (tmp_path / "page.md").read_text(encoding="utf-8")
    with pytest.raises(StudyError, match="not among the results: Stone; correct or remove"):
        write_page(results, read_paper(), fits, tmp_path / "page.md", reasons={"Stone": "hard"})
    path.write_text("Rock = 3\n")
    with pytest.raises(StudyError, match='write Rock = "the reason"; got 3'):
        read_reasons(path)
    path.write_text("Rock =")
    with pytest.raises(StudyError, match=r"reasons\.toml cannot be read as TOML"):
        read_reasons(path)


def test_the_terminal_table_has_every_cell_and_says_what_is_incomplete(campaign):
    _, results, _, _ = campaign
    written = io.StringIO()
    table = result_table(results)
    Console(width=250, file=written).print(table)
    shown = written.getvalue()
    assert table.row_count == len(results)
    assert "0.910 (0.016)" in shown
    assert "incomplete: seed 59 missing" in shown
    assert "Transformer" in shown


def test_markdown_cells_cannot_break_their_table():
    table = markdown_table(["task", "n"], [["a|b\nc", "1"]], texts=("task",))
    assert table == "| task | n |\n| :-- | --: |\n| a\\|b c | 1 |"


def test_brackets_in_a_reason_are_shown_as_they_are():
    fits = make_fits("Rock", "gru", [0.5] * 5)
    last = fits.index[-1]
    fits.loc[last, ["status", "reason", "test"]] = ["failed", "cannot read [/data/x] [red]now", "{}"]
    written = io.StringIO()
    Console(width=250, file=written).print(result_table(summarize_finals(fits, TASKS, partial=True)))
    assert "cannot read [/data/x] [red]now" in written.getvalue()


def test_a_page_that_cannot_be_written_is_a_mistake_in_one_sentence(tmp_path):
    fits = make_fits("Rock", "gru", [0.5] * 5)
    (tmp_path / "file").touch()
    with pytest.raises(StudyError, match="cannot be written there"):
        write_page(summarize_finals(fits, TASKS), read_paper(), fits, tmp_path / "file" / "page.md")
