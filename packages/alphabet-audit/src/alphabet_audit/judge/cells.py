"""Whether every cell compares the candidate that is declared for it, with its size."""

import math

from alphabet_audit.declare.candidates import read_candidates
from alphabet_audit.declare.designs import ALPHABET, MATCHED, Design
from alphabet_audit.evidence.canonical import Record
from alphabet_audit.judge.run import Reasons, Run

# The paper's largest gap of parameter counts.
LARGEST_GAP = 0.053
# The sizes by which candidates.csv was counted.
DECLARED_CHANNELS, DECLARED_OUTPUTS = 2, 5


def check_cells(run: Run) -> Reasons:
    """Every cell's candidate is listed with its size, near ALPHABET's where it was matched; yields what is not so."""
    cells = run.manifest["cells"]
    if set(cells) != {design.key for design in run.plan.designs}:
        yield "the manifest lists parameter counts of other designs than those that were run"
        return
    sizes: dict[tuple[object, ...], int] = {}
    for design in run.plan.designs:
        entries = cells[design.key]
        if set(entries) != {ALPHABET, *run.plan.families}:
            yield f"{design.key}: parameter counts are not those of the nine families and ALPHABET"
            continue
        target = entries[ALPHABET]["parameters"]
        for family, entry in entries.items():
            yield from (f"{design.key} {family}: {reason}" for reason in check_cell(run, design, family, entry))
            same = entry["family"], tuple(entry["choice"]), entry["width"]
            if sizes.setdefault(same, entry["parameters"]) != entry["parameters"]:
                yield f"{design.key} {family}: has {entry['parameters']} parameters, and {sizes[same]} elsewhere"
            if not math.isclose(entry["gap"], entry["parameters"] / target - 1.0, abs_tol=1e-12):
                yield f"{design.key} {family}: a gap of {entry['gap']} does not follow from its parameters"
            if design.sizing == MATCHED and not abs(entry["gap"]) <= LARGEST_GAP:
                yield f"{design.key} {family}: {entry['gap']:+.1%} parameters; matched means within {LARGEST_GAP:.1%}"


def check_cell(run: Run, design: Design, family: str, entry: Record) -> Reasons:
    """One cell's entry is that of its family and width, and the one that is declared; yields what is not so."""
    if entry["family"] != family:
        yield f"is recorded as a candidate of {entry['family']}"
    width = design.shape.width
    if (design.sizing != MATCHED or family == ALPHABET) and entry["width"] != width:
        yield f"has width {entry['width']}; this design's is {width}"
    if family == ALPHABET and entry["choice"] != [design.shape.modes]:
        yield f"has modes {entry['choice']}; this design's are {design.shape.modes}"
    sizes = run.plan.declarations.designs
    declared = read_candidates().get((design.sizing, width, family))
    if declared is None or (sizes.channels, sizes.outputs) != (DECLARED_CHANNELS, DECLARED_OUTPUTS):
        return  # a design of another file, of which this package knows no sizes
    found = tuple(entry["choice"]), entry["width"], entry["parameters"]
    if found != (declared.choice, declared.width, declared.parameters):
        yield (
            f"choice {entry['choice']}, width {entry['width']}, {entry['parameters']} parameters; its candidate has "
            f"{list(declared.choice)}, {declared.width}, {declared.parameters}"
        )
