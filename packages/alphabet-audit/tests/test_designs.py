"""The designs are the specification's, and what is wrong with a file of designs or tolerances is said in words."""

import pytest
from alphabet_audit import AuditError, geometric_mean, read_declarations
from alphabet_audit.declare.candidates import read_candidates
from alphabet_audit.declare.designs import ALL_CELLS, ALL_GROUPS, ALL_ROWS, Shape, parse_designs
from alphabet_audit.declare.executions import read_executions
from alphabet_audit.measure.candidates import resolve_candidate
from alphabet_audit.protocol.plan import Plan
from alphabet_audit.protocol.repeats import PROTOCOL
from alphabet_audit.show.paper import read_paper
from alphabet_baselines import FAMILIES
from alphabet_baselines.matching import DESIGN_CHANNELS, DESIGN_OUTPUTS, DESIGN_WIDTHS

DECLARED = read_declarations()


def test_the_shapes_are_the_specifications():
    matched = {(d.shape.batch, d.shape.length, d.shape.width) for d in DECLARED.designs.select("parameter-matched")}
    assert matched == {
        *((batch, 512, 64) for batch in (1, 8, 32, 64)),
        *((32, length, 64) for length in (128, 512, 2048)),
        *((32, 512, width) for width in (16, 32, 64, 128)),
    }
    assert [design.key for design in DECLARED.designs.select("same-width")] == ["same-width 32/512/64"]
    assert (DECLARED.designs.channels, DECLARED.designs.outputs) == (2, 5)
    assert DECLARED.designs.calibration == Shape(4, 256, 64)
    assert all(design.shape.modes == design.shape.width // 4 for design in DECLARED.designs.designs)


def test_the_families_are_the_registrys_in_its_order():
    assert dict(DECLARED.designs.families) == {name: family.title for name, family in FAMILIES.items()}


def test_the_ledger_has_ninety_cells():
    plan = Plan("all", DECLARED)
    assert len({(row.design, row.family) for row in plan.rows}) == ALL_CELLS == 90
    assert len(plan.rows) == ALL_ROWS == 180
    assert len(plan.rows) * PROTOCOL.groups == ALL_GROUPS == 1260
    assert len(plan.null_rows) == 20
    assert len({row.key for row in (*plan.rows, *plan.null_rows)}) == 200


@pytest.mark.parametrize(("phase", "published"), [("inference", 5.02), ("step", 3.93)])
def test_the_papers_headline_is_the_geometric_mean_of_its_same_width_row(phase, published):
    paper = read_paper(DECLARED.designs)
    ratios = [
        ratio for (design, _, which), ratio in paper.cells.items() if design.startswith("same") and which == phase
    ]
    assert len(ratios) == 9
    assert round(geometric_mean(ratios), 2) == published
    assert paper.mean("same-width 32/512/64", phase) == pytest.approx(geometric_mean(ratios))


def test_the_papers_ledger_has_every_cell_of_ours():
    paper = read_paper(DECLARED.designs)
    assert set(paper.cells) == {(row.design.key, row.family, row.phase) for row in Plan("all", DECLARED).rows}


def test_candidates_are_matched_in_size_or_take_the_first_choice():
    matched = resolve_candidate(DECLARED.designs, "parameter-matched", "s5", 16)
    assert (matched.width, matched.choice, matched.parameters) == (14, (1, 16), 869)
    assert matched.gap == pytest.approx(869 / 845 - 1.0)
    same = resolve_candidate(DECLARED.designs, "same-width", "tcn", 64)
    assert (same.width, same.choice) == (64, FAMILIES["tcn"].choices[0])
    assert resolve_candidate(DECLARED.designs, "same-width", "alphabet", 64).parameters == 6437


def test_a_scope_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(
        AuditError, match="--row 'same' is not in the ledger; use one of all, parameter-matched, same-width"
    ):
        DECLARED.designs.select("same")


FIELDS = {
    "channels": 2,
    "outputs": 5,
    "calibration": [4, 256, 64],
    "families": {"gru": "GRU"},
    "shapes": {"same-width": [[32, 512, 64]]},
}
BAD = {
    "length": ({"shapes": {"same-width": [[32, 0, 64]]}}, "length of a shape must be a positive integer; got 0"),
    "modes": ({"shapes": {"same-width": [[32, 512, 66]]}}, "multiple of four"),
    "short": ({"shapes": {"same-width": [[32, 512]]}}, "here: TypeError"),
    "sizing": ({"shapes": {"wide": [[32, 512, 64]]}}, "a design must be one of parameter-matched, same-width"),
    "twice": ({"shapes": {"same-width": [[32, 512, 64], [32, 512, 64]]}}, "listed twice"),
    "on the grid": ({"calibration": [32, 512, 64]}, "is also the shape of a design"),
    "no families": ({"families": None}, "here: AttributeError"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_of_designs_is_refused_in_words(name):
    changes, message = BAD[name]
    with pytest.raises(AuditError, match=message):
        parse_designs({**FIELDS, **changes}, "here")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[logits]\nfloor = 1e-6\nslack = 3.0\n", "each tolerance needs floor, slack, ceiling and reason"),
        ("[logits]\nfloor = 1e-6\nslack = 3.0\nceiling = 1.0\nreason = ''\n", "has no reason"),
        ("[logits]\nfloor = -1.0\nslack = 3.0\nceiling = 1.0\nreason = 'x'\n", "floor of tolerance 'logits' must be"),
        ("[logits]\nfloor = nan\nslack = 3.0\nceiling = 1.0\nreason = 'x'\n", "got nan"),
        ("[logits\n", "is not a TOML file"),
    ],
)
def test_bad_tolerances_are_refused_in_words(text, message, tmp_path):
    (tmp_path / "designs.toml").write_bytes(DECLARED.contents["designs.toml"])
    (tmp_path / "tolerances.toml").write_text(text)
    with pytest.raises(AuditError, match=message):
        read_declarations(tmp_path)


def test_a_folder_without_declarations_is_refused(tmp_path):
    with pytest.raises(AuditError, match="give --audit the folder that holds it"):
        read_declarations(tmp_path)


def test_the_packages_own_declarations_are_found_from_anywhere_unless_a_folder_is_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert read_declarations().digests == DECLARED.digests
    for name, content in DECLARED.contents.items():
        (tmp_path / name).write_bytes(content.replace(b"slack = 3.0", b"slack = 4.0").replace(b'"GRU"', b'"gru"'))
    given = read_declarations(tmp_path)
    assert all(given.digests[name] != digest for name, digest in DECLARED.digests.items())
    assert (given.source, read_declarations().source) == (str(tmp_path), "alphabet-audit's own")


def test_a_comment_or_a_better_reason_changes_no_digest(tmp_path):
    for name, content in DECLARED.contents.items():
        (tmp_path / name).write_bytes(b"# a comment\n\n" + content.replace(b"Absolute.", b"In units of a logit."))
    assert read_declarations(tmp_path).digests == DECLARED.digests


def test_the_order_of_families_is_part_of_what_is_declared(tmp_path):
    for name, content in DECLARED.contents.items():
        swapped = content.replace(b'cnn1d = "CNN1D"\ntcn = "TCN"', b'tcn = "TCN"\ncnn1d = "CNN1D"')
        (tmp_path / name).write_bytes(swapped)
    assert read_declarations(tmp_path).digests["designs"] != DECLARED.digests["designs"]


def test_the_declared_executions_are_the_algorithms_of_the_families():
    assert read_executions().algorithms == {name: family.algorithms for name, family in FAMILIES.items()}


@pytest.mark.slow
def test_the_declared_candidates_are_those_that_the_families_give():
    table = read_candidates()
    assert len(table) == 50
    for (sizing, width, family), declared in table.items():
        found = resolve_candidate(DECLARED.designs, sizing, family, width)
        assert (found.choice, found.width, found.parameters) == (declared.choice, declared.width, declared.parameters)
    assert {(design.sizing, design.shape.width) for design in DECLARED.designs.designs} == {key[:2] for key in table}


def test_the_baselines_table_of_matches_is_for_these_designs():
    designs = DECLARED.designs
    assert set(DESIGN_WIDTHS) == {design.shape.width for design in designs.designs}
    assert (designs.channels, designs.outputs) == (DESIGN_CHANNELS, DESIGN_OUTPUTS)


def test_every_tolerance_has_its_reason_and_is_used():
    from alphabet_audit.declare.quantities import GATE_QUANTITIES, family_quantities

    used = {rule for wanted in GATE_QUANTITIES.values() for rule in wanted.values()}
    used |= {rule for phase in ("inference", "step") for rule in family_quantities(phase).values()}
    assert used == set(DECLARED.tolerances)
    assert all(len(rule.reason) > 20 for rule in DECLARED.tolerances.values())
