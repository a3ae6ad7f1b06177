"""Forgeries that an evaluator once accepted, by the number of the review's point; each closes the chain again.

A forgery changes an `EvidenceCopy`, of version 1 or 2, as someone would who knows the format: whatever follows from
what it changes is recomputed, so that only the rule that it breaks can find it.
"""

from alphabet_audit.declare.designs import ALPHABET

from alphabet_testing.audit import review_choices as choices
from alphabet_testing.audit import review_timing as timing
from alphabet_testing.audit.review_manifests import (
    MATCHED,
    SAME,
    cell,
    manifest,
    nested,
    relabelled_cuda,
    relabelled_cuda_in_full,
    stripped_hashes,
)
from alphabet_testing.audit.review_timing import everywhere

# By the number of the review's point, then by name.
FORGERIES = {
    1: {
        "the fastest candidate removed from every choice": choices.without_the_fastest,
        "an invented candidate": choices.invented_candidate,
        "candidates with neither samples nor reason": choices.emptied_candidates,
        "one sample instead of seven": choices.single_samples,
        "the fastest excused by a reason": choices.excused_fastest,
        "candidates that were never compared": choices.timed_without_comparison,
    },
    2: {"a CPU run relabelled": relabelled_cuda, "relabelled with all that a GPU has": relabelled_cuda_in_full},
    3: {
        "a smaller model under the same width": cell(SAME, "gru", width=32, parameters=3957),
        "another size of the same candidate": cell(SAME, "gru", parameters=14020),
        "another choice": cell(SAME, "gru", choice=[2, 32]),
        "a width of minus one": cell(MATCHED, "gru", width=-1),
        "no choice": cell(MATCHED, "gru", choice=None),
        "an empty choice": cell(MATCHED, "gru", choice=[]),
        "a negative count": cell(MATCHED, "gru", parameters=-6437),
        "a count that is true": cell(MATCHED, "gru", parameters=True),
        "an absurd count": cell(SAME, "gru", parameters=10**15),
        "another family's entry": cell(MATCHED, "gru", family="lstm"),
        "ALPHABET with other modes": cell(SAME, ALPHABET, choice=[8]),
    },
    4: {
        "gates and choices behind all timing": timing.gates_after_timing,
        "choices behind all timing": timing.choices_after_timing,
        "a gate between warm-ups and groups": timing.gate_between_warmups_and_groups,
        "a resume without a session": timing.resumed_without_session,
        "two rows exchanged": timing.rows_exchanged,
    },
    9: {"an error beside plain torch's own": timing.wrong_beside_wrong_torch},
    10: {
        "null rows of five": timing.null_rows(timing.five_times_itself),
        "null rows of exactly one": timing.null_rows(timing.exactly_itself),
    },
    11: {
        "samples a millionth of their calibration": timing.far_from_calibration,
        "a calibration of one probe": timing.one_probe,
    },
    12: {"samples copied within a row": timing.groups_copied, "samples of a trial copied": choices.trials_copied},
    13: {
        "an integer beyond all floats": everywhere("start", "seed", 10**5000),
        "seconds that overflow": everywhere("start", "calibration", {"A": [[1, 5e-324]], "B": [[1, 5e-324]]}),
        "a list in the place of a key": everywhere("group", "key", ["a"]),
        "a list in the place of a kind": everywhere("session", "kind", []),
        "a mapping in the place of an order": everywhere("group", "order", {}),
        "a list in the place of a verdict": everywhere("gate", "verdict", [[]]),
        "half of a surrogate pair": everywhere("row", "design", "\ud800"),
        "a device in a list": manifest(device=["cpu"]),
        "a kind in a list": manifest(kind=["ledger"]),
        "a scope in a list": manifest(plan__scope=["all"]),
        "a commit in a list": manifest(environment__git=["banana"]),
        "cells in a list": manifest(cells=[[]]),
        "a deep list": manifest(environment__device=nested(90)),
        "half of a surrogate pair in the manifest": manifest(environment__device__name="\udfff"),
        "a huge integer in the manifest": manifest(environment__threads__torch=10**400),
    },
    14: {
        "a banana for a commit": manifest(environment__git={"commit": "banana", "dirty": False}),
        "any word for a date": manifest(created="yesterday"),
        "a 32nd day": manifest(created="2026-01-32T10:00:00+00:00"),
        "an empty state": everywhere("session", "state", {}),
        "stripped hashes": stripped_hashes,
        "a clock of its own": everywhere("session", "clock", "sundial"),
    },
}
CASES = [(point, name) for point, found in FORGERIES.items() for name in found]
