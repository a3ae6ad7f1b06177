"""A generator of forgeries: a parsed run, mutated by someone who knows the format and closes the chain again.

Every forgery comes with what an oracle (`oracle.py`) says of it, by what was done and not by what the evaluator checks.
"""

import copy
import random
from dataclasses import dataclass, field

from alphabet_audit.declare.verdicts import FAIL
from alphabet_audit.errors import AuditError
from alphabet_audit.evidence.canonical import GENESIS, encode, hash_of
from alphabet_audit.evidence.chain import MANIFEST, identity_of, require_version
from alphabet_audit.evidence.schema import check_manifest_form, check_record_forms
from alphabet_audit.judge.evaluate import Evaluation, judge_formed

from alphabet_testing.audit.oracle import (
    FREE,
    MUST,
    NARROW,
    ODD_VARIABLES,
    SET,
    UNKNOWN,
    WIDE,
    judge_manifest,
    judge_record,
    same,
)
from alphabet_testing.audit.record_faults import summarize_again

CHAINED = ("index", "previous")  # which closing the chain sets
WORDS = ("", "x", "nan", "inf", "pass", "timed", "a\nline", "\ud800", "\x1b[2J", "<b>", "é", "0", "x" * 2000)
ODD = (None, True, False, [], {}, [1], {"A": 1}, -1, 10**30, 10**400, 1e300, -0.5, "", "nan", "x", "\ud800", [[[]]])


@dataclass
class Forgery:
    """A forged run. said: what the oracle says; done: what was done, in words.

    formed: the ids of records that are well formed in a version, those of the run that was forged
    """

    manifest: dict
    records: list
    copies: dict
    formed: frozenset
    version: int
    said: str = FREE
    done: list = field(default_factory=list)

    def judge(self, declarations):
        """The evaluator's verdict once numbers, beginning and head follow from what was done."""
        for place, record in enumerate(self.records):
            if record.get("index") != place:
                self.records[place] = {**record, "index": place}
        if self.records and self.records[0].get("kind") == "begin":
            self.records[0] = {**self.records[0], "manifest": identity_of(self.manifest)}
        head = hash_of(encode(self.records[-1])) if self.records else GENESIS
        self.manifest |= {"head": head, "records": len(self.records)}
        found = self.find_misfits()
        if found:
            return Evaluation(FAIL, tuple(found))
        return judge_formed(self.manifest, self.records, self.copies, declarations)

    def find_misfits(self):
        """What is not well formed, as `evaluate_records` asks first, of what is not known to be.

        It spares half of the time; that the verdict on disk is the same has a test of its own.
        """
        try:
            require_version(self.manifest, MANIFEST)
        except AuditError as error:
            return [str(error)]
        version = self.manifest["version"]
        known = self.formed if version == self.version else ()
        changed = [record for record in self.records if id(record) not in known]
        return [*check_manifest_form(self.manifest), *check_record_forms(changed, version)]

    def note(self, said, what):
        self.said = MUST if MUST in (said, self.said) else UNKNOWN if UNKNOWN in (said, self.said) else FREE
        self.done.append(what)


