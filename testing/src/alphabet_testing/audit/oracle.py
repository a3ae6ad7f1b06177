"""What must be refused: the oracle of forgeries, written apart from the evaluator, one change at a time.

`MUST` be refused, because it contradicts itself, its plan or its form; `FREE`, because an honest run can say the same;
or `UNKNOWN`.
"""

import statistics

from alphabet_audit.declare.declarations import read_declarations

MUST, FREE, UNKNOWN = "must be refused", "free", "unknown"
RULES = read_declarations().tolerances
# What parts answer in a process restricted to AVX2 and in a free one, and the variables of a restricted one.
NARROW = {"torch": "AVX2", "onednn": "Intel AVX2", "mkl": "Intel(R) Architecture processors",
          "numba": "skylake-avx512: avx,avx2,fma"}  # fmt: skip
WIDE = {"torch": "AVX512", "onednn": "Intel AVX-512 with Intel DL Boost", "mkl": "Intel(R) AVX-512 enabled processors",
        "numba": "skylake-avx512: avx,avx2,avx512f,fma"}  # fmt: skip
SET = {
    "ATEN_CPU_CAPABILITY": "avx2", "DNNL_MAX_CPU_ISA": None, "MKL_CBWR": None, "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "NUMBA_CPU_FEATURES": "+avx,+avx2,-avx512f,+fma", "NUMBA_CPU_NAME": None, "ONEDNN_MAX_CPU_ISA": "AVX2",
    "TORCHINDUCTOR_CPP_MARCH": "x86-64-v3",
}  # fmt: skip
ODD_VARIABLES = (None, "", "avx512", "AVX512_CORE", "+avx,+avx2,+avx512f", "+avx2,+avx10.2-512", "-avx2", "native")


def same(before, after):
    """Whether two values are the same, to the type: True is not one."""
    if type(before) is not type(after):
        return False
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(same(before[name], after[name]) for name in before)
    if isinstance(before, list):
        return len(before) == len(after) and all(map(same, before, after))
    return before == after


def is_number(value, low, high):
    return type(value) in (int, float) and low <= value <= high


def is_line(value, least=0):
    return (
        isinstance(value, str)
        and least <= len(value) <= 1000
        and all(c.isprintable() and not 0xD800 <= ord(c) <= 0xDFFF for c in value)
    )


def find(value, path):
    """What is at a path; None where there is nothing."""
    for name in path:
        try:
            value = value[name]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def judge_record(before, after, path, forged):
    """What the oracle says of one change in one record."""
    kind, name, new = before["kind"], path[0], find(after, path)
    if not alike(before, after):
        return shape_changed(kind, name, before, after)
    if name == "manifest" and kind == "begin":
        return FREE  # which closing the chain sets
    if name == "warmups" and kind in ("start", "resume"):
        return judge_warmup(new, path[1], before["key"], forged)
    if kind == "session":
        return judge_session(name, new, path, forged)
    if "readings" in path:
        return judge_reading(find(after, path[:-1]), path[-1])
    if kind == "choice" and "seconds" in path:
        return judge_samples(before, after, path)
    if kind == "start" and name == "calibration":
        return UNKNOWN if is_number(new, 1e-9, 86400) and path[-1] == 1 else MUST
    if kind == "parity" and name == "detail":
        return FREE if is_line(new) else MUST
    if kind == "choice" and path[-1] == "reason":
        return FREE if find(before, path) and is_line(new, 1) else MUST
    return MUST


def judge_warmup(seconds, arm, key, forged):
    """A warm-up may be as long as it likes, since it may compile, but not a thousand times too fast."""
    start = next((r for r in forged.records if r.get("kind") == "start" and r.get("key") == key), None)
    try:
        fastest = min(taken / repeats for repeats, taken in start["calibration"][arm])
    except (TypeError, KeyError, ValueError, ZeroDivisionError):  # changed as well, which is judged apart
        return UNKNOWN
    return FREE if is_number(seconds, max(1e-9, fastest / 1000), 86400) else MUST


