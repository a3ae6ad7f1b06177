"""The command line, as its user sees it."""

import pytest
from alphabet_baselines.__main__ import main
from alphabet_testing.places import DOCS


@pytest.mark.slow
def test_match_prints_the_audits_table(capsys):
    main(["match"])
    printed = capsys.readouterr().out
    # The page holds the very table that `format_table` gives, as test_matching sees to: all of it, and nothing else.
    table = [line for line in (DOCS / "parameter-matching.md").read_text(encoding="utf-8").splitlines() if "|" in line]
    assert [line for line in printed.splitlines() if "|" in line] == table
    assert printed in (DOCS / "parameter-matching.md").read_text(encoding="utf-8")


def test_match_finds_a_target(capsys):
    main(["match", "--target", "6437", "--family", "gru", "lstm"])
    gru, lstm = capsys.readouterr().out.splitlines()
    assert gru.split() == ["gru", "choice", "(1,", "16)", "width", "42", "6,431", "-0.09%"]
    assert lstm.startswith("lstm ")


def test_candidates_are_listed_with_their_sizes(capsys):
    main(["candidates", "alphabet"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 18
    assert lines[6].split() == ["alphabet/064/16/A", "6,437", "parameters"]


def test_the_control_reports_every_seed_and_the_published_value_where_it_applies(capsys, monkeypatch):
    main(["spectral-control", "--family", "lru", "--seeds", "23", "--epochs", "1"])
    printed = capsys.readouterr().out
    assert "lru seed  23: balanced accuracy" in printed
    assert "published" not in printed  # one epoch of one seed is not the protocol of that value
    monkeypatch.setattr("alphabet_baselines.__main__.spectral_control_scores", lambda *_, **__: [(0.8, 0.9)])
    main(["spectral-control", "--family", "lru"])
    assert capsys.readouterr().out.endswith("lru: mean 0.800; published 0.787, difference +0.013\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["match", "--target", "0"], "target must be a positive number of parameters; got 0"),
        (["match", "--target", "9", "--channels", "0"], "channels must be a positive integer; got 0"),
        (["match", "--family", "gru"], "--family, --channels and --outputs need a --target"),
        (["spectral-control", "--epochs", "0"], "--epochs must be at least 1; got 0"),
        (["spectral-control", "--eps", "1.5"], "--eps must lie strictly between 0 and 1; got 1.5"),
        (["candidates", "rnn"], "invalid choice: 'rnn'"),
        ([], "command"),
    ],
)
def test_a_mistake_is_explained(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
