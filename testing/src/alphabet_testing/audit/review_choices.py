"""Forgeries of the review in which another execution is chosen than the fastest (points 1 and 12)."""

import copy

from alphabet_audit.declare.designs import ALPHABET
from alphabet_audit.protocol.execution_choice import choose_fastest, read_trial


def of(run, kind):
    return [record for record in run.records if record["kind"] == kind]


def choose_again(run):
    """Every choice and whatever was timed by it, as the samples that are left say."""
    chosen = {}
    for choice in of(run, "choice"):
        choice["chosen"] = choose_fastest(map(read_trial, choice["candidates"]))
        chosen[choice["key"]] = choice["chosen"]
    for start in of(run, "start"):
        sizing, _, family, phase = start["key"].split()
        if family != ALPHABET:
            start["execution"] = chosen[f"{sizing} {family} {phase}"]


def without_the_fastest(run):
    for choice in of(run, "choice"):
        choice["candidates"] = [each for each in choice["candidates"] if each["name"] != choice["chosen"]]
    choose_again(run)


def invented_candidate(run):
    for choice in of(run, "choice"):
        made = copy.deepcopy(next(each for each in choice["candidates"] if each["seconds"]))
        choice["candidates"].append({**made, "name": "magic", "seconds": [1e-6 + 1e-9 * n for n in range(7)]})
    choose_again(run)


def emptied_candidates(run):
    for choice in of(run, "choice"):
        for each in choice["candidates"]:
            if each["name"] != choice["chosen"]:
                each |= {"seconds": [], "readings": [], "reason": ""}


def single_samples(run):
    for choice in of(run, "choice"):
        for each in choice["candidates"]:
            each["seconds"] = each["seconds"][:1]
    choose_again(run)


def excused_fastest(run):
    for choice in of(run, "choice"):
        for each in choice["candidates"]:
            if each["name"] == choice["chosen"]:
                each |= {"seconds": [], "readings": [], "reason": "RuntimeError: out of memory"}
    choose_again(run)


def timed_without_comparison(run):
    for choice in of(run, "choice"):
        for each in choice["candidates"]:
            each["readings"] = []


def trials_copied(run):
    first, second, *_ = of(run, "choice")
    second["candidates"][0]["seconds"] = list(first["candidates"][0]["seconds"])
    choose_again(run)