def alike(before, after):
    """Whether two values have the same names, lengths and types, so that only leaves differ."""
    if isinstance(before, dict):
        return (
            isinstance(after, dict) and list(before) == list(after) and all(alike(before[n], after[n]) for n in before)
        )
    if isinstance(before, list):
        return isinstance(after, list) and len(before) == len(after) and all(map(alike, before, after))
    numbers = (int, float)
    return type(before) is type(after) or (type(before) in numbers and type(after) in numbers)


def shape_changed(kind, name, before, after):
    """What the oracle says where something is missing, too much, or of another type."""
    if kind == "begin" and name == "manifest":
        return FREE if after.keys() | {"manifest"} == before.keys() else MUST
    if kind == "session" and name == "state":
        return UNKNOWN
    return UNKNOWN if kind == "parity" and not before["readings"] else MUST


def judge_session(name, new, path, forged):
    if name == "state":
        return FREE if (is_number(new, 0, 1e6) if path[1] == "load" else is_line(new)) else MUST
    return UNKNOWN if name == "begun" else MUST


def judge_reading(reading, name):
    """A reading by itself: its error within its limit, which follows from plain torch's own error."""
    numbers = [reading.get(each) for each in ("error", "plain", "limit")]
    if name in ("quantity", "rule") or not all(type(each) in (int, float) for each in numbers):
        return MUST
    error, plain, limit = numbers
    rule = RULES[reading["rule"]]
    holds = 0 <= error <= limit and 0 <= plain <= rule.ceiling and limit == max(rule.floor, rule.slack * plain)
    return FREE if holds else MUST


def judge_samples(before, after, path):
    """A choice with one sample changed: by medians, written out."""
    new = find(after, path)
    if not is_number(new, 1e-9, 86400):
        return MUST
    timed = [each for each in after["candidates"] if each["seconds"]]
    fastest = min(timed, key=lambda each: statistics.median(each["seconds"]))
    return FREE if fastest["name"] == after["chosen"] else MUST


def judge_manifest(before, after, path, records):
    """What the oracle says of one change in the manifest."""
    new = find(after, path)
    if path[0] == "created" and isinstance(new, str):
        return UNKNOWN
    if path[:2] == ["environment", "vectors"] and "vectors" not in after["environment"]:
        return UNKNOWN  # runs from before it was recorded have none
    if path[0] != "environment" or len(path) < 3 or set(after["environment"]) != set(before["environment"]):
        return MUST
    section, place = path[1], path[2:]
    if section == "system" and alike(before, after):
        return UNKNOWN if place == ["python"] else FREE if is_line(new, 1) else MUST
    if (
        section == "device"
        and place == ["cores"]
        and set(after["environment"]["device"]) == set(before["environment"]["device"])
    ):
        return FREE if new is None or fits_cores(after) else MUST  # some systems do not tell
    if section == "device" and alike(before, after):
        return FREE if place == ["name"] and is_line(new, 1) else MUST
    if section in ("sources", "libraries", "imports") and alike(before, after):
        return FREE if isinstance(new, str) and len(new) == 64 and set(new) <= set("0123456789abcdef") else MUST
    if section == "vectors":
        names = ("torch", "onednn", "mkl", "numba")
        known = place[0] in names and set(find(after, path[:2])) == set(find(before, path[:2]))
        return FREE if known and (is_line(new, 1) or (new is None and place[0] in names[1:3])) else MUST
    if section == "threads" and alike(before, after):
        return FREE if place[0] == "variables" or (is_number(new, 1, 1e5) and fits_cores(after)) else MUST
    if section == "git" and alike(before, after) and place == ["commit"]:
        return FREE if isinstance(new, str) and len(new) in (40, 64) and set(new) <= set("0123456789abcdef") else MUST
    if section in ("versions", "threads", "imports"):
        return UNKNOWN
    return MUST


def fits_cores(manifest):
    """Whether no more cores could be used than there are."""
    cores, usable = manifest["environment"]["device"].get("cores"), manifest["environment"]["threads"].get("usable")
    return cores is None or (is_number(cores, 1, 1e5) and type(cores) is int and usable <= cores)