class Forger:
    """Makes forgeries of one run; the same seed makes the same."""

    def __init__(self, run, seed):
        self.run, self.rng = run, random.Random(seed)
        self.kinds = {}
        for place, record in enumerate(run.records):
            self.kinds.setdefault(record["kind"], []).append(place)
        self.version = run.manifest["version"]
        assert not list(check_record_forms(run.records, self.version))
        self.formed = frozenset(map(id, run.records))

    def begin(self):
        """The run itself, to be forged; records are shared until they are changed."""
        manifest, records = copy.deepcopy(self.run.manifest), list(self.run.records)
        return Forgery(manifest, records, self.run.copies, self.formed, self.version)

    def make(self):
        """One forgery: a change of the structure, or of one to three fields of different records."""
        forged = self.begin()
        if self.rng.random() < 0.25:
            self.rng.choice((self.drop, self.double, self.move, self.swap, self.insert_session, self.insert_resume,
                             self.rewrite_samples, self.copy_row, self.exchange_arms,
                             self.change_vectors))(forged)  # fmt: skip
            return forged
        kinds = self.rng.sample(sorted(self.kinds), min(self.rng.choice((1, 1, 1, 2, 3)), len(self.kinds)))
        in_manifest = self.rng.randrange(5)  # once at most: a second change could undo the first
        for number, kind in enumerate(kinds):
            if number == in_manifest:
                self.change_manifest(forged)
            else:
                self.change_record(forged, self.rng.choice(self.kinds[kind]))
        return forged

    def change_record(self, forged, place):
        before = {name: value for name, value in forged.records[place].items() if name not in CHAINED}
        record = copy.deepcopy(before)
        path = self.change_leaf(record)
        if same(before, record):
            return
        forged.records[place] = {**{name: forged.records[place][name] for name in CHAINED}, **record}
        kind = before["kind"]
        forged.note(judge_record(before, record, path, forged), f"record {place} ({kind}): {path}")

    def change_manifest(self, forged):
        before = copy.deepcopy(forged.manifest)
        path = self.change_leaf(forged.manifest)
        if path[0] in ("head", "records") or same(before, forged.manifest):
            forged.manifest = before  # which closing the chain sets anyway
            return
        forged.note(judge_manifest(before, forged.manifest, path, forged.records), f"manifest: {path}")

    def change_leaf(self, value):
        """Change something inside a value: a leaf, a name or an entry; returns the path to it."""
        path = []
        while True:
            names = list(value) if isinstance(value, dict) else list(range(len(value)))
            if not names:
                return [*path, "empty"]
            name = self.rng.choice(names)
            path.append(name)
            inner = value[name]
            if isinstance(inner, dict | list) and inner and self.rng.random() < 0.85:
                value = inner
                continue
            self.change_entry(value, name)
            return path

    def change_entry(self, value, name):
        rng, inner = self.rng, value[name]
        what = rng.random()
        if what < 0.08:
            del value[name]
        elif what < 0.12 and isinstance(value, dict):
            value[rng.choice(WORDS[1:])] = inner
        elif what < 0.16 and isinstance(value, list):
            value.insert(name, copy.deepcopy(inner))
        elif what < 0.45 or isinstance(inner, dict | list):
            value[name] = copy.deepcopy(rng.choice(ODD))
        elif isinstance(inner, bool) or inner is None:
            value[name] = rng.choice((True, False, None, "word", 3))
        elif isinstance(inner, int):
            value[name] = inner + rng.choice((-1, 1, 2, 1000, -inner - 1, inner))
        elif isinstance(inner, float):
            value[name] = inner * rng.choice((0.5, 2.0, 1.0 + 1e-6, 1.0 - 1e-3, 1e-5, 1e5, -1.0, 0.0))
        else:
            value[name] = rng.choice((inner + "0", inner[:-1], inner[::-1], inner.upper(), rng.choice(WORDS)))

    # Changes of the structure.

    def drop(self, forged):
        place = self.pick()
        record = forged.records.pop(place)
        # A later session that interrupted no row leaves no other trace: without it the run is one session shorter.
        traceless = record["kind"] == "session" and place > 1 and forged.records[place]["kind"] != "resume"
        forged.note(FREE if traceless else MUST, f"record {place} dropped")

    def double(self, forged):
        place = self.pick()
        record = forged.records[place]
        forged.records.insert(place, record)
        # A session may begin twice before anything else is done.
        forged.note(FREE if record["kind"] == "session" else MUST, f"record {place} doubled")

    def move(self, forged):
        place = self.pick()
        record = forged.records.pop(place)
        to = max(1, min(len(forged.records), place + self.rng.choice((-50, -3, -2, -1, 1, 2, 3, 50))))
        forged.records.insert(to, record)
        passed = forged.records[place:to] if to > place else forged.records[to + 1 : place + 1]
        if to != place:  # past sessions alone, which may begin anywhere between rows, nothing is out of its order
            sessions = all(each["kind"] == "session" for each in passed) or record["kind"] in ("session", "resume")
            forged.note(UNKNOWN if sessions else MUST, f"record {place} moved to {to}")

    def swap(self, forged):
        """Two records of a kind exchange everything but their place and their key."""
        kind = self.rng.choice([kind for kind, found in self.kinds.items() if len(found) > 1 and kind != "session"])
        one, other = self.rng.sample(self.kinds[kind], 2)
        first, second = forged.records[one], forged.records[other]
        if kind == "resume":
            return
        kept = ("key", "index")
        forged.records[one] = {**second, **{name: first[name] for name in kept}}
        forged.records[other] = {**first, **{name: second[name] for name in kept}}
        plain = [
            {name: value for name, value in each.items() if name not in (*kept, "previous")} for each in (first, second)
        ]
        judged = UNKNOWN if kind in ("gate", "after", "parity", "choice") else MUST
        if plain[0] != plain[1]:
            forged.note(judged, f"{kind}: records {one} and {other} exchanged")

    def insert_session(self, forged):
        place = self.pick()
        session = copy.deepcopy(next(record for record in forged.records if record["kind"] == "session"))
        if session.get("begun"):
            later = [r["begun"] for r in forged.records[:place] if r["kind"] == "session"]
            session["begun"] = max([session["begun"], *later])
        forged.records.insert(place, session)
        due = forged.records[place + 1]["kind"]
        if due in ("resume", "session"):
            forged.note(FREE, f"session before the {due} at {place}")
        elif self.is_between_rows(place):
            forged.note(FREE, f"session between rows at {place}")
        elif self.rng.random() < 0.5:
            key = forged.records[place + 1]["key"]
            start = next(r for r in forged.records if r["kind"] == "start" and r["key"] == key)
            copied = self.rng.random() < 0.5
            factor = 1.0 if copied else self.rng.uniform(1.01, 1.1)
            warmups = {arm: [seconds * factor for seconds in taken] for arm, taken in start["warmups"].items()}
            resume = {"kind": "resume", "key": key, "warmups": warmups, "previous": GENESIS, "index": 0}
            forged.records.insert(place + 1, resume)
            said = "a copy of its start's warm-ups" if copied else "warm-ups of its own"
            forged.note(MUST if copied else FREE, f"session and resume with {said} at {place}")
        else:
            forged.note(MUST, f"session without warm-ups at {place}")

    def insert_resume(self, forged):
        place = self.pick()
        start = forged.records[self.rng.choice(self.kinds["start"])]
        before = forged.records[place - 1]["kind"]
        resume = {"kind": "resume", "key": start["key"], "warmups": start["warmups"], "previous": GENESIS, "index": 0}
        forged.records.insert(place, resume)
        forged.note(UNKNOWN if before == "session" else MUST, f"resume at {place}")

    def rewrite_samples(self, forged):
        """A row's samples rewritten within what its calibration explains, and the numbers that follow: undetectable."""
        rows = [place for place in self.kinds["row"] if forged.records[place]["opponent"] != "alphabet"]
        key = forged.records[self.rng.choice(rows)]["key"]
        factor = self.rng.uniform(0.2, 5.0)
        for place in [*self.kinds["group"], *self.kinds["row"]]:
            record = forged.records[place]
            if record["key"] == key:
                record = forged.records[place] = copy.deepcopy(record)
                if record["kind"] == "group":
                    noise = [factor * self.rng.uniform(0.99, 1.01) for _ in range(4)]
                    record["seconds"] = [s * n for s, n in zip(record["seconds"], noise, strict=True)]
        summarize_again(forged, key)
        forged.note(FREE, f"{key}: samples rewritten")

    def copy_row(self, forged):
        """All groups of a row take the samples of another row's, with the numbers that follow."""
        one, other = (forged.records[place]["key"] for place in self.rng.sample(self.kinds["row"], 2))
        source = [
            forged.records[place]["seconds"] for place in self.kinds["group"] if forged.records[place]["key"] == other
        ]
        place_of = [place for place in self.kinds["group"] if forged.records[place]["key"] == one]
        for place, seconds in zip(place_of, source, strict=False):
            forged.records[place] = {**forged.records[place], "seconds": list(seconds)}
        for place in self.kinds["row"]:
            if forged.records[place]["key"] == one:
                forged.records[place] = copy.deepcopy(forged.records[place])
        if source and place_of:
            summarize_again(forged, one)
            forged.note(MUST, f"{one}: the samples of {other}")

    def exchange_arms(self, forged):
        """The family's samples become ALPHABET's in all groups of a row, and the ratio its inverse."""
        rows = [place for place in self.kinds["row"] if forged.records[place]["opponent"] != "alphabet"]
        key, letters = forged.records[self.rng.choice(rows)]["key"], {"A": "B", "B": "A"}
        for place in [*self.kinds["group"], *self.kinds["row"]]:
            record = forged.records[place]
            if record["key"] == key:
                record = forged.records[place] = copy.deepcopy(record)
                if record["kind"] == "group":
                    record["order"] = "".join(letters[arm] for arm in record["order"])
        summarize_again(forged, key)
        forged.note(MUST, f"{key}: arms exchanged")

    def change_vectors(self, forged):
        """Another claim of a restriction, other answers and other variables, each consistent with it or not."""
        rng, environment = self.rng, forged.manifest["environment"]
        restricted = rng.choice((None, "avx2"))
        narrow, obeyed = rng.choice((True, True, False)), rng.choice((True, restricted is not None))
        answers = dict(NARROW if narrow or rng.random() < 0.7 else WIDE)
        variables = dict(SET if restricted and obeyed else dict.fromkeys(SET))
        odd = []
        if not narrow and restricted:
            part = rng.choice(sorted(WIDE))
            answers[part] = WIDE[part]
            odd.append(part)
        if rng.random() < 0.4:
            name = rng.choice(sorted(SET))
            variables[name] = rng.choice(ODD_VARIABLES)
            odd += [name] if variables[name] != (SET[name] if restricted else None) else []
        if restricted and not obeyed:
            odd.append("variables")
        environment["vectors"] = {"restricted": restricted, "variables": variables, "inductor": None, **answers}
        said = MUST if odd or forged.manifest["version"] == 1 else FREE
        forged.note(said, f"vectors: restricted {restricted}, against it {odd}")

    def pick(self):
        """The place of a record behind the beginning: of any kind as often as of any other."""
        kind = self.rng.choice([kind for kind in self.kinds if kind != "begin"])
        return self.rng.choice(self.kinds[kind])

    def is_between_rows(self, place):
        """Whether no row is open before the record at a place."""
        for record in reversed(self.run.records[:place]):
            if record["kind"] in ("start", "group", "after", "resume"):
                return False
            if record["kind"] in ("row", "begin", "choice", "parity"):
                return True
        return True
